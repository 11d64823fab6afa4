"""What ncu counts of cp.async: rules of analysis/agreement.py, held against rows of an H200."""

import itertools

import pytest

from lab_utils import encode, results, spmm
from lab_utils.backends import emulator
from lab_utils.backends.kernel_trace import Request
from lab_utils.bench.cases import Case
from lab_utils.bench.operands import Weights

SECTOR, LINE, COPY = 32, 128, 16  # bytes


def copies(case: Case) -> list[Request]:
    """Every request of cp.async that TCA-BME's kernel makes, block by block."""
    weights, found = Weights(case, 0, "cpu"), []
    A, B = encode(weights.dense, "tca_bme"), weights.columns(case.N)
    for block in itertools.count():
        with emulator.recording(watch=block) as traces:
            spmm(A, B, backend="emulator")
        if not traces[0].requests:
            return found
        found += [one for one in traces[0].requests if one.place.operation == "cp_async"]


def sectors(one: Request) -> int:
    """Pairs of a sector that is read and a sector that is written."""
    places = zip(one.offsets, one.shared, strict=True)
    return len({(at // SECTOR, to // SECTOR) for at, to in places})


def wavefronts(one: Request) -> int:
    """Of two sectors, each from one line of global memory to one of shared memory."""
    lines: dict[tuple[int, int], set[int]] = {}
    for at, to in zip(one.offsets, one.shared, strict=True):
        lines.setdefault((at // LINE, to // LINE), set()).add(at // SECTOR)
    return sum((len(read) + 1) // 2 for read in lines.values())


@pytest.mark.parametrize("sparsity", [0.5, 0.8])
def test_ncu_counts_copies_by_where_they_come_from_and_go_to(sparsity) -> None:
    case = Case(256, 512, 8, sparsity, "fp16")
    rows = results.measured("counts")
    rows = rows[rows.kernel.eq("tca_bme_mma") & rows.device.eq("h200") & rows.split_k.eq(1)]
    rows = rows[rows.N.eq(case.N) & rows.sparsity.eq(sparsity)].set_index("metric")
    made = copies(case)
    assert sum(map(sectors, made)) == rows.ncu["sectors of cp.async"]
    ours = sum(map(wavefronts, made))
    assert ours == pytest.approx(rows.ncu["wavefronts of cp.async"], rel=0.03)
    assert sum(one.counts.wavefronts for one in made) == rows.emulator["wavefronts of cp.async"]
