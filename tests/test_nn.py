"""SparseLinear is a layer like any other: it moves, copies, saves, loads, compiles, and refuses."""

import copy
import re
from collections.abc import Callable

import pytest
import torch
from layers import K, M, X, activations, linear, state_of
from torch import Tensor, nn
from torch.nn.utils import prune

from lab_utils import SparseLinear, accuracy, encode, load, sparsify
from lab_utils.backends import cpu
from lab_utils.formats import FORMATS

ON_GPU = ["tiled_csl", "tca_bme"]  # formats with kernels there


def check(y: Tensor, x: Tensor, dense: nn.Linear) -> None:
    """Within the roundings of the sum and of adding the bias to it, wherever y and x are."""
    W, b = dense.weight.detach().double().cpu(), dense.bias.detach().double().cpu()
    total = x.double().cpu() @ W.T
    allowed = torch.finfo(y.dtype).eps * (total.abs() + (total + b).abs() + 0.01)
    assert torch.all((y.double().cpu() - total - b).abs() <= allowed)


@pytest.fixture
def dense() -> nn.Linear:
    return linear()


@pytest.fixture
def sparse(dense: nn.Linear) -> SparseLinear:
    return SparseLinear.from_linear(dense)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("format", cpu.formats)
def test_multiplies_as_the_linear_layer(format: str, dtype: torch.dtype) -> None:
    dense = linear(0.5, dtype)
    layer = SparseLinear.from_linear(dense, format)
    x = activations(2, 3, dtype=dtype)
    y = layer(x)
    assert y.shape == (2, 3, M) and layer.weight.name == format
    check(y, x, dense)


def test_without_bias_it_is_sparse_linear(dense: nn.Linear) -> None:
    dense.bias = None
    layer = SparseLinear.from_linear(dense)
    accuracy.check(layer(X).T, dense.weight.detach(), X.T)
    assert layer.to_linear().bias is None


def test_takes_options_of_the_format_and_a_stored_matrix(dense: nn.Linear, tmp_path) -> None:
    plain = SparseLinear.from_linear(dense, "tiled_csl", reorder=False)
    assert torch.equal(plain(X), SparseLinear.from_linear(dense, "tiled_csl")(X))
    plain.weight.save(tmp_path / "w.safetensors")
    stored = SparseLinear(load(tmp_path / "w.safetensors"), dense.bias)
    assert torch.equal(stored(X), plain(X))


def test_returns_to_a_linear_layer(dense: nn.Linear, sparse: SparseLinear) -> None:
    back = sparse.eval().to_linear()
    assert type(back) is nn.Linear and not back.training
    assert torch.equal(back.weight, dense.weight) and torch.equal(back.bias, dense.bias)
    assert back(X).shape == (8, M)


def test_weights_that_a_mask_multiplied_are_zeros(dense: nn.Linear) -> None:
    masked = copy.deepcopy(dense)
    with torch.no_grad():
        masked.weight[dense.weight == 0] = -0.0
    assert SparseLinear.from_linear(masked).weight.nnz == torch.count_nonzero(dense.weight)


def test_says_what_it_is(sparse: SparseLinear) -> None:
    assert f"in_features={K}, out_features={M}, bias=True, tca_bme, float16" in repr(sparse)
    assert f"60.0% zeros, {sparse.weight.nbytes:,} bytes" in repr(sparse)
    assert f"no values, {sparse.weight.nbytes:,} bytes" in repr(sparse.to("meta"))


