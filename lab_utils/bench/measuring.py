"""One case, and many: check, time, hand over the rows, and a table of them."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import pandas as pd
import torch

from lab_utils import backends
from lab_utils.bench import cpu, cuda
from lab_utils.bench.cases import Case, check_repeats
from lab_utils.bench.operands import Weights, require_memory, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures, rows
from lab_utils.bench.tables import text_table, times

DEVICES = {"cpu": cpu, "cuda": cuda}


def default_device() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_formats(device: torch.device | str) -> tuple[str, ...]:
    """What `lab bench` measures unless told otherwise; on a GPU, all that it multiplies."""
    return DEVICES[checked_device(device).type].DEFAULT_FORMATS


def checked_device(device: torch.device | str) -> torch.device:
    """The device of that name. ValueError for an unknown one, RuntimeError where it is missing."""
    kind, _, number = str(device).partition(":")
    if kind not in DEVICES or (number and not (kind == "cuda" and number.isdecimal())):
        raise ValueError(f"device={str(device)!r}; allowed: {', '.join(DEVICES)}")
    if kind == "cuda" and (problem := backends.cuda.problem()):
        raise RuntimeError(f"nothing can be measured on a GPU here: {problem}")
    return torch.device(device)


def measure(
    case: Case,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cpu",
    isas: Sequence[str] = (),
    baselines: Sequence[str] | None = None,
    repeats: int = 15,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of one case: the dense products, other baselines, and ours in each of `formats`.

    On the CPU these are torch's dense products and ours; `isas` adds instruction sets to the one
    that is chosen anyway. On a GPU they are `baselines`, names in `lab_utils.baselines`, all of
    them unless given; launches are timed in CUDA graphs. `repeats` is the most times of a kernel.
    `weights` are made from `seed` unless given. `leave_out(case, kernel, why)` hears of what cannot
    run here, as a text, and of what fails, as an exception.
    Raises AssertionError where a contender is wrong in any element (unless `leave_out` takes it),
    ValueError for a format that A does not fit, RuntimeError where there is no such device, or no
    memory.
    """
    device = checked_device(device)
    check(formats, device, repeats, baselines, isas)
    weights = weights_of(case, seed, device, weights)
    special = isas if device.type == "cpu" else baselines
    run = DEVICES[device.type].run
    return rows(case, device, *run(case, weights, formats, special, repeats, leave_out))


def spmm_summary(rows: pd.DataFrame) -> str:
    """Rows of `spmm` as a table for a terminal, the fastest kernel first in each case."""
    rows = rows.sort_values(["M", "K", "sparsity", "N", "time_us"], kind="stable")
    memory = (rows.gb_per_s / rows.byte_limit_fraction).median()
    columns = {
        "N": rows.N,
        "kernel": rows.kernel,
        **times(rows),
        "speed-up": rows.speedup.map("{:.2f}".format),
        "of limit": rows.byte_limit_fraction.map("{:.0%}".format),
        "error": rows.relative_error.map("{:.0e}".format),
    }
    return text_table(rows, columns, f", memory reads {memory:.1f} GB/s")


def sweep(
    cases: Iterable[Case],
    formats: Sequence[str],
    *,
    run: Callable[..., list[dict]] = measure,
    progress: Callable[[list[Case]], Iterable[Case]] = iter,
    keep: Callable[[list[dict]], object] = lambda rows: None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    **options,
) -> pd.DataFrame:
    """`run` for every case; all rows as a DataFrame.

    `run` is `measure`, or another function of a case that takes the same arguments: those of
    `encoders`, `anatomy`, `shares`, `ladder`, `eager` and `energy`. `options` are its own.
    `keep` takes the rows of each case as soon as they are measured, so that an interrupted sweep
    loses one case. Cases that follow each other and differ in N alone share their weights.
    Raises RuntimeError, before any is measured, where the host has no memory for one of them.
    """
    found: list[dict] = []
    device, cases = checked_device(device), list(cases)
    widest = {}
    for case in cases:
        require_memory(case, device)
        widest[case.weights] = max(case, widest.get(case.weights, case), key=lambda one: one.N)
    for key, group in itertools.groupby(progress(cases), lambda case: case.weights):
        weights = None
        for case in group:
            weights = weights or weights_of(widest[key], seed, device)
            measured = run(case, formats, weights=weights, device=device, seed=seed, **options)
            keep(measured)
            found += measured
    return pd.DataFrame(found)


def check(
    formats: Sequence[str],
    device: torch.device,
    repeats: int,
    baselines: Sequence[str] | None = None,
    isas: Sequence[str] = (),
) -> None:
    """Raise ValueError, naming the argument, unless `device` can measure these."""
    check_repeats(repeats)
    DEVICES[device.type].check(formats, baselines, isas)
