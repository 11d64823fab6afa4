"""Products inside of graphs that torch compiles: one op each, which names its encoding."""

import copy
import gc
import pickle
import subprocess
import sys

import pytest
import torch
from gpu_formats import MULTIPLIED
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

from lab_utils import SparseMatrix, encode, sparse_linear, spmm
from lab_utils.formats.named import PROCESS, encoding_of
from lab_utils.nn import SparseLinear
from lab_utils.patterns import random_sparse

W = random_sparse(96, 160, 0.6, mean=0.5)
B = torch.randn(160, 8, generator=torch.Generator().manual_seed(0)).half()


@pytest.fixture(autouse=True)
def none_compiled() -> None:
    """Or so many others were that torch compiles no more."""
    torch._dynamo.reset()


@pytest.fixture
def A() -> SparseMatrix:
    return encode(W, "tca_bme")


def test_compiles_into_one_graph(A: SparseMatrix) -> None:
    def layer(x: Tensor) -> Tensor:
        return torch.relu(sparse_linear(x, A)) + 1

    x = B.T.contiguous()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), layer(x))


def test_compiles_with_out(A: SparseMatrix) -> None:
    compiled = torch.compile(
        lambda x, out: spmm(A, x, out=out), fullgraph=True, backend="aot_eager"
    )
    out = torch.empty(96, 8).half()
    assert torch.equal(compiled(B, out), spmm(A, B)) and torch.equal(out, spmm(A, B))


def test_a_compiled_graph_reads_nothing_back_to_the_host(A: SparseMatrix) -> None:
    """`item` would wait for the GPU in every call, and keep it out of CUDA graphs."""
    graphs = []
    torch.compile(lambda x: sparse_linear(x, A), fullgraph=True,
                  backend=lambda graph, _: graphs.append(graph.graph) or graph)(B.T)  # fmt: skip
    called = {node.target for graph in graphs for node in graph.nodes if "call" in node.op}
    assert torch.ops.lscd.linear.default in called and "item" not in called


def test_a_compiled_graph_names_its_encoding(A: SparseMatrix) -> None:
    """As it was validated: a graph notices what a launch does."""
    x, frames = B.T.contiguous(), []
    compiled = torch.compile(
        lambda x: sparse_linear(x, A), fullgraph=True, backend=lambda g, _: frames.append(g) or g
    )
    first = compiled(x)
    other = encode(W.roll(1, 0), "tca_bme")
    A.arrays.update(other.arrays)
    assert torch.equal(compiled(x), spmm(other, B).T) and not torch.equal(compiled(x), first)
    assert len(frames) == 1 and encoding_of(A.key) is A
    A.arrays["values"] = A.arrays["values"][:-8]
    with pytest.raises(ValueError, match="invalid tca_bme encoding"):
        compiled(x)
    A.arrays.update(other.arrays)
    named, bias = torch.ops.lscd.linear, torch.randn(96).half()
    with pytest.raises(RuntimeError, match="key='csr 1x1, 0': no such encoding in this process"):
        named(x, "csr 1x1, 0", None, None)
    for given in (None, bias):
        for one in (x, B.T, x[:1], x.view(2, 4, -1), x[0]):
            torch.library.opcheck(named.default, (one, A.key, given, None))


