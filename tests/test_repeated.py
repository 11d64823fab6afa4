"""Products like one before go straight to their launch, with the same result; others do not."""

import ctypes
import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from activations import ACTIVATIONS, WIDE, K, M
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.profiler import profile

from lab_utils import SparseMatrix, backends, encode, ops, sparse_linear, spmm
from lab_utils.backends import cuda, repeated
from lab_utils.backends.hopper import HopperProblem as Problem
from lab_utils.backends.kernels import KERNELS
from lab_utils.patterns import random_sparse


@pytest.fixture
def A() -> SparseMatrix:
    return encode(random_sparse(M, K, 0.6, mean=0.5), "zero_row_24")


LAUNCHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture
def launched(monkeypatch) -> list[dict]:
    """What the backend of GPUs launches, of tensors of the CPU."""
    found = []

    def call(library: str, function: str, *arguments, defines: tuple = ()) -> None:
        *_, problem, _ = arguments
        found.append(fields_of(problem._obj))

    def launcher(problem: int, stream: int) -> int:
        found.append(fields_of(Problem.from_address(problem)))
        return 0

    compiled = LAUNCHER(launcher)
    standing_in = {
        "_multiprocessors": lambda device: 132, "format_problem": lambda *_: None, "call": call,
        "_failed_selections": lambda *_: 0, "current_stream": lambda device: None,
        "on": lambda device: nullcontext(), "devices": ("cpu",),
    }  # fmt: skip
    for name, one in standing_in.items():
        monkeypatch.setattr(cuda, name, one)
    monkeypatch.setattr(backends, "for_device", lambda device: cuda)
    monkeypatch.setattr(
        repeated, "_address_of", lambda _: ctypes.cast(compiled, ctypes.c_void_p).value
    )
    monkeypatch.setattr(repeated, "raw_stream", lambda gpu: 0)
    return found


def fields_of(problem: Problem) -> dict:
    names = ("N", "B", "ldb", "C", "ldc", "partial", "early", "bias", "relu")
    return {name: getattr(problem, name) for name in names}


def checked_again(monkeypatch, product: Callable[[], Tensor]) -> bool:
    """Whether a product is checked as if it were the first one."""
    seen, check = [], ops._checked

    def checked(*arguments) -> object:
        seen.append(1)
        return check(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ops, "_checked", checked)
        product()
    return bool(seen)