@pytest.mark.parametrize("format", FORMATS)
def test_weights_without_values_say_what_they_are(format: str) -> None:
    dense = nn.Linear(K, M, dtype=torch.float16)
    dense.weight.data[:, 2::4] = dense.weight.data[:, 3::4] = 0  # as 2:4 has it, too
    layer = SparseLinear.from_linear(dense, format)
    told = [repr(layer.weight.to("meta")), repr(layer.to("meta").weight)]
    A = layer.weight
    size = f"{A.nbytes / 1e6:.2f} MB on meta>"
    assert told == [f"<{type(A).__name__} {M}x{K} float16, no values, {size}"] * 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: SparseLinear(X), "weight is a Tensor; allowed: encode"),
        (lambda: SparseLinear(encode(X, "csr"), [1.0]), "bias is a list; allowed: strided"),
        (lambda: SparseLinear(encode(X, "csr"), torch.zeros(7).half()), r"bias is .*\(7,\) on cpu"),
        (lambda: SparseLinear(encode(X, "csr"), torch.zeros(8)), r"32 .*\(8,\).*allowed: .*16"),
        (lambda: SparseLinear.from_linear(nn.ReLU()), "linear is a ReLU; allowed: torch.nn.Linear"),
        (lambda: SparseLinear.from_linear(nn.Linear(8, 8)), "torch.float32; allowed: .*float16"),
        (lambda: SparseLinear.from_linear(linear(), "coo"), "format='coo': unknown"),
        (lambda: SparseLinear.from_linear(linear(), "csr", reorder=True), "no option of csr"),
    ],
)
def test_refuses_what_does_not_fit(call: Callable, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_refuses_an_encoding_that_was_changed() -> None:
    A = encode(X, "csr")
    A.arrays["col_idx"].fill_(10**6)
    with pytest.raises(ValueError, match="row 0 has a col_idx out of"):
        SparseLinear(A)


def test_refuses_activations_that_do_not_fit(sparse: SparseLinear) -> None:
    for x in (X.float(), X[:, :100], X.tolist()):
        with pytest.raises(ValueError, match="x is a"):
            sparse(x)


def test_has_no_gradients(sparse: SparseLinear) -> None:
    assert not any(parameter.requires_grad for parameter in sparse.parameters())
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="x requires a gradient.*no_grad"):
        sparse(x)
    with torch.no_grad():
        assert torch.equal(sparse(x), sparse(X))


# --- compiled -----------------------------------------------------------------------------------


def test_compiles_into_one_graph(sparse: SparseLinear) -> None:
    model = nn.Sequential(sparse, nn.ReLU())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(X), model(X))
    sparse.load_state_dict(state_of(linear(0.3)))  # other lengths and another constant
    assert torch.equal(compiled(X), model(X))


def test_compiled_graphs_do_not_copy_the_weights(sparse: SparseLinear) -> None:
    """CUDA graphs copy every input of a call but those known to stay where they are."""
    torch._dynamo.reset()  # or so many layers were compiled that this one may not be
    inputs = []
    torch.compile(sparse, fullgraph=True, backend=lambda g, x: inputs.extend(x) or g)(X)
    moving = [t for t in inputs if not getattr(t, "_dynamo_static_input_type", None)]
    assert len(inputs) == 2 and len(moving) == 1  # x and the bias: of arrays torch knows a name


@pytest.mark.parametrize("strict", [False, True])
def test_exports(sparse: SparseLinear, strict: bool) -> None:
    """With its arrays: in another process nobody knows the name that compiled graphs have."""
    exported = torch.export.export(sparse, (X,), strict=strict)
    assert torch.equal(exported.module()(X), sparse(X))
    called = {node.target for node in exported.graph.nodes}
    assert torch.ops.lscd.spmm.default in called
    assert torch.ops.lscd.linear.default not in called
    assert sparse.weight.arrays.keys() <= exported.state_dict.keys()


# --- sparsify -----------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.dense_head = linear(0.7), linear(0.0)
        self.block = nn.Sequential(nn.ReLU(), nn.LayerNorm(M).half(), linear(0.8))
        self.same = self.first
        self.attention = nn.MultiheadAttention(8, 2).half()  # reads out_proj.weight by itself

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.same(x)


def test_sparsify_replaces_the_layers_that_become_smaller() -> None:
    model, original = Net(), Net()
    replaced = sparsify(model)
    assert set(replaced) == {"first", "block.2"}
    assert model.first is model.same is replaced["first"]
    assert type(model.dense_head) is nn.Linear
    assert type(model.attention.out_proj) is type(original.attention.out_proj)
    assert torch.equal(replaced["block.2"].to_linear().weight, original.block[2].weight)


def test_sparsify_takes_what_torch_pruned() -> None:
    model = nn.Sequential(nn.Linear(K, M), nn.ReLU()).half()
    prune.l1_unstructured(model[0], "weight", amount=0.7)
    expected = model(X)
    assert sparsify(model)["0"].weight.sparsity == pytest.approx(0.7)
    assert torch.allclose(model(X), expected, atol=2e-3)


