"""Calibration: what each matrix sees once all earlier layers are pruned, and gradients."""

import copy

import pytest
import torch
from click.testing import CliRunner
from opt_models import config, prompts, random_model
from opt_transformers import VARIANTS, ours, theirs
from torch import Tensor, nn
from torch.nn import functional as F

from lab_utils import SparseLinear
from lab_utils.llm import OPT
from lab_utils.llm.checkpoint import Random, load
from lab_utils.llm.checkpoint.hugging_face import theirs as theirs_of
from lab_utils.llm.cli import main
from lab_utils.llm.model import MATRICES
from lab_utils.llm.parallel import Ranks
from lab_utils.llm.pruning import METHODS, Recipe, Target, prune
from lab_utils.llm.pruning.calibration import Calibration
from lab_utils.llm.pruning.models import prune_layer, prune_model

TOKENS = prompts(batch=5, tokens=16)
TARGET = Target(0.5)
CALIBRATED = [name for name, method in METHODS.items() if method.statistic]


def seen(model: OPT, tokens: Tensor, layer: int) -> dict[str, Tensor]:
    """What goes into each matrix of a layer, [tokens, K], when all sequences run at once."""
    inputs: dict[str, Tensor] = {}
    for name in MATRICES:
        linear = model.layers[layer].get_submodule(name)
        linear.register_forward_hook(lambda _, x, y, name=name: inputs.update({name: x[0]}))
    model(tokens)
    return {name: x.flatten(0, -2) for name, x in inputs.items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_inputs_are_those_after_the_earlier_layers_were_pruned(variant, tmp_path):
    model = ours(theirs(variant), tmp_path)
    recipe = Recipe(None, TARGET, "wanda")
    calibration = Calibration(model, TOKENS)
    for index, layer in enumerate(model.layers):
        inputs = seen(copy.deepcopy(model), TOKENS, index)  # layers before this one are pruned
        squares = calibration.statistics(layer, list(MATRICES), "squares")
        hessians = calibration.statistics(layer, ["out", "fc2"], "hessian")
        for name in MATRICES:
            assert torch.allclose(squares[name], inputs[name].square().sum(0), rtol=1e-4)
        for name, hessian in hessians.items():
            expected = inputs[name].T @ inputs[name]
            assert (hessian - expected).norm() < 1e-4 * expected.norm()
        prune_layer(layer, recipe, calibration)
    assert all(not linear._forward_pre_hooks for linear in model.modules())


@pytest.mark.parametrize("variant", ["pre-norm", "post-norm", "own head"])
def test_gradients_are_those_of_the_language_models_loss(variant, tmp_path):
    other = theirs(variant)
    model = ours(other, tmp_path)
    squares = dict.fromkeys(dict(other.named_parameters()), 0.0)
    for row in TOKENS:
        other.zero_grad()
        other(row[None], labels=row[None]).loss.backward()
        for name, parameter in other.named_parameters():
            squares[name] = squares[name] + parameter.grad.square() / len(TOKENS)
    calibration = Calibration(model, TOKENS)
    for layer in model.layers:
        found = calibration.statistics(layer, list(MATRICES), "gradient")
        for name in MATRICES:
            parts = theirs_of(f"layers.{layer.index}.{name}.weight")
            expected = torch.cat([squares[f"model.decoder.{one}"] for one in parts]).sqrt()
            error = (found[name] - expected).norm() / expected.norm()
            assert error < 1e-4, (layer.index, name)
        calibration.advance(layer)
    assert not any(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_streamed_and_whole_models_become_the_same(method):
    source, recipe = Random(config(), dtype=torch.bfloat16), Recipe("tca_bme", TARGET, method)
    tokens = TOKENS if method in CALIBRATED else None
    streamed = load(source, recipe, dtype=torch.bfloat16, tokens=tokens).state_dict()
    whole = prune_model(load(source, dtype=torch.bfloat16), recipe, tokens).state_dict()
    assert streamed.keys() == whole.keys()
    assert all(torch.equal(streamed[name], whole[name]) for name in whole)


@pytest.mark.parametrize("method", METHODS)
def test_matrices_kept_dense_stay_as_they_are(method):
    original, kept = random_model(), {"layers.0.fc1", "layers.1.out"}
    recipe = Recipe(None, Target(0.7), method, dense=kept.__contains__)
    model = prune_model(random_model(), recipe, TOKENS if method in CALIBRATED else None)
    for index, layer in enumerate(model.layers):
        for name in MATRICES:
            before = original.layers[index].get_submodule(name).weight
            after = layer.get_submodule(name).weight
            if f"layers.{index}.{name}" in kept:
                assert torch.equal(after, before)
            else:
                count = round(0.7 * after.shape[1])
                assert (after == 0).sum(1).tolist() == [count] * after.shape[0]


def test_wanda_is_magnitude_times_inputs_of_the_first_layer():
    inputs = seen(random_model(), TOKENS, 0)["qkv"]
    expected = prune(random_model().layers[0].qkv.weight, TARGET, "wanda", inputs.square().sum(0))
    model = prune_model(random_model(), Recipe(None, TARGET, "wanda"), TOKENS)
    differing = int(((model.layers[0].qkv.weight == 0) != (expected == 0)).sum())
    assert differing <= 4 and not torch.equal(
        expected, prune(random_model().layers[0].qkv.weight, TARGET)
    )


@torch.no_grad()
def loss(model: OPT) -> float:
    logits = model(TOKENS)[:, :-1].flatten(0, 1)
    return float(F.cross_entropy(logits, TOKENS[:, 1:].flatten()))


def trained() -> OPT:
    """A model that knows TOKENS by heart: only then does it matter what is pruned."""
    model = random_model(spread=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        logits = model(TOKENS)[:, :-1].flatten(0, 1)
        optimizer.zero_grad()
        F.cross_entropy(logits, TOKENS[:, 1:].flatten()).backward()
        optimizer.step()
    return model


def test_what_was_learned_survives_calibrated_pruning_best():
    model = trained()
    found = {
        method: loss(
            prune_model(
                copy.deepcopy(model),
                Recipe(None, Target(0.7), method),
                TOKENS if method in CALIBRATED else None,
            )
        )
        for method in METHODS
    }
    assert loss(model) < 0.1
    assert found["sparsegpt"] < found["wanda"] < 2 and found["sparsegpt"] < found["magnitude"]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"tokens": None}, "tokens=None; wanda needs a tensor"),
        ({"tokens": TOKENS[0]}, r"tokens=\(16,\); wanda needs"),
        ({"tokens": TOKENS[:0]}, r"tokens=\(0, 16\); wanda needs"),
        ({"tokens": TOKENS.float()}, "tokens are torch.float32 .*allowed: integers from 0 to 96"),
        ({"tokens": TOKENS + 80}, "allowed: integers from 0 to 96"),
        ({"tokens": -TOKENS}, "allowed: integers from 0 to 96"),
        ({"tokens": TOKENS.repeat(1, 4)}, "tokens have length 64; allowed: 2 to 48"),
        ({"tokens": TOKENS[:, :1]}, "tokens have length 1; allowed: 2 to 48"),
    ],
)
def test_unfit_tokens_are_refused(change, said):
    model = random_model()
    with pytest.raises(ValueError, match=said):
        prune_model(model, Recipe(None, TARGET, "wanda"), **change)
    before = random_model().state_dict()
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