def test_names_are_of_one_encoding_and_go_with_it(A: SparseMatrix) -> None:
    key = A.key
    assert key.startswith("tca_bme 96x160, ")
    A.arrays["values"].mul_(2)
    A.ensure_valid()
    copies = [A.clone(), copy.deepcopy(A), pickle.loads(pickle.dumps(A))]
    for one in copies:
        one.ensure_valid()
    assert A.key == key and len({key, *(one.key for one in copies)}) == 4
    process = subprocess.run(
        [sys.executable, "-c", "from lab_utils.formats.named import PROCESS; print(PROCESS)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert key.endswith(f" of {PROCESS}") and process.stdout.strip() not in ("", PROCESS)


def test_an_encoding_that_is_gone_has_no_name() -> None:
    key = encode(W, "tca_bme").key
    gc.collect()
    with pytest.raises(RuntimeError, match="no such encoding in this process"):
        encoding_of(key)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_results_lie_as_a_graph_expects_them(A: SparseMatrix, backend: str) -> None:
    compiled = torch.compile(lambda x: sparse_linear(x, A).reshape(-1) + 1, backend=backend)
    for x in (B.T, B.T.contiguous(), B.T.contiguous().view(2, 4, -1), B.T[:1]):
        assert torch.equal(compiled(x), sparse_linear(x, A).reshape(-1) + 1)


def test_a_layer_in_a_graph_casts_under_autocast(A: SparseMatrix) -> None:
    layer, x = SparseLinear(A, torch.randn(96).half()), B.T.float().contiguous()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(compiled(x), layer(x.half()))
    with pytest.raises((RuntimeError, ValueError), match="x is a torch.float32 tensor"):
        compiled(x)
    with pytest.raises((RuntimeError, ValueError), match="x is a NoneType"):
        torch.compile(layer, backend="eager")(None)


def test_a_graph_is_not_compiled_for_operands_that_do_not_fit(A: SparseMatrix) -> None:
    wrong = [(B.T[:, 1:], None), (B.T.bfloat16(), None), (B.T, torch.zeros(95).half())]
    for x, bias in wrong:
        with FakeTensorMode() as fakes, pytest.raises(ValueError, match="(x|bias) is a torch.b?f"):
            given = None if bias is None else fakes.from_tensor(bias)
            torch.ops.lscd.linear(fakes.from_tensor(x), A.key, given, None)
        compiled = torch.compile(sparse_linear, fullgraph=True, backend="eager")
        with pytest.raises(
            (RuntimeError, ValueError), match="(x|bias) is a torch.b?float16 tensor"
        ):
            compiled(x, A, bias)


def test_a_bias_keeps_its_derivative_in_a_graph(A: SparseMatrix) -> None:
    bias = torch.zeros(96).half().requires_grad_()
    compiled = torch.compile(sparse_linear, fullgraph=True, backend="aot_eager")
    compiled(B.T, A, bias).sum().backward()
    assert torch.equal(bias.grad, torch.full_like(bias, B.shape[1]))


def test_a_copy_that_nobody_has_checked_is_not_compiled(A: SparseMatrix) -> None:
    unchecked = pickle.loads(pickle.dumps(A))
    for product in (lambda b: spmm(unchecked, b), lambda b: sparse_linear(b.T, unchecked).T):
        with pytest.raises((ValueError, RuntimeError), match="call A.ensure_valid"):
            torch.compile(product, fullgraph=True, backend="eager")(B)
    unchecked.ensure_valid()
    assert torch.equal(torch.compile(product, fullgraph=True, backend="eager")(B), spmm(A, B))


def test_a_graph_runs_where_others_have_tangents(A: SparseMatrix) -> None:
    compiled = torch.compile(lambda x: sparse_linear(x, A), backend="aot_eager")
    first = compiled(B.T)
    with forward_ad.dual_level():
        assert torch.equal(compiled(B.T), first)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("tokens", [8, 40, 600])
@pytest.mark.parametrize("format", MULTIPLIED)
def test_compiles_on_a_gpu(format: str, tokens: int, mode: str) -> None:
    """Before any other product, so that all that one works out is found while it is compiled."""
    A = encode(random_sparse(512, 1024, 0.8).cuda(), format)
    x = torch.randn(tokens, 1024, generator=torch.Generator().manual_seed(0)).half().cuda()
    compiled = torch.compile(SparseLinear(A), fullgraph=True, mode=mode)
    with torch.no_grad():
        found = [compiled(x * scale).clone() for scale in (1, 2, 3)]
        for scale, y in zip((1, 2, 3), found, strict=True):
            assert torch.equal(y, sparse_linear(x * scale, A))