def test_sparsify_replaces_what_is_selected() -> None:
    model = Net()
    replaced = sparsify(model, "csr", select=lambda name, layer: "head" in name)
    assert list(replaced) == ["dense_head"] and model.dense_head.weight.name == "csr"


@pytest.mark.parametrize(
    ("model", "format", "said"),
    [
        (nn.Sequential(linear(), nn.Linear(8, 8)), "tca_bme", "layer '1' is torch.float32"),
        (linear(), "tca_bme", "model is itself a torch.nn.Linear"),
        (nn.Sequential(linear()), "coo", "format='coo': unknown"),
        (nn.Sequential(linear(0.3)), "2:4", "layer '0': dense has more than two non-zeros"),
    ],
)
def test_sparsify_replaces_all_or_nothing(model: nn.Module, format: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sparsify(model, format, select=lambda name, layer: True)
    assert not any(isinstance(module, SparseLinear) for module in model.modules())


@pytest.mark.parametrize("sparsity", [0.0, 0.8])  # where nothing pays, and where all does
def test_sparsify_refuses_formats_and_options_before_it_chooses(sparsity: float) -> None:
    model = nn.Sequential(linear(sparsity))
    for wrong in ([], None, "coo", ["csr"]):
        with pytest.raises(ValueError, match=re.escape(f"format={wrong!r}: unknown; allowed: den")):
            sparsify(model, wrong)
    with pytest.raises(ValueError, match="reoder=True: no option of tiled_csl; allowed: reorder"):
        sparsify(model, "tiled_csl", reoder=True)
    with pytest.raises(ValueError, match="reorder=True: no option of csr; allowed: none"):
        sparsify(model, "csr", select=lambda name, layer: pytest.fail("asked"), reorder=True)
    assert type(model[0]) is nn.Linear


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_sparsify_refuses_layers_that_do_something_else() -> None:
    model = nn.Sequential(linear())
    own = model[0].forward
    model[0].forward = lambda x: 2 * own(x)  # as wrappers of a layer do
    with pytest.raises(ValueError, match="layer '0' has a forward of its own.* lose; allowed: "):
        sparsify(model)
    assert type(model[0]) is nn.Linear
    with pytest.raises(ValueError, match="linear has a forward of its own, from its class"):
        SparseLinear.from_linear(Doubled(8, 8).half())
    model[0].forward = own  # and as they take it back
    assert list(sparsify(model)) == ["0"]


def test_sparsify_names_what_it_cannot_ask() -> None:
    with pytest.raises(ValueError, match="model is a list; allowed: torch.nn.Module"):
        sparsify([linear()])
    with pytest.raises(ValueError, match=r"weight \(96, 160\) on meta is a .* or select="):
        sparsify(nn.Sequential(linear()).to("meta"))
    with pytest.raises(ValueError, match="select=5; allowed: None, or a function"):
        sparsify(nn.Sequential(linear()), select=5)


# --- on a GPU -----------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("format", ON_GPU)
def test_encodes_where_the_layer_is(dense: nn.Linear, format: str) -> None:
    layer = SparseLinear.from_linear(dense.cuda(), format)
    there = SparseLinear.from_linear(dense.cpu(), format).cuda()
    for name, array in layer.weight.arrays.items():
        assert array.is_cuda and torch.equal(array, there.weight.arrays[name]), name
    y = layer(X.cuda())
    assert y.is_cuda and torch.equal(y, there(X.cuda()))
    check(y, X, dense)
    assert layer.cpu().weight.device.type == "cpu" and layer(X).shape == y.shape


@pytest.mark.gpu
@pytest.mark.parametrize("format", ON_GPU)
def test_cuda_graph_replays_with_new_activations(dense: nn.Linear, format: str) -> None:
    layer = SparseLinear.from_linear(dense, format).cuda()
    x = X.cuda()
    layer(x)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = layer(x)
    x.copy_(activations(8).cuda() * 2)
    graph.replay()
    assert torch.equal(y, layer(x))
