"""How exact a product must be: fp32 sums of exact products, rounded once to fp16 or bf16."""

import torch
from torch import Tensor

ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # half a unit in the last place
# Below this, absolute: half of fp16's last subnormal; for bf16 the smallest normal of fp32, since
# dot-product instructions (vdpbf16ps, tdpbf16ps, and GPUs with flush-to-zero) take less as zero.
SMALLEST = {torch.float16: 2.0**-25, torch.bfloat16: 2.0**-126}
FP32 = 2.0**-24


def reference(A: Tensor, B: Tensor) -> Tensor:
    """A · B in fp64 (A [M, K], B [K, N] of any dtype)."""
    return torch.matmul(A.double(), B.double())


def tolerance(A: Tensor, B: Tensor, expected: Tensor) -> Tensor:
    """Largest error allowed in each element of C [M, N], fp64.

    One rounding of the result, plus fp32 summation, whose rounding errors add up like √K for terms
    no larger than |A|·|B|, plus what flushed subnormals can amount to.
    """
    summation = 2 * FP32 * (8 + A.shape[1] ** 0.5) * reference(A.abs(), B.abs())
    flushed = SMALLEST[A.dtype] * (1 + _sum_abs(A, 1) + _sum_abs(B, 0))
    return 1.01 * ROUNDING[A.dtype] * expected.abs() + summation + flushed


def _sum_abs(X: Tensor, axis: int) -> Tensor | float:
    return X.double().abs().sum(axis, keepdim=True) if X.dtype == torch.bfloat16 else 0.0


def check(C: Tensor, A: Tensor, B: Tensor) -> float:
    """Relative error ‖C − A·B‖ / ‖A·B‖; raises AssertionError naming an element beyond `tolerance`.

    NaN passes only where the reference is NaN; an infinity only where the reference is the same
    one, or comes within `tolerance` of rounding to it.
    """
    expected = reference(A, B)
    allowed = tolerance(A, B, expected)
    error = (C.double() - expected).abs()
    farthest = (expected + allowed * expected.sign()).to(C.dtype)  # infinite close to overflow
    right = (expected.isfinite() & (error <= allowed)) | (farthest == C)
    wrong = ~(right | (C.isnan() & expected.isnan()))
    if wrong.any():
        m, n = (int(i) for i in wrong.nonzero()[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {C.numel()} elements are wrong; the first, C[{m}, {n}], is "
            f"{C[m, n].item()}, expected {expected[m, n].item()} ± {allowed[m, n].item():.3g}"
        )
    finite = expected.isfinite() & C.isfinite()
    norm = float(expected[finite].norm())
    return float(error[finite].norm()) / norm if norm else 0.0
