"""Products inside of graphs that torch compiles: one op each, which names its encoding."""

import pytest
import torch
from gpu_formats import MULTIPLIED
from torch import Tensor

from lab_utils import SparseMatrix, encode, sparse_linear, spmm
from lab_utils.formats.validated import encoding_of
from lab_utils.nn import SparseLinear
from lab_utils.patterns import random_sparse

W = random_sparse(96, 160, 0.6, mean=0.5)
B = torch.randn(160, 8, generator=torch.Generator().manual_seed(0)).half()


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
    assert len(frames) == 2 and encoding_of(A.validated.key) is A
    A.arrays["values"] = A.arrays["values"][:-8]
    with pytest.raises(ValueError, match="invalid tca_bme encoding"):
        compiled(x)
    named, bias = torch.ops.lscd.linear, torch.randn(96).half()
    with pytest.raises(RuntimeError, match="key='csr 1x1, 0': no such encoding in this process"):
        named(x, "csr 1x1, 0", None, None)
    for given in (None, bias):
        torch.library.opcheck(named.default, (x, other.validated.key, given, None))


def test_a_graph_is_not_compiled_for_operands_that_do_not_fit(A: SparseMatrix) -> None:
    said = "(x|bias) is a torch.b?float16 tensor of shape"
    wrong = [(B.T[:, 1:], None), (B.T.bfloat16(), None), (B.T, torch.zeros(95).half())]
    for x, bias in wrong:
        compiled = torch.compile(sparse_linear, fullgraph=True, backend="eager")
        with pytest.raises((RuntimeError, ValueError), match=said):
            compiled(x, A, bias)


def test_a_bias_keeps_its_derivative_in_a_graph(A: SparseMatrix) -> None:
    bias = torch.zeros(96).half().requires_grad_()
    compiled = torch.compile(sparse_linear, fullgraph=True, backend="aot_eager")
    compiled(B.T, A, bias).sum().backward()
    assert torch.equal(bias.grad, torch.full_like(bias, B.shape[1]))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("tokens", [8, 40, 600])
@pytest.mark.parametrize("format", MULTIPLIED)
def test_compiles_on_a_gpu(format: str, tokens: int, mode: str) -> None:
    """Before any other product, so that all that one works out is found while it is compiled."""
    A = encode(random_sparse(512, 1024, 0.8).cuda(), format)
    x = torch.randn(tokens, 1024, generator=torch.Generator().manual_seed(0)).half().cuda()
    torch._dynamo.reset()
    compiled = torch.compile(SparseLinear(A), fullgraph=True, mode=mode)
    with torch.no_grad():
        found = [compiled(x * scale).clone() for scale in (1, 2, 3)]
        for scale, y in zip((1, 2, 3), found, strict=True):
            assert torch.equal(y, sparse_linear(x * scale, A))
