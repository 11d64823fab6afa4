"""SparseLinear survives copies, files and states, and finds what was damaged on the way."""

import copy
import io
import pickle
import re
from collections.abc import Callable

import pytest
import torch
from layers import K, M, X, linear, state_of
from torch import Tensor, nn

from lab_utils import SparseLinear, encode
from lab_utils.backends import boundary
from lab_utils.formats.checks import DTYPES
from lab_utils.patterns import random_sparse


@pytest.fixture
def sparse() -> SparseLinear:
    return SparseLinear.from_linear(linear())


def pickled(layer: SparseLinear) -> SparseLinear:
    return pickle.loads(pickle.dumps(layer))


def saved(layer: SparseLinear) -> SparseLinear:
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def reloaded(layer: SparseLinear) -> SparseLinear:
    """Into a layer of other weights, by way of a file that holds tensors only."""
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = SparseLinear.from_linear(linear(seed=1), layer.weight.name)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


def without(state: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {one: array for one, array in state.items() if one != name}


def older(state: dict[str, Tensor], numbers: int = 4) -> dict[str, Tensor]:
    """Of versions that did not write the format's name, nor, with three numbers, the dtype's."""
    return {**state, "_extra_state": state["_extra_state"][:numbers]}


WAYS = [copy.deepcopy, copy.copy, pickled, saved, reloaded, lambda layer: layer.to("cpu").cpu()]


@pytest.mark.parametrize("way", WAYS, ids=["deep", "copy", "pickle", "save", "state", "to"])
@pytest.mark.parametrize("format", ["tca_bme", "sparta"])
def test_survives(format: str, way: Callable) -> None:
    layer = SparseLinear.from_linear(linear(), format)
    again = way(layer)
    assert torch.equal(again(X), layer(X))
    assert again.weight.arrays is again._buffers
    again.weight.validate()


def test_copies_share_nothing(sparse: SparseLinear) -> None:
    before, again = sparse(X), copy.deepcopy(sparse)
    again.values.zero_()
    again.bias.data.zero_()
    assert torch.equal(sparse(X), before)


def test_the_arrays_are_the_state(sparse: SparseLinear) -> None:
    state = sparse.state_dict()
    assert set(state) == {*sparse.weight.ARRAYS, "bias", "_extra_state"}
    assert all(isinstance(value, Tensor) for value in state.values())  # as safetensors wants


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.9, 1.0])
def test_loads_a_state_of_another_sparsity(
    sparse: SparseLinear, sparsity: float, assign: bool
) -> None:
    model = nn.Sequential(sparse)
    other = nn.Sequential(SparseLinear.from_linear(linear(sparsity, seed=1)))
    assert model.load_state_dict(other.state_dict(), assign=assign).missing_keys == []
    assert torch.equal(model(X), other(X))
    assert sparse.weight.constants == other[0].weight.constants


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (state_of(linear(), "csr"), "0: this state is csr; allowed: tca_bme"),
        (older(state_of(linear(), "csr")), "Missing key.*0.bitmap.*Unexpected key.*row_ptr"),
        (state_of(linear(0.3), bias=torch.ones(M + 1).half()), "size mismatch for 0.bias"),
        (state_of(linear(0.3), bias=3.0), 'named "0.bias", expected torch.Tensor'),
        (
            without(state_of(linear(0.3)), "bias"),
            "0.bias: missing or unexpected; allowed: all of b",
        ),
        (
            state_of(linear(0.3), scale=torch.ones(1)),
            "0.scale: missing or unexpected; allowed: all",
        ),
        (state_of(linear(), values=torch.zeros(8).bfloat16()), "'values' is torch.bfloat16; allow"),
        (state_of(nn.Linear(M, K).half()), r"\[1, 160, 96, 0\]; allowed: \[1, 96, 160, 0\]"),
        (state_of(linear(), values=torch.zeros(8).half()), "invalid tca_bme encoding"),
        (state_of(linear(), gt_offset=torch.tensor([0] * 7).int()), "invalid tca_bme encoding"),
    ],
    ids=["format", "keys", "size", "number", "less", "more", "dtype", "shape", "short", "offsets"],
)
@pytest.mark.parametrize("assign", [False, True])
def test_refuses_states_that_do_not_fit(
    sparse: SparseLinear, state: dict, said: str, assign: bool
) -> None:
    """And takes nothing of them."""
    before = {**sparse._buffers, "bias": sparse.bias}
    values = {name: one.detach().clone() for name, one in before.items()}
    state = {f"0.{name}": one + 1 if name == "bias" else one for name, one in state.items()}
    with pytest.raises(RuntimeError, match=f"(?s){said}"):
        nn.Sequential(sparse).load_state_dict(state, assign=assign)
    after = {**sparse._buffers, "bias": sparse.bias}
    assert all(
        after[name] is one and torch.equal(one, values[name]) for name, one in before.items()
    )


@pytest.mark.parametrize("format", ["tca_bme", "tiled_csl", "zero_row_24", "lane_24_strips"])
def test_refuses_a_state_of_another_dtype(format: str) -> None:
    """Also where arrays do not have it."""
    mine, other = (
        SparseLinear.from_linear(linear(dtype=dtype), format) for dtype in DTYPES.values()
    )
    for one, state in ((mine, other.state_dict()), (other, mine.state_dict())):
        with pytest.raises(RuntimeError, match=r"dtype \(0: float16, 1: bfloat16\) are \["):
            one.load_state_dict(state)