@pytest.mark.parametrize("method", METHODS)
def test_the_command_names_its_option(method, monkeypatch, tmp_path):
    monkeypatch.setattr("lab_utils.llm.checkpoint.convert", lambda *_, **__: pytest.fail("begun"))
    text, needs = tmp_path / "text.txt", method in CALIBRATED
    text.touch()
    told = [] if needs else ["--calibration", str(text)]
    asked = ["prune", "OPT-125M", str(tmp_path / "x"), "--sparsity", "0.5", "--method", method]
    done = CliRunner().invoke(main, [*asked, *told])
    given, allowed = ("", "a file of text") if needs else (text, "none")
    message = f"--calibration='{given}' with --method={method}; allowed: {allowed}"
    assert done.exit_code == 2 and message in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["text.txt"]


def test_only_whole_dense_models_are_pruned():
    with pytest.raises(ValueError, match="'wanda' on world=2 ranks; allowed: one rank"):
        load(Random(config()), Recipe(None, TARGET, "wanda"), ranks=Ranks(0, 2), tokens=TOKENS)
    with pytest.raises(ValueError, match="world=2 shares; allowed: a whole one"):
        prune_model(load(Random(config()), ranks=Ranks(0, 2)), Recipe(None, TARGET))
    model = load(Random(config()))
    model.layers[1].out = SparseLinear.from_linear(model.layers[1].out)
    with pytest.raises(ValueError, match="layers.1.out is SparseLinear.*allowed: torch.nn.Linear"):
        prune_model(model, Recipe(None, TARGET))
    assert type(model.layers[0].qkv) is nn.Linear and (model.layers[0].qkv.weight != 0).all()
