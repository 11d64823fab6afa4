"""Parts of a generation: timed as the model runs them, scaled to how often it does."""

from types import SimpleNamespace

import pytest
import torch
from opt_models import pruned, random_model, sparse

from lab_utils.llm import OPT
from lab_utils.llm.generate import Decoder
from lab_utils.llm.measuring import clocks, parts
from lab_utils.llm.measuring.generations import random_tokens
from lab_utils.llm.model import Layer
from lab_utils.llm.parallel import ALONE
from lab_utils.llm.prompts import Prompts


def model_of(format: str | None = None, **changes) -> OPT:
    model = pruned(random_model(torch.bfloat16, **changes), 0.6)
    return sparse(model, format) if format else model


def test_cache_reads_are_those_of_the_decoder(monkeypatch) -> None:
    """Every step asks for one number of slots; counted, they are what the parts are scaled by."""
    model = model_of(max_positions=400)
    tokens = random_tokens(model.config, 2, 100)
    decoder, asked = Decoder(model, 2, 400), []
    monkeypatch.setattr(decoder, "_step", asked.append)
    decoder.run(Prompts.of(tokens, model.config, 300), 300)
    assert parts.cache_reads(100, 300, decoder.cache.slots) == {
        slots: asked.count(slots) for slots in set(asked)
    }


def test_parts_are_scaled_to_the_generation(monkeypatch) -> None:
    """With a second for each timed run: one prompt, and output - 1 steps of each part."""
    monkeypatch.setattr(parts, "part_seconds", lambda *_, **__: 1.0)
    decoder = Decoder(model_of(), 2, 14)
    found = parts.parts(decoder, 5, 9, seconds=20.0)
    assert found == {"matmul_s": 9, "attention_s": 9, "communication_s": 0, "other_s": 2}


def test_communication_is_timed_where_there_is_some(monkeypatch) -> None:
    sums = []
    ranks = SimpleNamespace(world=2, sum=lambda x: sums.append(x.shape))
    model = model_of()
    decoder = Decoder(model, 2, 14)
    monkeypatch.setattr(clocks, "REPEATS", 1)
    model.ranks = ranks
    monkeypatch.setattr(model.config.__class__, "share", lambda *_: (4, 128))
    assert parts.parts(decoder, 5, 9, seconds=20.0)["communication_s"] > 0
    assert sums == 2 * 2 * [(2, 5, 64)] * 2 + 2 * 2 * [(2, 1, 64)] * 2  # two a layer, run twice


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("format", [None, "tca_bme"])
@torch.no_grad()
def test_products_are_those_of_a_layer(format, world, monkeypatch) -> None:
    """With the same biases: on several ranks, those of out and fc2 wait for the sum."""
    model, multiplied, multiply = model_of(format, layers=1), [], Layer.multiply
    (layer,) = model.layers
    names = {module: name for name, module in layer.named_children()}

    def note(self: Layer, linear: torch.nn.Module, x: torch.Tensor, bias_waits: bool = False):
        multiplied.append((names[linear], x.shape, bias_waits))
        return multiply(self, linear, x, bias_waits)

    monkeypatch.setattr(Layer, "multiply", note)
    model.ranks = layer.ranks = SimpleNamespace(world=world, sum=lambda x: x)
    layer(torch.zeros(2, 5, model.config.hidden, dtype=model.dtype))
    parts._products(model, batch=2, tokens=5)()
    assert len(multiplied) == 8 and multiplied[:4] == multiplied[4:]
    assert [waits for _, _, waits in multiplied] == 2 * [False, world > 1, False, world > 1]


def test_seconds_are_the_median_of_repeats(monkeypatch) -> None:
    ticks = iter([0, 3, 10, 11, 20, 22])
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    assert clocks.seconds_of(lambda: None, torch.device("cpu"), 3, ALONE) == 2
