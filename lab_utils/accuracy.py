"""How exact a product must be: fp32 sums of exact products, rounded once to fp16 or bf16."""

import copy
from typing import Self

import torch
from torch import Tensor

ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # half a unit in the last place
# Below this, absolute: half of fp16's last subnormal; for bf16 the smallest normal of fp32, since
# dot-product instructions (vdpbf16ps, tdpbf16ps, and GPUs with flush-to-zero) take less as zero.
SMALLEST = {torch.float16: 2.0**-25, torch.bfloat16: 2.0**-126}
FP32 = 2.0**-24


def check(C: Tensor, A: Tensor, B: Tensor) -> float:
    """Relative error of C [M, N] as a product of A [M, K] and B [K, N]: `Judge(A, B).check(C)`."""
    return Judge(A, B).check(C)


class Judge:
    """What A · B is and how far from it a result may be, computed once for any number of results.

    Attributes, fp64 [M, N] in column order, as C has for activations Bᵀ: `expected`, the product;
    `magnitude`, |A|·|B|, which no partial sum exceeds; and `allowed`, the largest error of each
    element: one rounding of the result, plus fp32 summation, whose rounding errors add up like √K
    for terms no larger than the magnitude, plus what flushed subnormals can amount to. `dtype` is
    that of A, B and results.
    """

    def __init__(self, A: Tensor, B: Tensor):
        """Of A [M, K] and B [K, N], both fp16 or both bf16; ValueError for others."""
        for name, operand in (("A", A), ("B", B)):
            if not isinstance(operand, Tensor):
                raise ValueError(f"{name} is a {type(operand).__name__}; allowed: a torch.Tensor")
        if A.dtype not in ROUNDING or B.dtype != A.dtype:
            raise ValueError(f"A is {A.dtype}, B is {B.dtype}; allowed: both fp16, or both bf16")
        if A.dim() != 2 or B.dim() != 2 or A.shape[1] != B.shape[0]:
            shapes = f"A is {list(A.shape)}, B is {list(B.shape)}"
            raise ValueError(f"{shapes}; allowed: [M, K] and [K, N]")
        self.dtype, K = A.dtype, A.shape[1]
        A, B = A.double(), B.double()
        self.expected = (B.T @ A.T).T
        A, B = A.abs(), B.abs()
        self.magnitude = (B.T @ A.T).T
        summation = 2 * FP32 * (8 + K**0.5) * self.magnitude
        # A flushed input is lost times all that it meets; no kernel flushes the inputs of fp16.
        inputs = A.sum(1, keepdim=True) + B.sum(0) if self.dtype == torch.bfloat16 else 0.0
        flushed = SMALLEST[self.dtype] * (1 + inputs)
        self.allowed = 1.01 * ROUNDING[self.dtype] * self.expected.abs() + summation + flushed

    def columns(self, N: int) -> Self:
        """The judge of the first N columns of B alone."""
        narrow = copy.copy(self)
        for name in ("expected", "magnitude", "allowed"):
            setattr(narrow, name, getattr(self, name)[:, :N])
        return narrow

    def check(self, C: Tensor, roundings: int = 1) -> float:
        """Relative error ‖C − A·B‖ / ‖A·B‖ of a result C [M, N], fp16 or bf16.

        `roundings` is how often a sum is rounded to that dtype on its way into C.
        Raises ValueError for a C of another shape or dtype than the product's, and AssertionError
        naming the first element that is farther off than `allowed`. NaN passes only where the
        product is NaN; an infinity only where the product is the same one, or comes within
        `allowed` of rounding to it.
        """
        expected, allowed = self.expected, self.allowed
        if (C.shape, C.dtype) != (expected.shape, self.dtype):
            found, wanted = list(C.shape), list(expected.shape)
            raise ValueError(f"C is {found}, {C.dtype}; allowed: {wanted}, {self.dtype}")
        if roundings > 1:
            allowed = allowed + 1.01 * (roundings - 1) * ROUNDING[self.dtype] * self.magnitude
        error = (C.double() - expected).abs()
        farthest = (expected + allowed * expected.sign()).to(C.dtype)  # infinite close to overflow
        right = (expected.isfinite() & (error <= allowed)) | (farthest == C)
        wrong = ~(right | (C.isnan() & expected.isnan()))
        if wrong.any():
            m, n = (int(i) for i in wrong.nonzero()[0])
            found, right, off = (x[m, n].item() for x in (C, expected, allowed))
            raise AssertionError(
                f"{int(wrong.sum())} of {C.numel()} elements are wrong; the first, C[{m}, {n}], is "
                f"{found:.6g}, expected {right:.6g} ± {off:.3g}"
            )
        finite = expected.isfinite() & C.isfinite()
        norm = float(torch.where(finite, expected, 0.0).norm())
        return float(torch.where(finite, error, 0.0).norm()) / norm if norm else 0.0
