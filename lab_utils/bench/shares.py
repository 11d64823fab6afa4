"""Is the number of workers that the plan chooses a good one? Its time beside those of others.

backends/shares.py chooses by a model; here the same product is timed with every number that keeps
the SMs evenly busy, and with every one that cuts the rows of A alike.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd
import torch

from lab_utils.backends import published
from lab_utils.backends.shares import MODELS
from lab_utils.bench import anatomy
from lab_utils.bench.cases import Case, check_repeats
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures
from lab_utils.bench.turns import Product, Way, timed_in_turns
from lab_utils.formats import SparseMatrix
from lab_utils.results import CASE

WAVES = 3  # as many workers as fit at once, up to so many times


def measure_shares(
    case: Case,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cuda",
    repeats: int = 9,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of `results.COLUMNS["shares"]`: each kernel with many numbers of workers, one chosen.

    For `bench.sweep`; takes what `measure` does. Raises AssertionError where a kernel is wrong in
    any element, ValueError for an unknown format, RuntimeError where there is no GPU.
    """
    device = torch.device(device)
    check_repeats(repeats)
    check(formats, device)
    weights = weights_of(case, seed, device, weights)
    ways = partial(_ways, case, weights, repeats)
    return timed_in_turns(case, formats, ways, device, leave_out)


def check(formats: Sequence[str], device: torch.device | str = "cuda") -> None:
    """Raise ValueError unless these kernels share tiles, RuntimeError where they cannot run."""
    for format in formats:
        if format not in MODELS:
            raise ValueError(f"format={format!r}: no model of shares; allowed: {', '.join(MODELS)}")
    anatomy.check(formats, device)


def candidates(rows: int, tiles: int, sms: int, blocks_per_sm: int) -> list[int]:
    """Numbers of workers to try for `rows` rows of blocks with so many `tiles` in all."""
    slots = sms * blocks_per_sm
    even = (sms * n for n in range(1, blocks_per_sm))
    aligned = range(rows, WAVES * slots, rows)
    waves = (slots * n for n in range(1, WAVES + 1))
    return sorted({n for n in (*even, *aligned, *waves) if n <= tiles})


def regrets(rows: pd.DataFrame) -> pd.DataFrame:
    """How much slower the chosen number is than the best, as a fraction, for each case."""
    keys = ["device", "kernel", *CASE]
    best = rows.loc[rows.groupby(keys).time_us.idxmin()].set_index(keys)
    chosen = rows[rows.chosen.astype(bool)].set_index(keys)
    table = pd.DataFrame({"chosen": chosen.workers, "best": best.workers})
    return table.assign(slower=chosen.time_us / best.time_us - 1).reset_index()


def share_summary(rows: pd.DataFrame) -> str:
    """Rows of `shares` as a table for a terminal: the chosen number beside the best."""
    table = regrets(pd.DataFrame(rows)).drop(columns=["device", "pattern", "dtype"])
    shown = table.assign(slower=table.slower.map("{:.1%}".format)).to_string(index=False)
    over = (table.slower > 0.05).sum()
    return f"{shown}\n{over} of {len(table)} choices are more than 5 % slower than the best"


def _ways(
    case: Case, weights: Weights, repeats: int, format: str, pool: tuple
) -> Iterator[tuple[dict, Way]]:
    """What tells the rows of a format apart, and the launches to time."""
    product = Product.checked(case, weights, format)
    rows, numbers = _numbers(product.A, case.N)
    chosen = round(product.plan.split_k * rows)
    for workers in sorted({*numbers, chosen}):
        what = {"workers": workers, "chosen": int(workers == chosen)}
        way = product.way(repeats, pool, split_k=workers / rows)
        yield {"kernel": product.plan.kernel} | what, way


def _numbers(A: SparseMatrix, N: int) -> tuple[int, list[int]]:
    """Rows of blocks, and the numbers of workers to try."""
    shape = published.shape_of(A, N)
    rows, columns = published.rows_of(A, shape), -(-N // shape.block_n)
    sms = torch.cuda.get_device_properties(A.device).multi_processor_count // columns
    tiles = rows * -(-A.shape[1] // published.TILE_K)
    return rows, candidates(rows, tiles, max(1, sms), shape.blocks_per_sm)
