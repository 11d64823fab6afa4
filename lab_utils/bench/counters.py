"""The profiler's counters of our kernels, and of cuBLAS beside them: Nsight Compute (`ncu`).

The profiler runs `lab_utils.bench.profiled`, which launches each kernel once between marks; it
empties the caches before every pass, and leaves the clocks as they are.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

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
from lab_utils.bench.anatomy import check
from lab_utils.bench.cases import Case
from lab_utils.bench.profiled import CUBLAS, MARK
from lab_utils.bench.rows import stamp

METRICS = tuple(dict.fromkeys([*UNITS.values(), *FACTS.values()]))
OPTIONS = (
    "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off",
    "--clock-control", "none", "--section", "WarpStateStats", "--metrics", ",".join(METRICS),
)  # fmt: skip


def measure_counters(cases: Iterable[Case], formats: Sequence[str], *, seed: int = 0) -> list[dict]:
    """Rows of `results.COLUMNS["counters"]` for the kernels of `formats`, and for cuBLAS.

    cuBLAS, which does not care for zeros, is measured once for each M, K and N, and its rows have
    sparsity 0. Raises RuntimeError where there is no GPU or no `ncu`, or where it fails, with what
    it said.
    """
    check(formats)
    jobs = list(jobs_of(cases, formats))
    with tempfile.TemporaryDirectory() as folder:
        log, plans = Path(folder) / "log.csv", Path(folder) / "plans.json"
        _run_profiler(jobs, seed, log, plans)
        kernels = main_kernels(list(parse(log.read_text())), len(jobs))
        planned = json.loads(plans.read_text())
    common = stamp("cuda")
    return [
        common | _columns(job) | columns | row
        for job, columns, kernel in zip(jobs, planned, kernels, strict=True)
        for row in rows_of(kernel)
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


def _run_profiler(jobs: list[tuple[str, Case]], seed: int, log: Path, plans: Path) -> None:
    listed = json.dumps([[kernel, asdict(case)] for kernel, case in jobs])
    program = [sys.executable, "-m", "lab_utils.bench.profiled", listed, str(seed), str(plans)]
    command = [_ncu(), *OPTIONS, "--log-file", str(log), *program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not log.exists() or not plans.exists():
        said = (log.read_text() if log.exists() else "") + done.stdout + done.stderr
        lines = [line for line in said.splitlines() if not line.startswith('"')]
        raise RuntimeError("ncu failed: " + "\n".join(lines[-20:]))


def _ncu() -> str:
    """$NCU, or the profiler on the path or in the CUDA toolkit."""
    places = [os.environ.get("NCU"), "ncu", "/usr/local/cuda/bin/ncu"]
    path = next(filter(None, (shutil.which(place) for place in places if place)), None)
    if path is None:
        raise RuntimeError("Nsight Compute (ncu) not found: install it, or set NCU to its path")
    return path


def parse(log: str) -> Iterator[dict[str, tuple[str, str]]]:
    """Kernels of a profiler's CSV, in order of launch: column -> (unit, value).

    Raises RuntimeError, with what the profiler said, where there is no table.
    """
    lines = log.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise RuntimeError("ncu measured nothing: " + "\n".join(lines[-20:]))
    names, units, *kernels = csv.reader(line for line in lines[start:] if line.startswith('"'))
    for values in kernels:
        columns = zip(names, units, values, strict=True)
        yield {name: (unit, value) for name, unit, value in columns}


def main_kernels(kernels: list[dict], jobs: int) -> list[dict]:
    """The longest kernel of each job; jobs lie between marks. RuntimeError where one has none."""
    groups: list[list[dict]] = []
    for kernel in kernels:
        if MARK in kernel["Kernel Name"][1]:
            groups.append([])
        elif groups:
            groups[-1].append(kernel)
    if len(groups) != jobs or not all(groups):
        names = [kernel["Kernel Name"][1][:60] for kernel in kernels]
        raise RuntimeError(f"ncu saw {names}; expected kernels of {jobs} products between marks")
    return [max(group, key=lambda kernel: number(kernel[TIME][1])) for group in groups]


def rows_of(kernel: dict[str, tuple[str, str]]) -> Iterator[dict]:
    """metric, unit, value of what we ask for. RuntimeError where the profiler lacks one."""
    stalls = [n for n in kernel if n.startswith(STALL_PREFIX) and n.endswith(STALL_SUFFIX)]
    missing = [name for name in METRICS if kernel.get(name, ("", ""))[1] in ("", "n/a")]
    if missing or not stalls:
        raise RuntimeError(f"ncu did not measure {', '.join(missing) or 'any reason of stalls'}")
    for name in (*METRICS, *stalls):
        unit, value = kernel[name]
        yield {"metric": name, "unit": unit, "value": float(f"{number(value):.6g}")}


def number(text: str) -> float:
    """A number of the profiler's, which may have commas between its thousands."""
    return float(text.replace(",", ""))
