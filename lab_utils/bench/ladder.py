"""The rungs of kernels/ladder on a GPU, beside dense products: rows of the table `ladder`.

They are checked, captured and timed in turns as all contenders are (`cuda`).
"""

from collections.abc import Callable, Sequence
from typing import Self

import pandas as pd
import torch
from torch import Tensor

from lab_utils import ladder, results
from lab_utils.backends import Plan
from lab_utils.baselines import BASELINES, Operand
from lab_utils.bench import cuda
from lab_utils.bench.cases import Case, check_repeats
from lab_utils.bench.measuring import checked_device
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures, rows
from lab_utils.bench.tables import text_table, times
from lab_utils.ladder.rungs import by_name


class EncodedRung(Operand):
    """Weights as a rung reads them, as an operand like those of the baselines."""

    def __init__(self, A: ladder.Encoded, dense: Tensor):
        super().__init__(A.arrays, dense)
        self.A = A

    def clone(self) -> Self:
        return EncodedRung(self.A.clone(), self._dense)


class Climb(cuda.Ours):
    """The kernel of one rung, behind the calls of a baseline."""

    def prepare(self, W: Tensor) -> EncodedRung:
        return EncodedRung(ladder.encode(self.name, W), W)

    def bind(self, operand: EncodedRung, B: Tensor) -> Callable[[], Tensor]:
        C = B.new_full((B.shape[1], operand.shape[0]), torch.nan).T

        def launch() -> Tensor:
            ladder.spmm(operand.A, B, C)
            return C

        return launch

    def plan(self, operand: EncodedRung, B: Tensor) -> Plan:
        return Plan("cuda", self.name, {}, ladder.planned_split_k(operand.A, B.shape[1]))


def measure_ladder(
    case: Case,
    rungs: Sequence[str],
    *,
    device: torch.device | str = "cuda",
    repeats: int = 15,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of `results.COLUMNS["ladder"]` of one case. For `bench.sweep`; arguments of `measure`.

    `dense_us` is the best of all dense baselines of the same run. Raises AssertionError where a
    rung is wrong in any element (unless `leave_out` takes it), ValueError for an unknown rung,
    RuntimeError where there is no GPU.
    """
    device = check(rungs, device)
    check_repeats(repeats)
    weights = weights_of(case, seed, device, weights)
    dense = [baseline for baseline in BASELINES.values() if baseline.dense]
    ways = [*dense, *map(Climb, dict.fromkeys(rungs))]
    found = rows(case, device, *cuda.run_ways(case, weights, ways, repeats, leave_out))
    return [_row(row) for row in found if row["kernel"] in ladder.RUNGS]


def check(rungs: Sequence[str], device: torch.device | str = "cuda") -> torch.device:
    """The device; ValueError unless these are rungs on a GPU, RuntimeError where there is none."""
    for rung in rungs:
        by_name(rung)
    if torch.device(device).type != "cuda":
        raise ValueError(f"device={str(device)!r}; allowed: cuda; the emulator counts, but no time")
    return checked_device(device)


def ladder_summary(rows: pd.DataFrame) -> str:
    """Rows of `ladder` as a table for a terminal, in the order of the rungs."""
    columns = {
        "N": rows.N,
        "rung": rows.rung,
        **times(rows),
        "of limit": rows.byte_limit_fraction.map("{:.0%}".format),
        "speed-up": rows.speedup.map("{:.2f}".format),
    }
    return text_table(rows, columns)


def _row(row: dict) -> dict:
    """What the table keeps of a row of `spmm`."""
    named = row | {"rung": row["kernel"], "format": ladder.RUNGS[row["kernel"]].format}
    return {column: named[column] for column in results.COLUMNS["ladder"]}
