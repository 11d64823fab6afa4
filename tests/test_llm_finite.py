"""What a checkpoint holds that no model can use: NaN, infinities, and what becomes one."""

import re

import pytest
import torch
from opt_models import config, prompts
from torch import Tensor

from lab_utils.llm.checkpoint import Random, load
from lab_utils.llm.pruning import METHODS, Recipe, Target


@pytest.mark.parametrize("name", ["embedding.weight", "layers.1.fc1.bias", "layers.0.out.weight"])
def test_values_that_overflow_are_named(name: str) -> None:
    """Of what nobody prunes as well: finite in the checkpoint, infinite in the model."""

    class Large(Random):
        def read(self, own: str) -> Tensor:
            values = super().read(own).float()
            return values.fill_(1e5) if own == name else values

    load(Large(config()), Recipe(), dtype=torch.bfloat16)
    said = rf"^{re.escape(name)} in float16 holds \d+ NaN or infinite values"
    with pytest.raises(ValueError, match=said):
        load(Large(config()), Recipe(), dtype=torch.float16)


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_are_not_finite_are_named(method):
    class Spoiled(Random):
        def read(self, name: str) -> Tensor:
            values = super().read(name)
            return values.fill_(torch.nan) if name == "layers.1.fc1.weight" else values

    tokens = prompts() if METHODS[method].statistic else None
    with pytest.raises(ValueError, match=r"^layers.1.fc1.* holds \d+ NaN or infinite values"):
        load(Spoiled(config()), Recipe("tca_bme", Target(0.5), method), tokens=tokens)