SISTERS = ["bitmap_strips", "coded_strips"]  # whose arrays have the same names


@pytest.mark.parametrize(("format", "other"), [SISTERS, SISTERS[::-1]])
@pytest.mark.parametrize("strict", [False, True])
def test_refuses_another_format_by_name(format: str, other: str, strict: bool) -> None:
    mine, state = SparseLinear.from_linear(linear(), format), state_of(linear(), other)
    said = f"SparseLinear: this state is {other}; allowed: {format}"
    with pytest.raises(RuntimeError, match=said):
        mine.load_state_dict(state, strict=strict)
    with pytest.raises(RuntimeError, match=f"invalid {format} encoding"):  # of no name
        mine.load_state_dict(older(state), strict=strict)


@pytest.mark.parametrize("tail", [[300], [0.5], [255]])
def test_a_name_that_is_none_is_shown_as_it_is(sparse: SparseLinear, tail: list) -> None:
    state = sparse.get_extra_state().tolist()[:4]
    with pytest.raises(ValueError, match=re.escape(f"this state is {tail}; allowed: tca_bme")):
        sparse.set_extra_state(state + tail)


@pytest.mark.parametrize(
    ("format", "numbers", "said"),
    [
        ("tca_bme", 4, None),
        ("tiled_csl", 4, None),
        ("tca_bme", 3, None),
        ("tiled_csl", 3, r"\[1, 96, 160\];"),
    ],
)
def test_takes_an_older_state_where_arrays_have_the_dtype(
    format: str, numbers: int, said: str | None
) -> None:
    """One without the format's name, or without the number of the dtype, too."""
    mine, other = (SparseLinear.from_linear(linear(seed=seed), format) for seed in (0, 1))
    state = older(other.state_dict(), numbers)
    if said is None:
        mine.load_state_dict(state)
        assert torch.equal(mine(X), other(X))
    else:
        with pytest.raises(RuntimeError, match=said):
            mine.load_state_dict(state)


def test_a_corrupted_array_never_reaches_a_kernel(sparse: SparseLinear) -> None:
    sparse.bitmap[0] ^= 1
    for call in (lambda: sparse(X), sparse.to_linear, lambda: pickled(sparse)):
        with pytest.raises(ValueError, match="invalid tca_bme encoding"):
            call()


def test_a_replaced_array_is_noticed(sparse: SparseLinear) -> None:
    sparse.values = sparse.values[:-8]
    with pytest.raises(ValueError, match="invalid tca_bme encoding"):
        sparse(X)


@pytest.mark.parametrize(
    "convert",
    [nn.Module.float, nn.Module.bfloat16, nn.Module.double, lambda m: m.to(torch.float32)],
)
def test_keeps_its_dtype(sparse: SparseLinear, convert: Callable) -> None:
    before = sparse(X)
    with pytest.raises(ValueError, match="of this layer is torch.float16 and stays so"):
        convert(sparse)
    assert torch.equal(sparse(X), before)
    assert torch.equal(sparse.half()(X), before)


def test_works_in_inference_mode() -> None:
    with torch.inference_mode():
        layer = copy.deepcopy(SparseLinear.from_linear(linear()))
        first = layer(X)
    assert torch.equal(layer(X), first)


@pytest.mark.parametrize(("shape", "dim"), [((5, 4, 64), 0), ((4, 64, 5), 2), ((5, 64), 0)])
def test_vmap_multiplies_a_batch_at_once(shape: tuple[int, ...], dim: int) -> None:
    layer = SparseLinear(encode(random_sparse(96, 64, 0.8), "tca_bme"), torch.ones(96).half())
    x = torch.randn(shape).half()
    with torch.no_grad():
        found = torch.vmap(layer, in_dims=dim)(x)
        assert torch.equal(found, layer(x.movedim(dim, 0)))
        twice = torch.vmap(torch.vmap(layer))(x.movedim(dim, 0)[None])
        assert torch.equal(twice[0], found)


def test_vmap_maps_ops_over_activations_alone() -> None:
    A, B = encode(random_sparse(64, 64, 0.8), "bitmap_strips"), torch.randn(3, 64, 8).half()
    bias = torch.randn(3, 64).half()

    def product(B: Tensor, bias: Tensor) -> Tensor:
        return torch.ops.lscd.spmm_bias(*boundary._apart(A), B, "emulator", bias, True)

    found = torch.vmap(product, in_dims=(0, None))(B, bias[0])
    assert torch.equal(found, torch.stack([product(one, bias[0]) for one in B]))
    with pytest.raises(ValueError, match=r"vmap over in_dims=.*; allowed: over B alone"):
        torch.vmap(product)(B, bias)
    layer = SparseLinear(A)
    x = B.mT.contiguous()
    named = torch.vmap(lambda x: torch.ops.lscd.linear(x, layer._key, None, "reference"))
    assert torch.allclose(named(x), torch.stack([layer.product(one) for one in x]), atol=1e-2)
