"""What the profiler watches for `lab counts`: small products, from operands made on the CPU.

`python -m lab_utils.bench.counted JOBS SEED FILE`; JOBS is JSON, [[kernel, case, split_k], …].
The same seed gives the emulator the same operands. Every product is checked behind its mark; the
largest relative error of each job goes to FILE, as JSON.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lab_utils import encode, ladder
from lab_utils.backends import cuda
from lab_utils.bench.cases import Case
from lab_utils.bench.operands import Weights
from lab_utils.bench.profiled import watch


def launch_of(kernel: str, weights: Weights, B: Tensor, C: Tensor, split_k: int) -> Callable:
    """The product of a format's kernel or of a rung, into C [M, N] on the GPU."""
    if kernel in ladder.RUNGS:
        rung = ladder.encode(kernel, weights.dense).to(C.device)
        return partial(ladder.spmm, rung, B, C, split_k=split_k)
    A = encode(weights.dense, kernel).to(C.device)
    return partial(cuda.spmm, A, B, C, split_k=split_k)


def count(kernel: str, case: Case, split_k: int, seed: int) -> float:
    """Let the profiler see a product; returns its error once it is known to be right."""
    weights = Weights(case, seed, "cpu")
    B = weights.columns(case.N).cuda()
    C = B.new_full((case.N, case.M), torch.nan).T
    watch(launch_of(kernel, weights, B, C, split_k))
    return weights.judge(case.N).check(C.cpu())


if __name__ == "__main__":
    listed, seed, file = sys.argv[1:]
    jobs = [(kernel, Case(**case), split_k) for kernel, case, split_k in json.loads(listed)]
    errors = [count(*job, int(seed)) for job in jobs]
    Path(file).write_text(json.dumps(errors))
