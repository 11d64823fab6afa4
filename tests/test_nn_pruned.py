"""Layers as pruning and tying leave them, and what `sparsify` makes of them."""

import re
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from lab_utils import SparseLinear, encode, sparsify


def test_pruned_layers_are_encoded_as_they_would_multiply_now() -> None:
    """Pruning sets `weight` only during a forward: what was loaded since must count."""
    trained, fresh = (nn.Sequential(nn.Linear(96, 64).bfloat16()) for _ in range(2))
    for model in (trained, fresh):
        prune.l1_unstructured(model[0], "weight", amount=0.7)
    fresh.load_state_dict(trained.state_dict())
    assert list(sparsify(fresh)) == ["0"]
    x = torch.randn(5, 96).bfloat16()
    with torch.inference_mode():
        assert torch.allclose(fresh(x), trained(x), atol=0.05)


@pytest.mark.parametrize("kind", ["pre_hook", "hook"])
def test_other_hooks_are_refused(kind: str) -> None:
    linear = nn.Linear(96, 64).bfloat16()
    getattr(linear, f"register_forward_{kind}")(lambda *inputs: None)
    with pytest.raises(ValueError, match="forward (pre-)?hook .* encoded weights would lose"):
        SparseLinear.from_linear(linear)


def test_tied_weights_are_left_alone() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(64, 96), "head": nn.Linear(96, 64, bias=False)})
    model = model.bfloat16()
    with torch.no_grad():
        model["embed"].weight.mul_(torch.rand(64, 96) > 0.8)
    model["head"].weight = model["embed"].weight
    with pytest.warns(UserWarning, match="1 pruned parameters stay dense, .*: embed.weight"):
        assert sparsify(model) == {}


def test_pruned_parameters_of_other_layers_are_told() -> None:
    """Experts in one parameter, and classes of their own: nobody should take them for sparse."""

    class Own(nn.Linear):
        pass

    model = nn.Sequential(pruned(0.8)[0], Own(100, 64).bfloat16(), nn.Bilinear(8, 8, 8).bfloat16())
    with torch.no_grad():
        model[1].weight.mul_(torch.rand(64, 100) > 0.8)
        model[2].weight.mul_(torch.rand(8, 8, 8) > 0.8)
    with pytest.warns(UserWarning, match=re.escape("2 pruned parameters stay dense")) as heard:
        assert list(sparsify(model)) == ["0"]
    assert str(heard[0].message).endswith(": 1.weight, 2.weight")


def test_a_look_for_pruned_parameters_knows_those_of_pruning_and_takes_any_dtype() -> None:
    model = nn.Sequential(nn.Linear(100, 64).bfloat16())
    with torch.no_grad():
        model[0].weight.mul_(torch.rand(64, 100) > 0.8)
    prune.custom_from_mask(model[0], "weight", model[0].weight != 0)
    model.eights = nn.Parameter(torch.zeros(8, 8).to(torch.float8_e4m3fn), requires_grad=False)
    with warnings.catch_warnings(action="error"):
        assert list(sparsify(model)) == ["0"]


def test_two_four_is_for_layers_that_may_be_so() -> None:
    model = pruned(0.0, 0.6)
    with torch.no_grad():
        model[1] = nn.Linear(96, 64).bfloat16()
        model[1].weight.view(64, -1, 4)[..., 2:] = 0
    assert list(sparsify(model, "2:4")) == ["1"]


def test_layers_that_nobody_pruned_are_left_alone() -> None:
    """In fp32, with two bytes for each of its four; of zeros alone, as adapters begin."""
    model = nn.Sequential(pruned(0.8)[0], nn.Linear(64, 32), nn.Linear(32, 96).bfloat16())
    nn.init.zeros_(model[2].weight)
    assert list(sparsify(model)) == ["0"]


def test_layers_whose_tiles_are_mostly_padding_stay_dense() -> None:
    model = nn.Sequential(nn.Linear(768, 1).bfloat16())
    with torch.no_grad():
        model[0].weight.mul_(torch.rand(1, 768) > 0.8)
    with pytest.warns(UserWarning, match="stays dense: with whole tiles none is smaller as tca_b"):
        assert sparsify(model) == {}
    assert type(model[0]) is nn.Linear


def test_layers_made_in_inference_mode_take_states_later() -> None:
    model = pruned(0.8)
    with torch.inference_mode():
        sparsify(model)
    model.load_state_dict({name: one.clone() for name, one in model.state_dict().items()})


def pruned(*sparsities: float) -> nn.Sequential:
    model = nn.Sequential(*(nn.Linear(100, 64).bfloat16() for _ in sparsities))
    for linear, sparsity in zip(model, sparsities, strict=True):
        prune.l1_unstructured(linear, "weight", amount=sparsity)
    return model


@pytest.mark.parametrize(
    ("sparsities", "format", "said"),
    [
        ((0.6,), "csr", "smaller as csr (linear layers: 1; zeros: 60.0%)"),
        (
            (0.0, 0.05, 0.02),
            "tca_bme",
            "smaller as tca_bme (linear layers: 3; zeros: 0.0% to 5.0%)",
        ),
    ],
)
def test_a_model_that_stays_dense_is_said_to(sparsities, format: str, said: str) -> None:
    model = pruned(*sparsities)
    with pytest.warns(UserWarning, match=re.escape(said)) as heard:
        assert sparsify(model, format) == {}
    assert [one.filename for one in heard] == [__file__]  # who called, not where it was noticed
    assert all(type(linear) is nn.Linear for linear in model)


def test_only_a_model_that_stays_dense_unasked_is_warned_of() -> None:
    """Not where one layer pays, none is selected, or none is there."""
    with warnings.catch_warnings(action="error"):
        assert list(sparsify(pruned(0.6, 0.9), "csr")) == ["1"]
        assert sparsify(pruned(0.1), select=lambda name, linear: False) == {}
        assert list(sparsify(pruned(0.1), select=lambda name, linear: True)) == ["0"]
        assert sparsify(nn.Sequential(nn.ReLU())) == {}


def test_an_empty_batch_gives_an_empty_result() -> None:
    layer = SparseLinear.from_linear(nn.Linear(96, 64).bfloat16())
    assert layer(torch.empty(2, 0, 96).bfloat16()).shape == (2, 0, 64)


def test_loading_does_not_write_into_another_layer() -> None:
    A = encode(torch.eye(64).bfloat16(), "csr")
    first, second = SparseLinear(A), SparseLinear(A)
    state = first.state_dict() | {"values": 2 * A.arrays["values"]}
    first.load_state_dict(state)
    assert torch.equal(second.weight.decode(), torch.eye(64).bfloat16())
    assert torch.equal(first.weight.decode(), 2 * torch.eye(64).bfloat16())
