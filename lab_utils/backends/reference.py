"""Backend `reference`: the readable specification of every operation, in torch."""

import torch
from torch import Tensor

from lab_utils.backends.plan import Plan
from lab_utils.formats import FORMATS, SparseMatrix

name = "reference"
formats = tuple(FORMATS)
devices = ("cpu", "cuda")


def problem() -> str | None:
    """Why this backend does not work here: it always does."""
    return None


def plan(A: SparseMatrix, B: Tensor) -> Plan:
    """Decode the whole matrix, multiply in fp32, round once."""
    return Plan(name, "reference", {"how": "decode all of A, then torch.matmul in fp32"})


def spmm(A: SparseMatrix, B: Tensor, C: Tensor) -> None:
    """C[M, N] = A[M, K] · B[K, N] with fp32 products and sums, rounded once to C's dtype."""
    C.copy_(torch.matmul(A.decode().float(), B.float()))