@pytest.mark.parametrize("x", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_a_product_like_one_before_is_the_same_launch(A, launched, monkeypatch, x: Tensor) -> None:
    results = [sparse_linear(x, A)]
    assert not checked_again(monkeypatch, lambda: results.append(sparse_linear(x, A)))
    with torch.inference_mode():
        assert not checked_again(monkeypatch, lambda: sparse_linear(x, A))
    first, again, _ = launched
    for y, one in zip(results, (first, again), strict=True):
        assert y.shape == (*x.shape[:-1], M) and y.is_contiguous() and y.dtype == x.dtype
        assert (one.pop("B"), one.pop("C")) == (x.data_ptr(), y.data_ptr())
    del first["partial"], again["partial"]
    assert first == again and first["N"] == x.numel() // K and first["ldc"] == M
    elsewhere = torch.cat([x, x]).as_strided(x.shape, x.stride())
    assert not checked_again(monkeypatch, lambda: sparse_linear(elsewhere, A))
    assert launched[-1]["B"] == elsewhere.data_ptr()


def test_what_nobody_has_asked_about_is_checked(A, launched, monkeypatch) -> None:
    x = ACTIVATIONS["tokens"]
    sparse_linear(x, A)

    def again(x: Tensor = x) -> bool:
        before = len(launched)
        checked = checked_again(monkeypatch, lambda: sparse_linear(x, A))
        assert checked or len(launched) == before + 1
        return checked

    assert not again() and again(x[:4]) and not again(x[:4])
    apart = torch.empty(8 * K + 1).half()[1:].view(8, K)  # not on 16 bytes
    assert again(apart) and again(apart)
    with cuda.forced("fused"):
        assert again() and not again()
    for array in (A.arrays["chunk_start"], x):  # written: the first one is validated anew
        array.add_(0)
        assert again() == (array is not x)
    assert not again()
    with pytest.raises(ValueError, match="x is a torch.bfloat16"):
        sparse_linear(x.bfloat16(), A)


def test_each_deviation_is_checked(A, launched, monkeypatch) -> None:
    """By compiled code, whatever Python has found: operands are asked for one by one."""
    x, bias = ACTIVATIONS["tokens"].clone(), torch.randn(M).half()
    sparse_linear(x, A, bias)
    (repeat,) = A.validated.memo.repeats.values()

    def launches(x: Tensor = x, bias: Tensor | None = bias) -> bool:
        before = len(launched)
        added = None if bias is None else bias._cdata
        y = torch.empty(8, M).half()
        error = repeat._library.lscd_repeat(repeat._in_c, x._cdata, y._cdata, added, 0, 0)
        assert error in (0, repeated.NOT_ALIKE) and (error == 0) == (len(launched) > before)
        if not error:
            assert launched[-1]["partial"] % 64 == 0 != launched[-1]["partial"]
        return error == 0

    assert launches() and launches(bias=None)
    wide, freed = torch.zeros(8, K + 8).half(), x.clone()
    freed.untyped_storage().resize_(0)
    for other in (
        x[:7], wide[:, :K], x.bfloat16(), torch._neg_view(x), x.clone().requires_grad_(), freed,
        torch.zeros(8 * K + 1).half()[1:].view(8, K), x.to("meta"), x.view(8, K, 1),
    ):  # fmt: skip
        assert not launches(other)
    none = bias.clone()
    none.untyped_storage().resize_(0)
    for other in (
        bias[1:], bias.bfloat16(), torch.zeros(2 * M).half()[::2], bias.view(1, M), none,
        bias.clone().requires_grad_(), bias.to("meta"), torch._neg_view(bias),
    ):  # fmt: skip
        assert not launches(bias=other)
    array, before = A.arrays["data"], A.arrays["data"].data
    array.data = array.clone()  # of which torch counts no write
    assert not launches()
    array.data = before
    assert launches()
    with torch.no_grad():
        assert launches(x.clone().requires_grad_())
    with torch.inference_mode():
        assert launches(x.clone())
    for watching in (torch.device("cpu"), profile(), torch.no_grad(), FakeTensorMode()):
        with watching:
            assert launches() == isinstance(watching, torch.no_grad)
    array.add_(0)
    assert not launches()


def test_arrays_of_other_encodings_are_others(A, launched, monkeypatch) -> None:
    x, other = ACTIVATIONS["tokens"], encode(A.decode().roll(1, 0), "zero_row_24")
    sparse_linear(x, A)
    mine = dict(A.arrays)
    for arrays in (other.arrays, mine | {"data": mine["data"].clone()}):
        A.arrays.update(arrays)
        assert checked_again(monkeypatch, lambda: sparse_linear(x, A))
    A.arrays.update(mine)
    sparse_linear(x, A)
    for broken in ({"data": None}, {"more": mine["data"]}):
        A.arrays.update(broken)
        with pytest.raises(ValueError, match="invalid zero_row_24 encoding"):
            sparse_linear(x, A)
        A.arrays.pop("more", None)
        A.arrays.update(mine)


def test_what_is_remembered_goes_with_the_encoding(launched) -> None:
    A = encode(random_sparse(M, K, 0.6, mean=0.5), "zero_row_24")
    sparse_linear(ACTIVATIONS["tokens"], A)
    (repeat,) = A.validated.memo.repeats.values()
    gone = [weakref.ref(repeat), weakref.ref(A), *map(weakref.ref, A.arrays.values())]
    del repeat, A
    gc.collect()
    assert [one() for one in gone] == [None] * len(gone)


class Subclass(Tensor):
    """May have its own idea of any operation."""


def test_what_is_watched_is_an_op(A, launched, monkeypatch) -> None:
    x = ACTIVATIONS["tokens"].clone()
    sparse_linear(x, A)

    def again(x: Tensor = x) -> bool:
        op = SimpleNamespace(spmm=lambda *arguments: torch.zeros(M, 8).half())
        with monkeypatch.context() as patched:
            patched.setattr(torch.ops, "lscd", op)
            return checked_again(monkeypatch, lambda: sparse_linear(x, A))

    for watching in (torch.device("cpu"), profile()):
        with watching:
            assert again()
    for other in (x.clone().requires_grad_(), torch._neg_view(x), x.as_subclass(Subclass)):
        assert again(other)
    with forward_ad.dual_level():
        assert again()
        with pytest.raises(RuntimeError, match="x has a tangent"):
            sparse_linear(forward_ad.make_dual(x, x), A)
    assert not again()
    with torch.no_grad():
        assert not again(x.clone().requires_grad_())
    batch = torch.vmap(lambda x: sparse_linear(x, A))
    assert checked_again(monkeypatch, lambda: batch(torch.stack([x, x])))


def test_what_is_captured_is_not_remembered(A, launched, monkeypatch) -> None:
    monkeypatch.setattr(repeated, "is_captured", lambda device: True)
    for _ in range(2):
        assert checked_again(monkeypatch, lambda: sparse_linear(ACTIVATIONS["tokens"], A))


def test_a_bias_is_that_of_each_call(A, launched, monkeypatch) -> None:
    x, one, other = ACTIVATIONS["tokens"], *torch.randn(2, M).half()
    sparse_linear(x, A, one)
    for bias in (other, torch.nn.Parameter(one, requires_grad=False)):
        assert not checked_again(monkeypatch, lambda bias=bias: sparse_linear(x, A, bias))
        assert (launched[-1]["bias"], launched[-1]["relu"]) == (bias.data_ptr(), 0)
    assert not checked_again(monkeypatch, lambda: ops.sparse_relu(x, A, other))
    assert (launched[-1]["bias"], launched[-1]["relu"]) == (other.data_ptr(), 1)
    assert not checked_again(monkeypatch, lambda: sparse_linear(x, A))
    assert launched[-1]["bias"] is None
    sparse_linear(x, A, torch._neg_view(other))  # its memory is not its value: torch adds it
    assert launched[-1]["bias"] is None
    with pytest.raises(ValueError, match="bias is a torch.float16 tensor of shape"):
        sparse_linear(x, A, other[:-1])


@pytest.mark.gpu
@pytest.mark.parametrize("format", KERNELS)
@cuda.forced("fused")  # a matrix as small as this one may be decoded first
def test_on_a_gpu_all_are_the_same_bits(format: str) -> None:
    weights = random_sparse(M, K, 0.6, mean=0.5).cuda()
    A = encode(weights, format)
    wide = WIDE.cuda()
    for one in ACTIVATIONS.values():
        x = wide.as_strided(one.shape, one.stride())
        first, wanted = sparse_linear(x, A), spmm(A, x.reshape(-1, K).T).T
        with torch.inference_mode():
            again = sparse_linear(x, A)
        assert torch.equal(first, again) and torch.equal(first.reshape(wanted.shape), wanted)
        assert again.is_inference() and not first.is_inference()
    assert len(A.validated.memo.repeats) == len(ACTIVATIONS)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            captured = sparse_linear(x, A)
        graph.replay()
    side.synchronize()
    assert torch.equal(captured, first)


def test_what_is_refused_or_written_meanwhile_is_not_repeated(A, launched, monkeypatch) -> None:
    x, described = ACTIVATIONS["tokens"], repeated._described

    def writing(*of) -> object:
        A.arrays["data"].add_(0)
        return described(*of)

    monkeypatch.setattr(repeated, "_described", writing)
    sparse_linear(x, A)
    monkeypatch.setattr(repeated, "_described", described)
    refusing = SimpleNamespace(lscd_repeat_new=lambda *_: None, lscd_repeat_delete=lambda _: None)
    monkeypatch.setattr(repeated, "_library", lambda: refusing)
    for _ in range(3):
        assert checked_again(monkeypatch, lambda: sparse_linear(x, A))


def test_a_bias_is_part_of_a_product_again_as_it_was_before(launched) -> None:
    """Of a format whose kernels do not say that they add one, by tiles they could."""
    A, x = encode(random_sparse(128, 256, 0.6), "tca_bme"), torch.zeros(300, 256).half()
    with cuda.forced("tiles"):
        for _ in range(3):
            sparse_linear(x, A, torch.zeros(128).half())
            with pytest.raises(RuntimeError, match="no kernel for tca_bme on cpu takes the max"):
                ops.sparse_relu(x, A, torch.zeros(128).half())
    assert [one["bias"] for one in launched] == [None] * 3
