"""When a product is an op of torch, and when it runs without one."""

import threading
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from lab_utils import SparseMatrix, encode, ops, spmm
from lab_utils.backends import emulator
from lab_utils.patterns import random_sparse

B = torch.randn(160, 8, generator=torch.Generator().manual_seed(0)).half()


@pytest.fixture
def A() -> SparseMatrix:
    return encode(random_sparse(96, 160, 0.6, mean=0.5), "tca_bme")


def as_op(monkeypatch, product: Callable[[], Tensor]) -> set[str]:
    """Names of the ops that a product runs as; none where it runs without."""
    ran = set()
    for name in ("spmm", "spmm_out", "spmm_bias"):
        op = getattr(torch.ops.lscd, name)
        with monkeypatch.context() as patched:
            patched.setattr(torch.ops.lscd, name, lambda *arguments, name=name: ran.add(name) or B)
            product()
        assert op is getattr(torch.ops.lscd, name)
    return ran


def test_where_nobody_watches_a_product_runs_without_its_op(A: SparseMatrix, monkeypatch) -> None:
    out, parameter = torch.empty(96, 8).half(), torch.nn.Parameter(B, requires_grad=False)
    products = {"spmm": lambda: spmm(A, B), "spmm_out": lambda: spmm(A, B, out=out)}
    for name, product in products.items():
        assert as_op(monkeypatch, product) == set()
        with torch.inference_mode():
            assert as_op(monkeypatch, product) == set()
        for watching in (torch.device("cpu"), FlopCounterMode(display=False), profile()):
            with watching:
                assert as_op(monkeypatch, product) == {name}
    assert as_op(monkeypatch, lambda: spmm(A, parameter)) == set()
    for other in (B.clone().requires_grad_(), torch._neg_view(B), B.as_subclass(Subclass)):
        assert as_op(monkeypatch, lambda other=other: spmm(A, other)) == {"spmm"}
    with torch.no_grad():
        assert as_op(monkeypatch, lambda: spmm(A, B.clone().requires_grad_())) == set()
    result = out.as_subclass(Subclass)
    assert as_op(monkeypatch, lambda: spmm(A, B, out=result)) == {"spmm_out"}
    A.arrays["values"].requires_grad_()
    assert as_op(monkeypatch, products["spmm"]) == {"spmm"}


class Subclass(Tensor):
    """May have its own idea of any operation."""


def test_what_watches_sees_the_op(A: SparseMatrix) -> None:
    assert "lscd.spmm" in str(make_fx(lambda b: spmm(A, b))(B).graph)
    assert "lscd::spmm" in str(torch.jit.trace(lambda b: spmm(A, b), (B,)).graph)
    assert torch.equal(torch.func.functionalize(lambda b: spmm(A, b))(B), spmm(A, B))
    assert torch.equal(spmm(A, torch._neg_view(B)), -spmm(A, B))
    both = torch.vmap(lambda b: spmm(A, b))(torch.stack([B, -B]))
    assert torch.equal(both, torch.stack([spmm(A, B), spmm(A, -B)]))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        spmm(A, B.clone().requires_grad_()).sum().backward()
    with profile() as found:
        spmm(A, B)
    assert "lscd::spmm" in {event.key for event in found.key_averages()}


def test_a_mode_of_another_thread_is_none_of_this_one(A: SparseMatrix, monkeypatch) -> None:
    """Nor does its end end one of this thread: torch counts some of them for the process."""
    other = FakeTensorMode()
    inside, leave, left = threading.Event(), threading.Event(), threading.Event()

    def elsewhere() -> None:
        with other:
            inside.set()
            leave.wait()
        left.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    inside.wait()
    assert as_op(monkeypatch, lambda: spmm(A, B)) == set()
    with FakeTensorMode(allow_non_fake_inputs=True):
        leave.set()
        left.wait()
        assert as_op(monkeypatch, lambda: spmm(A, B)) == {"spmm"}
    thread.join()


def test_a_maximum_is_an_op_where_it_is_watched(monkeypatch) -> None:
    """By the emulator, in place of a GPU, whose kernels have it."""
    monkeypatch.setattr(ops, "has_epilogue", lambda A: True)
    monkeypatch.setattr(ops.backends, "for_device", lambda device: emulator)
    W = random_sparse(96, 160, 0.6, mean=0.5)
    A, bias = encode(W, "zero_row_24"), torch.linspace(-9, 9, 96).half()
    assert as_op(monkeypatch, lambda: ops.sparse_relu(B.T, A, bias)) == set()
    for watched in (B.clone().requires_grad_(), B):
        with profile() if watched is B else nullcontext():
            assert as_op(monkeypatch, lambda b=watched: ops.sparse_relu(b.T, A, bias)) == {
                "spmm_bias"
            }
    y = ops.sparse_relu(B.T, A, bias)
    expected = (W.double() @ B.double() + bias.double()[:, None]).relu().T
    assert torch.allclose(y.double(), expected, rtol=2e-3, atol=1e-2)


def test_an_encoding_holds_no_negative_view(A: SparseMatrix) -> None:
    """Its memory is not its value, which kernels read."""
    A.arrays["values"] = torch._neg_view(A.arrays["values"])
    with pytest.raises(ValueError, match="array 'values' is a view that negates its memory"):
        spmm(A, B)


def test_a_product_without_its_op_counts_what_it_writes(A: SparseMatrix) -> None:
    """Else autograd would not notice that what it has saved is another result now."""
    saved = torch.ones(96, 8, dtype=torch.half)
    result = (saved.new_ones(96, 8).requires_grad_() * saved).sum()
    spmm(A, B, out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
    with torch.inference_mode():
        assert torch.equal(spmm(A, B, out=torch.empty(96, 8).half()), saved)


def test_out_in_the_memory_of_A_is_refused(A: SparseMatrix) -> None:
    values = A.arrays["values"]
    long = torch.cat([values, values.new_zeros(96 * 8)])
    A.arrays["values"] = long[: len(values)]
    with pytest.raises(ValueError, match="out shares memory with A or B"):
        spmm(A, B, out=long[: 96 * 8].view(96, 8))
