"""The profiler's counters of our kernels, and of cuBLAS beside them: rows of `counters`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import pandas as pd

from lab_utils.analysis.anatomy import (
    FACTS,
    STALL_PREFIX,
    STALL_SUFFIX,
    TIME,
    UNITS,
    by_metric,
    facts,
)
from lab_utils.bench import nsight
from lab_utils.bench.anatomy import check
from lab_utils.bench.cases import Case
from lab_utils.bench.nsight import Launch, number
from lab_utils.bench.profiled import CUBLAS
from lab_utils.machine import stamp

METRICS = tuple(dict.fromkeys([*UNITS.values(), *FACTS.values()]))


def measure_counters(cases: Iterable[Case], formats: Sequence[str], *, seed: int = 0) -> list[dict]:
    """Rows of `results.COLUMNS["counters"]` for the kernels of `formats`, and for cuBLAS.

    cuBLAS, which does not care for zeros, is measured once for each M, K and N, and its rows have
    sparsity 0. Raises RuntimeError where there is no GPU or no `ncu`, or where it fails, with what
    it said.
    """
    check(formats)
    jobs = list(jobs_of(cases, formats))
    listed = [[kernel, asdict(case)] for kernel, case in jobs]
    stalls = ("--section", "WarpStateStats")
    found = nsight.profile("lab_utils.bench.profiled", listed, seed, METRICS, *stalls)
    common = stamp("cuda")
    return [
        common | _columns(job) | columns | row
        for job, (columns, launches) in zip(jobs, found, strict=True)
        for row in rows_of(longest(launches))
    ]


def counter_summary(rows: list[dict]) -> str:
    """Rows of `counters` as a table for a terminal: units in %, and facts."""
    counters = pd.DataFrame(rows)
    units = by_metric(counters)[list(UNITS.values())].set_axis(list(UNITS), axis="columns")
    table = units.join(facts(counters)).droplevel(["device", "pattern", "dtype"])
    return table.T.to_string(float_format="{:.1f}".format)


def jobs_of(cases: Iterable[Case], formats: Sequence[str]) -> Iterator[tuple[str, Case]]:
    """(kernel, case): formats of all cases, and cuBLAS with the first case of each M, K and N."""
    seen = set()
    for case in cases:
        yield from ((format, case) for format in formats)
        product = (case.M, case.K, case.N, case.dtype)
        if product not in seen:
            seen.add(product)
            yield CUBLAS, case


def _columns(job: tuple[str, Case]) -> dict:
    kernel, case = job
    dense = {"sparsity": 0.0, "pattern": "random"} if kernel == CUBLAS else {}
    return asdict(case) | dense


def longest(launches: list[Launch]) -> Launch:
    """Of several launches of a product, the one that takes the most time."""
    return max(launches, key=lambda launch: number(launch[TIME][1]))


def rows_of(launch: Launch) -> Iterator[dict]:
    """metric, unit, value of what we ask for. RuntimeError where the profiler lacks one."""
    nsight.check_measured(launch, METRICS)
    stalls = [n for n in launch if n.startswith(STALL_PREFIX) and n.endswith(STALL_SUFFIX)]
    if not stalls:
        raise RuntimeError("ncu did not measure any reason of stalls")
    for name in (*METRICS, *stalls):
        unit, value = launch[name]
        yield {"metric": name, "unit": unit, "value": float(f"{number(value):.6g}")}
