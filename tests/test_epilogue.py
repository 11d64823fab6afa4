"""A · B + bias, and its maximum with 0, as parts of the product: layers, and `sparse_relu`."""

import ctypes
from unittest.mock import Mock

import pytest
import torch
from layers import K, M, X, activations, linear
from sanitize import judge_of_maximum, judge_of_sum
from torch import Tensor, nn

from lab_utils import SparseLinear, backends, encode, sparse_linear
from lab_utils.analysis.gpu_products import OF_SM_90
from lab_utils.backends import cuda, decoded, hopper
from lab_utils.backends.kernels import ways_of
from lab_utils.backends.launch import Epilogue
from lab_utils.ops import has_epilogue, sparse_relu
from lab_utils.patterns import random_sparse

DTYPES = [torch.float16, torch.bfloat16]


def check(y: Tensor, x: Tensor, layer: SparseLinear, judge=judge_of_maximum) -> None:
    """y [tokens, M] is the maximum, or what else is judged, rounded once."""
    W, bias = layer.weight.decode().cpu(), layer.bias.detach().cpu()
    judge(W, x.cpu().T, bias).check(y.cpu().T)


def test_no_kernel_of_a_cpu_does_it() -> None:
    for format in ("tca_bme", *OF_SM_90):
        A, bias = encode(random_sparse(M, K, 0.6), format), torch.zeros(M).half()
        assert SparseLinear(A, bias).relu(X) is None
        with pytest.raises(RuntimeError, match=f"no kernel for {format} on cpu takes the maximum"):
            sparse_relu(X, A, bias)


@pytest.mark.parametrize(
    "bias",
    [None, [0.0] * M, torch.zeros(M - 1), torch.zeros(M).double(),
     torch.zeros(M).half().to_sparse(), torch.zeros(M, dtype=torch.half, device="meta")],
)  # fmt: skip
def test_a_bias_must_fit(bias) -> None:
    said = rf"bias is a .*; allowed: strided torch.float16 \[{M}\] on cpu, as the weights"
    with pytest.raises(ValueError, match=said):
        sparse_relu(X, encode(random_sparse(M, K, 0.6), "tca_bme"), bias)


def test_what_is_refused_is_named() -> None:
    with pytest.raises(ValueError, match="A is a torch.float16 tensor.*encode"):
        sparse_relu(X, torch.zeros(M, K).half(), torch.zeros(M).half())
    with pytest.raises(ValueError, match="A is a NoneType"):
        has_epilogue(None)
    layer = SparseLinear.from_linear(linear(0.7), "zero_row_24")
    with pytest.raises(RuntimeError, match="x requires a gradient"):
        layer.relu(X.clone().requires_grad_())


def test_a_bias_has_memory_of_its_own() -> None:
    """Neither the caller's, into which a state would be loaded, nor none at all."""
    A, bias = encode(random_sparse(M, K, 0.6), "tca_bme"), torch.ones(M).half()
    one, other = SparseLinear(A, bias), SparseLinear(A, bias)
    one.load_state_dict({**other.state_dict(), "bias": torch.zeros(M).half()})
    assert bool(bias.all()) and bool(other.bias.all()) and not one.bias.any()
    bias.untyped_storage().resize_(0)
    for refused in (lambda: sparse_linear(X, A, bias), lambda: SparseLinear(A, bias)):
        with pytest.raises(ValueError, match="bias is a Tensor without memory; allowed"):
            refused()


@pytest.mark.parametrize("format", ["tca_bme", "tiled_csl"])
def test_a_bias_keeps_its_dtype(format: str) -> None:
    layer = SparseLinear.from_linear(linear(), format)
    with pytest.raises(ValueError, match="of this layer is torch.float16 and stays so"):
        layer.float()
    state = layer.state_dict()
    with pytest.raises(RuntimeError, match="'bias' is torch.float32; allowed: torch.float16"):
        layer.load_state_dict({**state, "bias": state["bias"].float()}, assign=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = sparse_linear(X.float(), layer.weight, layer.bias.float())
    assert y.dtype == torch.float16 and torch.equal(y, layer(X))


def test_a_bias_that_does_not_fit_is_refused() -> None:
    sparse = SparseLinear.from_linear(linear())
    sparse.bias = nn.Parameter(torch.zeros(M), requires_grad=False)
    with pytest.raises(ValueError, match="bias is a torch.float32 tensor.*allowed: strided"):
        sparse(X)
    with pytest.raises(ValueError, match="A is a NoneType; allowed: an encoded matrix"):
        sparse_linear(X, None, torch.zeros(M).half())
    with pytest.raises(ValueError, match="bias is a int"):
        sparse_linear(X, sparse.weight, 3)


def test_kernels_read_a_bias_one_element_after_the_other() -> None:
    A, bias = encode(random_sparse(64, 96, 0.8), "zero_row_24"), torch.randn(64, 2).half()[:, 0]
    launch = hopper.launch_of(A, 8, hopper.layout_of(A, 8))
    launch.set_epilogue(Epilogue(bias, relu=True))
    read = (ctypes.c_int16 * 64).from_address(launch.problem.bias)
    assert list(read) == bias.view(torch.int16).tolist()


# --- decoded first, on the host -------------------------------------------------------------------


@pytest.fixture
def decoding(monkeypatch):
    """Backend `cuda` for host tensors, which decodes A first, in blocks of its rows."""
    monkeypatch.setattr(backends, "for_device", lambda _: cuda)
    monkeypatch.setattr(cuda, "devices", ("cpu",))
    monkeypatch.setattr(cuda, "format_problem", lambda *_: None)
    monkeypatch.setattr(cuda, "_failed_selections", lambda *_: 0)
    monkeypatch.setattr(cuda, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(decoded, "PIECE_BYTES", 1)
    with cuda.forced("decoded"):
        yield


@pytest.mark.parametrize("format", ["tca_bme", "zero_row_24"])
def test_torch_adds_a_bias_that_is_no_constant(decoding, format: str) -> None:
    sparse = SparseLinear.from_linear(linear(), format)
    y, A, bias = sparse(X), sparse.weight, sparse.bias.detach()
    sparse.bias.requires_grad_()
    trained = sparse(X)
    trained.sum().backward()
    assert torch.equal(sparse.bias.grad, torch.full((M,), 8.0).half())
    assert torch.allclose(trained, y, rtol=2e-3, atol=1e-2)
    with torch.no_grad():
        assert torch.equal(sparse(X), y)
    _, tangent = torch.func.jvp(lambda b: sparse_linear(X, A, b), (bias,), (bias,))
    assert torch.equal(tangent, bias.expand(8, M))
    batch = torch.vmap(lambda b: sparse_linear(X, A, b))(torch.stack([bias, bias + 1]))
    assert torch.equal(batch[0], trained) and batch.shape == (2, 8, M)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 8, 70])
