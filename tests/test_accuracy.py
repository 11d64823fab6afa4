"""The judge of all kernels must itself tell right from wrong."""

import pytest
import torch

from lab_utils import accuracy

A = torch.randn(40, 300, generator=torch.Generator().manual_seed(0)).add_(0.3)
B = torch.randn(300, 6, generator=torch.Generator().manual_seed(1)).add_(0.3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_tells_rounding_from_error(dtype: torch.dtype) -> None:
    a, b = A.to(dtype), B.to(dtype)
    right = (a.double() @ b.double()).to(dtype)
    assert accuracy.check(right, a, b) < accuracy.ROUNDING[dtype]
    for wrong in (right.view(torch.int16) + 2).view(dtype), right.fill_diagonal_(torch.nan):
        with pytest.raises(AssertionError, match=r"elements are wrong; the first, C\[0, 0\]"):
            accuracy.check(wrong, a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_tie_may_be_rounded_either_way_but_no_farther(dtype: torch.dtype) -> None:
    half = accuracy.ROUNDING[dtype]  # of the distance between numbers from 1 to 2
    a, b = torch.tensor([[1.0, half]]).to(dtype), torch.ones(2, 1, dtype=dtype)
    for allowed in (1.0, 1 + 2 * half):
        accuracy.check(torch.tensor([[allowed]]).to(dtype), a, b)
    for wrong in (1 - half, 1 + 4 * half):
        with pytest.raises(AssertionError):
            accuracy.check(torch.tensor([[wrong]]).to(dtype), a, b)


def test_infinities_must_match() -> None:
    a, b = torch.tensor([[torch.inf, 1.0]]).half(), torch.ones(2, 1).half()
    assert accuracy.check(torch.tensor([[torch.inf]]).half(), a, b) == 0
    for wrong in (-torch.inf, torch.nan, 65504.0):
        with pytest.raises(AssertionError):
            accuracy.check(torch.tensor([[wrong]]).half(), a, b)


def test_overflow_close_to_the_largest_number() -> None:
    a, b = torch.tensor([[65504.0, 16.0]]).half(), torch.ones(2, 1).half()  # a tie: 65520
    for allowed in (torch.inf, 65504.0):
        accuracy.check(torch.tensor([[allowed]]).half(), a, b)
    with pytest.raises(AssertionError):
        accuracy.check(torch.tensor([[torch.inf]]).half(), a / 2, b)


def test_judges_some_columns_alone() -> None:
    a, b = A.half(), B.half()
    judge, right = accuracy.Judge(a, b), (a.double() @ b.double()).half()
    some = right[:, :2]
    assert judge.columns(2).check(some) == pytest.approx(accuracy.check(some, a, b[:, :2]))
    with pytest.raises(AssertionError, match=r"C\[0, 1\]"):
        judge.columns(2).check(right[:, [0, 0]])


def test_a_partial_sum_may_be_rounded_too_where_said() -> None:
    a = torch.tensor([[1.0, 1.0, -1.0]]).half()
    b = torch.tensor([[2048.0], [1.0], [2048.0]]).half()  # 2048 + 1 is a tie in fp16
    judge, rounded_twice = accuracy.Judge(a, b), torch.tensor([[0.0]]).half()
    judge.check(rounded_twice, roundings=2)
    with pytest.raises(AssertionError):
        judge.check(rounded_twice)
    with pytest.raises(AssertionError):
        judge.check(torch.tensor([[8.0]]).half(), roundings=2)


def test_a_result_of_another_shape_or_dtype_is_no_result() -> None:
    a, b = A.half(), B[:, :1].half().repeat(1, 6)  # equal columns: one would pass for all
    judge = accuracy.Judge(a, b)
    right = (a.double() @ b.double()).half()
    for wrong in (right[:, :1], right[:1, :1], right.T, right.float(), right.bfloat16()):
        with pytest.raises(ValueError, match=r"C is \[.*allowed: \[40, 6\], torch.float16"):
            judge.check(wrong)


def test_factors_must_fit() -> None:
    for a, b in ((A, B), (A.half(), B.bfloat16())):
        with pytest.raises(ValueError, match="allowed: both fp16, or both bf16"):
            accuracy.Judge(a, b)
    for a, b in ((A.half(), B.T.half()), (A[0].half(), B.half())):
        with pytest.raises(ValueError, match=r"allowed: \[M, K\] and \[K, N\]"):
            accuracy.Judge(a, b)
