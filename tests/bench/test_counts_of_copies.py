"""What ncu counts of cp.async: rules of analysis/agreement.py, held against counts of an H200.

Rows of `counts` hold sums over a kernel. CASES are single instructions: what ncu counts of one warp
that copies 64 times, divided by 64, on an H200 (2026-11-21). How many bytes they copy is not known
to the compiler: for such copies nvcc takes another instruction than for whole ones.
"""

import itertools
from dataclasses import dataclass

import pytest

from lab_utils import encode, results, spmm
from lab_utils.analysis.kernel_trace import Request
from lab_utils.backends import emulator
from lab_utils.bench.cases import Case
from lab_utils.bench.operands import Weights

SECTOR, LINE, COPY = 32, 128, 16  # bytes
Move = tuple[int, int]  # where a lane reads in global memory, and where it writes in shared memory


@dataclass(frozen=True)
class Copies:
    """Lanes that copy 16 bytes each past the L1; steps and `offset` in bytes, then ncu's counts."""

    lanes: int
    shared_step: int
    global_step: int
    offset: int
    wavefronts: int
    sectors: int  # that came from the L2

    def moves(self) -> list[Move]:
        return [(self.offset + lane * self.global_step, lane * self.shared_step)
                for lane in range(self.lanes)]  # fmt: skip


CASES = [
    Copies(32, 16, 16, 0, wavefronts=8, sectors=16),
    Copies(8, 16, 16, 0, wavefronts=2, sectors=4),
    Copies(4, 16, 16, 0, wavefronts=2, sectors=2),
    Copies(2, 16, 16, 0, wavefronts=2, sectors=1),
    Copies(1, 16, 16, 0, wavefronts=2, sectors=1),
    Copies(32, 128, 16, 0, wavefronts=64, sectors=32),
    Copies(32, 32, 16, 0, wavefronts=40, sectors=32),
    Copies(32, 16, 128, 0, wavefronts=64, sectors=32),
    Copies(32, 16, 32, 0, wavefronts=40, sectors=32),
    Copies(32, 16, 16, 16, wavefronts=16, sectors=32),
]


def copies(kernel: str, case: Case) -> list[Request]:
    """Every request of cp.async that a format's kernel makes, block by block."""
    weights, found = Weights(case, 0, "cpu"), []
    A, B = encode(weights.dense, kernel), weights.columns(case.N)
    for block in itertools.count():
        with emulator.recording(watch=block) as traces:
            spmm(A, B, backend="emulator")
        if not traces[0].requests:
            return found
        found += [one for one in traces[0].requests if one.place.operation == "cp_async"]


def moves(one: Request) -> list[Move]:
    return list(zip(one.offsets, one.shared, strict=True))


def sectors(made: list[Move]) -> int:
    """Pairs of a sector that is read and a sector that is written."""
    return len({(at // SECTOR, to // SECTOR) for at, to in made})


def ways(made: list[Move], unit: int) -> list[int]:
    """For each line that is read and line that is written: how differently units change places."""
    lines: dict[Move, set[Move]] = {}
    for at, to in made:
        places = at % LINE // unit, to % LINE // unit
        lines.setdefault((at // LINE, to // LINE), set()).add(places)
    return [min(len({to - at for at, to in units}), len({to ^ at for at, to in units}))
            for units in lines.values()]  # fmt: skip


def wavefronts(made: list[Move], *, partial: bool) -> int:
    """Of copies whose bytes may partly be zeros, or of whole copies."""
    if partial:
        return sum(1 + one for one in ways(made, COPY))
    return max(2, sum(ways(made, SECTOR)))


@pytest.mark.parametrize("case", CASES)
def test_ncu_counts_single_copies_by_the_lines_and_the_shifts_between_them(case) -> None:
    assert sectors(case.moves()) == case.sectors
    assert wavefronts(case.moves(), partial=True) == case.wavefronts


@pytest.mark.parametrize("sparsity", [0.5, 0.8])
@pytest.mark.parametrize(("kernel", "near"), [("tiled_csl", 0), ("tca_bme", 0.005)])
def test_ncu_counts_copies_by_where_they_come_from_and_go_to(kernel, near, sparsity) -> None:
    case = Case(256, 512, 8, sparsity, "fp16")
    rows = results.measured("counts")
    rows = rows[rows.kernel.eq(f"{kernel}_mma") & rows.device.eq("h200") & rows.split_k.eq(1)]
    rows = rows[rows.N.eq(case.N) & rows.sparsity.eq(sparsity)].set_index("metric")
    made = copies(kernel, case)
    assert sum(sectors(moves(one)) for one in made) == rows.ncu["sectors of cp.async"]
    ours = sum(wavefronts(moves(one), partial=one.place.function == "ld_dense") for one in made)
    assert ours == pytest.approx(rows.ncu["wavefronts of cp.async"], rel=near, abs=0)
    assert sum(one.counts.wavefronts for one in made) == rows.emulator["wavefronts of cp.async"]
