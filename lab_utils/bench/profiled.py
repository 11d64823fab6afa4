"""What the profiler watches: each kernel launched once, after a mark; A is not decoded before.

`python -m lab_utils.bench.profiled JOBS SEED FILE`; JOBS is JSON, [[kernel, case], …]. Writes
the kernel and the split of K that each job came to, as JSON, to FILE. Nothing else is profiled.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from lab_utils.baselines import BASELINES
from lab_utils.bench.cases import Case
from lab_utils.bench.cuda import Ours
from lab_utils.bench.operands import Weights

CUBLAS = "cublas_mm"  # of lab_utils.baselines
MARK = "FillFunctor"  # in the name of torch's kernel for fill_, which no product contains


def profile(jobs: list[tuple[str, Case]], seed: int) -> list[dict]:
    """Launch every job under the profiler; returns the columns `kernel` and `split_k` of each."""
    weights: Weights | None = None
    found = []
    for kernel, case in jobs:
        if weights is None or weights.key != case.weights:
            weights = None  # frees its memory before the next is made
            widest = max(other.N for _, other in jobs if other.weights == case.weights)
            weights = Weights(Case(**{**vars(case), "N": widest}), seed, "cuda")
        launch, columns = _product(kernel, case, weights)
        watch(launch)
        found.append(columns)
    return found


def watch(launch: Callable[[], object]) -> None:
    """Let the profiler see a mark and one launch, which is no kernel's first."""
    mark = torch.zeros(1, device="cuda")
    launch()  # loads what it needs
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    mark.fill_(1)
    launch()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _product(kernel: str, case: Case, weights: Weights) -> tuple[Callable, dict]:
    way = BASELINES[kernel] if kernel == CUBLAS else Ours(kernel, "fused")
    B = weights.columns(case.N)
    operand = weights.copies(kernel, way.prepare, 1)[0]
    if kernel == CUBLAS:
        return way.bind(operand, B), {"kernel": kernel, "split_k": 1}
    plan = way.plan(operand, B)
    return way.bind(operand, B), {"kernel": plan.kernel, "split_k": round(plan.split_k, 3)}


if __name__ == "__main__":
    listed, seed, file = sys.argv[1:]
    jobs = [(kernel, Case(**case)) for kernel, case in json.loads(listed)]
    Path(file).write_text(json.dumps(profile(jobs, int(seed))))
