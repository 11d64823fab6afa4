"""Weights that a kernel reads early are those that were written last."""

from types import SimpleNamespace

import pytest
import torch

from lab_utils import accuracy, encode
from lab_utils.backends import cuda, published
from lab_utils.backends.settled import settled
from lab_utils.patterns import random_sparse


def test_products_wait_for_weights_once_and_again_after_a_change(monkeypatch) -> None:
    waits, capturing = [], [False]
    stream = SimpleNamespace(synchronize=lambda: waits.append(1))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr("lab_utils.backends.settled.is_captured", lambda device: capturing[0])
    one, other = torch.zeros(4), torch.zeros(4)
    assert settled([one, other]) and settled([one, other]) and len(waits) == 1
    other.add_(1)
    capturing[0] = True
    assert not settled([one, other]) and settled([one]) and len(waits) == 1
    capturing[0] = False
    assert settled([one, other]) and len(waits) == 2
    assert settled([one.clone()]) and len(waits) == 3


@pytest.mark.gpu
@pytest.mark.parametrize("format", published.ARRAYS)
@pytest.mark.parametrize("side", [False, True], ids=["same stream", "another stream"])
@cuda.forced("fused")
def test_a_product_right_after_its_weights_were_written(format: str, side: bool) -> None:
    first, second = (random_sparse(1024, 1024, 0.5, seed=seed) for seed in (0, 1))
    B, C = torch.ones(16, 1024).half().T, torch.empty(16, 1024, device="cuda").half().T
    on_gpu, busy = B.cuda(), torch.empty(1 << 28, device="cuda")
    for W in (first, second):
        dense = W.cuda()
        torch.cuda.synchronize()
        busy.normal_()  # what writes the weights comes late
        A = encode(dense, format)
        stream = torch.cuda.Stream() if side else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                cuda.spmm(A, on_gpu, C)
        stream.synchronize()
        accuracy.check(C.cpu(), W, B)
        busy.normal_()
        for array in A.arrays.values():
            if array.dtype == A.dtype:
                array.mul_(torch.where(array == 0, 1, -1))  # zeros that pad them stay +0
            elif format == "tiled_csl" and array is A.arrays["words"]:
                array.bitwise_xor_(0x8000)  # the sign of every value
        A.ensure_valid()
        cuda.spmm(A, on_gpu, C)
        accuracy.check(C.cpu(), -W, B)
