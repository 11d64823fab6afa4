"""How exact a product must be: fp32 sums of exact products, rounded once to fp16 or bf16."""

import torch
from torch import Tensor

# Half a unit in the last place of a normal number, and half the smallest subnormal.
ROUNDING = {torch.float16: (2.0**-11, 2.0**-25), torch.bfloat16: (2.0**-8, 2.0**-134)}
FP32 = 2.0**-24


def reference(A: Tensor, B: Tensor) -> Tensor:
    """A · B in fp64 (A [M, K], B [K, N] of any dtype)."""
    return torch.matmul(A.double(), B.double())


def tolerance(A: Tensor, B: Tensor, expected: Tensor) -> Tensor:
    """Largest error allowed in each element of C [M, N], fp64.

    One rounding of the result, doubled for ties that the sum's own error tips over, plus fp32
    summation: its errors grow like √K for rounded sums, of terms no larger than |A|·|B|.
    """
    relative, smallest = ROUNDING[A.dtype]
    K = A.shape[1]
    summation = 2 * FP32 * (8 + K**0.5) * reference(A.abs(), B.abs())
    return 1.01 * relative * expected.abs() + smallest + summation


def check(C: Tensor, A: Tensor, B: Tensor) -> float:
    """Relative error ‖C − A·B‖ / ‖A·B‖; raises AssertionError naming an element beyond `tolerance`.

    NaN passes only where the reference has NaN, infinity only where it has the same one, or where
    the exact result rounds to it.
    """
    expected = reference(A, B)
    rounded = expected.to(C.dtype).double()
    error = (C.double() - expected).abs()
    same = (C.double() == rounded) | (C.isnan() & expected.isnan())
    wrong = ~same & ~(error <= tolerance(A, B, expected))
    if wrong.any():
        m, n = (int(i) for i in wrong.nonzero()[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {C.numel()} elements are wrong; the first, C[{m}, {n}], is "
            f"{C[m, n].item()}, expected {expected[m, n].item()}"
        )
    finite = expected.isfinite() & rounded.isfinite()
    norm = float(expected[finite].norm())
    return float(error[finite].norm()) / norm if norm else 0.0