@pytest.mark.parametrize("format", OF_SM_90)
def test_decoded_weights_do_it_in_pieces(decoding, format, tokens: int, dtype) -> None:
    layer = SparseLinear.from_linear(linear(0.7, dtype), format)
    assert decoded.rows_of_piece(layer.weight, tokens, 132) < M
    x = activations(tokens, dtype=dtype)
    y = layer.relu(x)
    assert y.is_contiguous() and bool((y == 0).any()) and bool((y > 0).any())
    check(y, x, layer)
    check(layer(x), x, layer, judge_of_sum)


def test_no_tokens_are_no_product(decoding) -> None:
    assert SparseLinear.from_linear(linear(0.7), "zero_row_24").relu(X[:0]).shape == (0, M)
    with pytest.raises(ValueError, match="x is a NoneType"):
        SparseLinear.from_linear(linear(0.7), "zero_row_24").relu(None)


def test_a_launch_is_laid_out_once(decoding, monkeypatch) -> None:
    monkeypatch.setattr(cuda, "forced_way", lambda *_: None)
    monkeypatch.setattr(cuda, "fastest", lambda *_: ("decoded", "as a test says"))
    monkeypatch.setattr(hopper, "layout_of", layout_of := Mock(wraps=hopper.layout_of))
    SparseLinear.from_linear(linear(0.7), "zero_row_24").relu(X)
    layout_of.assert_called_once()


def test_it_compiles_into_one_graph(decoding) -> None:
    layer = SparseLinear.from_linear(linear(0.7), "zero_row_24")
    with torch.no_grad():
        for of in (layer, layer.relu):
            compiled = torch.compile(of, fullgraph=True, backend="aot_eager")
            assert torch.equal(compiled(X), of(X))


# --- on a GPU -----------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 8, 16, 40, 300])
@pytest.mark.parametrize(
    ("format", "way"), [(format, way) for format in OF_SM_90 for way in ways_of(format)]
)
def test_all_ways_on_a_gpu(format: str, way: str, tokens: int, dtype: torch.dtype) -> None:
    """In a graph as well; only of a format that can."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip(f"{format} needs sm_90")
    dense = linear(0.7, dtype).cuda()
    layer, x = SparseLinear.from_linear(dense, format), activations(tokens, dtype=dtype)
    assert SparseLinear.from_linear(dense, "tca_bme").relu(x.cuda()) is None
    with cuda.forced(way):
        y = layer.relu(there := x.cuda())
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            again, unbounded = layer.relu(there), layer(there)
        assert torch.equal(layer.relu(there), y)  # straight to its launch
    check(y, x, layer)
    graph.replay()
    assert torch.equal(y, again)
    check(unbounded, x, layer, judge_of_sum)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pieces_on_a_gpu(monkeypatch, dtype: torch.dtype) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("zero_row_24 needs sm_90")
    monkeypatch.setattr(decoded, "PIECE_BYTES", 1)
    layer = SparseLinear.from_linear(linear(0.7, dtype).cuda(), "zero_row_24")
    for tokens in (1, 64, 300):
        x = activations(tokens, dtype=dtype)
        with cuda.forced("decoded"):
            check(layer.relu(x.cuda()), x, layer)


@pytest.mark.gpu
def test_compiles_into_one_graph_on_a_gpu() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("zero_row_24 needs sm_90")
    layer = SparseLinear.from_linear(linear(0.7, torch.float16).cuda(), "zero_row_24")
    x = activations(8, dtype=torch.float16).cuda()
    compiled = torch.compile(layer.relu, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), layer.relu(x))
