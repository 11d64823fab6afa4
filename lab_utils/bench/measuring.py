"""One case, and many: check, time, and hand over the rows."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import pandas as pd
import torch

from lab_utils import backends
from lab_utils.bench import cpu, cuda
from lab_utils.bench.cases import Case, check_repeats
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures, rows

DEVICES = {"cpu": cpu, "cuda": cuda}


def default_device() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_formats(device: torch.device | str) -> tuple[str, ...]:
    """What `lab bench` measures unless told otherwise; on a GPU, all that it multiplies."""
    return DEVICES[checked_device(device).type].DEFAULT_FORMATS


def checked_device(device: torch.device | str) -> torch.device:
    """The device of that name. ValueError for an unknown one, RuntimeError where it is missing."""
    kind = str(device).partition(":")[0]
    if kind not in DEVICES:
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
    ValueError for a format that A does not fit, RuntimeError where there is no such device.
    """
    device = checked_device(device)
    check(formats, device, repeats, baselines, isas)
    weights = weights_of(case, seed, device, weights)
    special = isas if device.type == "cpu" else baselines
    run = DEVICES[device.type].run
    return rows(case, device, *run(case, weights, formats, special, repeats, leave_out))


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
    """`run` for every case, one of `measure` and `measure_encoders`; all rows as a DataFrame.

    `keep` takes the rows of each case as soon as they are measured, so that an interrupted sweep
    loses one case. Cases that follow each other and differ in N alone share their weights.
    """
    found: list[dict] = []
    device, cases = checked_device(device), list(cases)
    widest = {}
    for case in cases:
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
