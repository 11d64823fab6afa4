"""The emulator's counts beside the profiler's: what is compared with what, and how well it agrees.

The emulator counts requests of the source, from the addresses of their lanes. Nsight Compute counts
instructions of the compiled kernel. Like is compared with like by these metrics of an H200:

- `smsp__inst_executed_op_…_pred_on_any`: instructions with a lane that takes part. Without that
  ending, the loads count that no lane executes: nvcc puts three before each asynchronous copy.
- `smsp__sass_…`: wavefronts and sectors by kind of instruction. Those of local memory (registers
  that were spilled) have metrics of their own, and are in none of these.
- `l1tex__data_pipe_…`: wavefronts that passed the hardware, `_op_misc` those of none of the kinds
  above. The descriptions do not say what these are: compared with shuffles, a wavefront for each.

What ncu counts of cp.async its descriptions do not say either. These rules were found by trying
some on the emulator's requests and on single instructions (tests/bench/test_counts_of_copies.py).
They are of copies of 16 bytes past the L1, and hold for each pair of a line of 128 bytes that
a request reads and one that it writes:

- sectors: one for each pair of a sector read and a sector written. Exact there.
- wavefronts where `valid` is no constant, so that nvcc takes LDGSTS.ZFILL: one, and one more for
  every different shift - or XOR, if these are fewer - between a 16-byte chunk's places in the two
  lines. Exact there: two for a line of B's, swizzled as it is.
- wavefronts of whole copies: one for every different shift of a sector, and two for a request at
  least. Within 0.5 % for TCA-BME's; no single instruction of these was measured.

Where nvcc unrolls a loop of copies, other lanes meet in a request than in the emulator.
"""

from dataclasses import dataclass

import pandas as pd

from lab_utils.results import CASE

LAUNCH = ["device", "kernel", "function", *CASE, "split_k"]


@dataclass(frozen=True)
class Compared:
    """A metric of ncu's, and `field` of the KernelTrace's sums over `operations`, its equal."""

    ncu: str
    field: str
    operations: tuple[str, ...]


def _requests(operation: str, instruction: str) -> Compared:
    metric = f"smsp__inst_executed_op_{instruction}_pred_on_any.sum"
    return Compared(metric, "requests", (operation,))


def _wavefronts(operation: str, instruction: str) -> Compared:
    metric = f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{instruction}.sum"
    return Compared(metric, "wavefronts", (operation,))


def _sectors(operation: str, instruction: str) -> Compared:
    metric = f"smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_{instruction}.sum"
    return Compared(metric, "sectors", (operation,))


SHARED = ("shared_load", "shared_store", "ldmatrix", "cp_async")
HARDWARE = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
COMPARED: dict[str, Compared] = {  # by the names in the column `metric` of the rows
    "mma instructions": Compared("smsp__inst_executed_pipe_tensor.sum", "requests", ("mma",)),
    "shared loads": _requests("shared_load", "shared_ld"),
    "shared stores": _requests("shared_store", "shared_st"),
    "ldmatrix": _requests("ldmatrix", "ldsm"),
    "cp.async": _requests("cp_async", "ldgsts"),
    "global loads": _requests("global_load", "global_ld"),
    "global stores": _requests("global_store", "global_st"),
    "wavefronts of loads": _wavefronts("shared_load", "ld"),
    "wavefronts of stores": _wavefronts("shared_store", "st"),
    "wavefronts of ldmatrix": _wavefronts("ldmatrix", "ldsm"),
    "wavefronts of cp.async": _wavefronts("cp_async", "ldgsts"),
    "wavefronts": Compared(
        "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum", "wavefronts", SHARED
    ),
    "wavefronts in hardware": Compared(f"{HARDWARE}.sum", "wavefronts", SHARED),
    "shuffles": Compared(f"{HARDWARE}_op_misc.sum", "requests", ("shuffle",)),
    "sectors of loads": _sectors("global_load", "ld"),
    "sectors of cp.async": _sectors("cp_async", "ldgsts"),
    "sectors of stores": _sectors("global_store", "st"),
}
EXPLAINED = {  # where a difference is expected, and why
    "shared loads": "nvcc joins loads of neighbours: the bitmaps of two tiles in one of 16 bytes",
    "global loads": "nvcc loads once what the source asks for twice",
    "sectors of cp.async": "ncu counts pairs of a sector read and a sector written: more than "
    "sectors read, where copies begin in the middle of one of them",
    "wavefronts of cp.async": "the emulator's carry 128 bytes to any place, ncu's go from one line "
    "to one line by one shift, and one more for each where a copy may be partial",
    "wavefronts": "those of cp.async, see there",
    "wavefronts in hardware": "the emulator's leave shuffles out",
    "shuffles": "ncu's are wavefronts of none of the known kinds: shuffles, we guess",
}


def agreement(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `counts` by metric: `launches` compared, how many are `equal`, how far the rest is.

    `least` and `most` are the smallest and the largest ncu / emulator. A count that both know to be
    zero is equal; where the emulator alone has zero, the ratio is infinite.
    """
    ratio = (rows.ncu / rows.emulator).where(rows.ncu.ne(rows.emulator), 1.0)
    table = rows.assign(equal=rows.ncu.eq(rows.emulator), ratio=ratio).groupby("metric", sort=False)
    found = table.agg(launches=("equal", "size"), equal=("equal", "sum"),
                      least=("ratio", "min"), most=("ratio", "max"))  # fmt: skip
    return found.assign(expected=[EXPLAINED.get(metric, "") for metric in found.index])


def differences(rows: pd.DataFrame) -> pd.DataFrame:
    """ncu / emulator - 1 where they differ: a line for each launch, a column for each metric."""
    parts = rows[rows.ncu.ne(rows.emulator)]
    parts = parts.assign(off=parts.ncu / parts.emulator - 1)
    return parts.pivot_table("off", LAUNCH, "metric", sort=False)
