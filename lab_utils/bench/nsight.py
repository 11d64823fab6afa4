"""Nsight Compute (`ncu`): running launches under the profiler, and reading the table it writes.

It empties the caches before every pass, and leaves the clocks as they are. What it watches is a
program, `profiled` or `counted`, that launches each job once behind a mark.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab_utils.bench.profiled import MARK

Launch = dict[str, tuple[str, str]]  # column of the profiler's table -> (unit, value)
OPTIONS = (
    "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off",
    "--clock-control", "none",
)  # fmt: skip
NAME = "Kernel Name"


def profile(
    program: str, jobs: Sequence[Sequence], seed: int, metrics: Sequence[str], *options: str
) -> list[tuple[dict, list[Launch]]]:
    """For each job, what the program says of it, and the profiler's numbers of all its launches.

    `python -m program JOBS SEED FILE` takes jobs as JSON, and writes a list as long to FILE.
    Raises RuntimeError where there is no `ncu`, or where it fails, with what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        log, answers = Path(folder) / "log.csv", Path(folder) / "answers.json"
        told = [sys.executable, "-m", program, json.dumps(jobs), str(seed), str(answers)]
        asked = [*OPTIONS, *options, "--metrics", ",".join(metrics), "--log-file", str(log)]
        done = subprocess.run([path(), *asked, *told], capture_output=True, text=True)
        if done.returncode or not log.exists() or not answers.exists():
            said = (log.read_text() if log.exists() else "") + done.stdout + done.stderr
            lines = [line for line in said.splitlines() if not line.startswith('"')]
            raise RuntimeError("ncu failed: " + "\n".join(lines[-20:]))
        launches = by_job(list(parse(log.read_text())), len(jobs))
        return list(zip(json.loads(answers.read_text()), launches, strict=True))


def path() -> str:
    """$NCU, or the profiler on the path or in the CUDA toolkit. RuntimeError without one."""
    places = [os.environ.get("NCU"), "ncu", "/usr/local/cuda/bin/ncu"]
    found = next(filter(None, (shutil.which(place) for place in places if place)), None)
    if found is None:
        raise RuntimeError("Nsight Compute (ncu) not found: install it, or set NCU to its path")
    return found


def parse(log: str) -> Iterator[Launch]:
    """Launches in a profiler's CSV, in their order.

    Raises RuntimeError, with what the profiler said, where there is no table.
    """
    lines = log.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise RuntimeError("ncu measured nothing: " + "\n".join(lines[-20:]))
    names, units, *launches = csv.reader(line for line in lines[start:] if line.startswith('"'))
    for values in launches:
        columns = zip(names, units, values, strict=True)
        yield {name: (unit, value) for name, unit, value in columns}


def by_job(launches: list[Launch], jobs: int) -> list[list[Launch]]:
    """Launches of each job: those between marks. RuntimeError where a job has none."""
    groups: list[list[Launch]] = []
    for launch in launches:
        if MARK in launch[NAME][1]:
            groups.append([])
        elif groups:
            groups[-1].append(launch)
    if len(groups) != jobs or not all(groups):
        names = [launch[NAME][1][:60] for launch in launches]
        raise RuntimeError(f"ncu saw {names}; expected kernels of {jobs} products between marks")
    return groups


def check_measured(launch: Launch, metrics: Sequence[str]) -> None:
    """Raise RuntimeError, naming them, unless the profiler measured these metrics."""
    if missing := [name for name in metrics if not measured(launch, name)]:
        raise RuntimeError(f"ncu did not measure {', '.join(missing)}")


def measured(launch: Launch, metric: str) -> bool:
    """Whether the profiler, which does not know all metrics on every GPU, has a value of it."""
    return launch.get(metric, ("", ""))[1] not in ("", "n/a")


def function_name(launch: Launch) -> str:
    """The launched function: its name without namespaces, template arguments and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|<unnamed>::", "", launch[NAME][1])
    return re.match(r"(?:\w+ )?(?:\w+::)*(\w*)", name)[1]


def number(text: str) -> float:
    """A number of the profiler's, which may have commas between its thousands."""
    return float(text.replace(",", ""))
