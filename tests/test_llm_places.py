"""Where a model's weights may be asked to go: what cannot be is named before a weight is read."""

import re

import pytest
import torch
from opt_models import config, random_model

from lab_utils.llm.checkpoint import Random, Stored, convert, load, save
from lab_utils.llm.pruning import Recipe

GPUS = torch.cuda.device_count()
PLACES = ", ".join(["cpu", *(f"cuda:{i}" for i in range(GPUS))])
DEVICES = [
    ({"device": device}, f"device='{device}'; allowed here: {PLACES}")
    for device in ("tpu", "meta", "", f"cuda:{GPUS}")
]
DTYPES = [
    ({"dtype": "fp16"}, "dtype='fp16'; allowed: torch.float16, torch.bfloat16, torch.float32"),
    ({"dtype": torch.int8}, "dtype=torch.int8; allowed: torch.float16"),
]


class Unreadable(Random):
    def read(self, name: str) -> torch.Tensor:
        raise AssertionError(f"{name} was read")


@pytest.mark.parametrize(("place", "said"), DEVICES + DTYPES)
def test_where_and_how_weights_cannot_be(tmp_path, place, said) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        load(Unreadable(config()), **place)
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        convert(Unreadable(config()), tmp_path / "new", Recipe(), **place)
    assert not any(tmp_path.iterdir())
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        Random(config(), **place)


@pytest.mark.parametrize(("place", "said"), DEVICES)
def test_stored_models_cannot_be_there_either(tmp_path, place, said) -> None:
    save(random_model(), tmp_path / "model")
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        Stored(tmp_path / "model").load(**place)


def test_stored_models_are_no_source(tmp_path) -> None:
    save(random_model(), tmp_path / "model")
    with pytest.raises(ValueError, match=r"^source=<.*Stored.*; allowed: HuggingFace\(folder\)"):
        load(Stored(tmp_path / "model"))
