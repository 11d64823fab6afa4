"""Checkpoints that are damaged, incomplete or of another model are refused as they are opened."""

import json
from pathlib import Path

import pytest
import torch
from opt_checkpoints import write
from opt_transformers import theirs
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab_utils.llm.checkpoint import HuggingFace


@pytest.fixture
def own(tmp_path) -> Path:
    """A checkpoint in one file, which a test may spoil."""
    return write(theirs(), tmp_path / "own")


def edit(folder: Path, file: str, **changes) -> None:
    found = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**found, **changes}))


def resave(folder: Path, **changes: Tensor | None) -> None:
    """Change tensors in a checkpoint by their names in layer 1's MLP; None removes one."""
    file, prefix = folder / "model.safetensors", "model.decoder.layers.1."
    state = load_file(file) | {prefix + name.replace("_", "."): t for name, t in changes.items()}
    save_file({name: t for name, t in state.items() if t is not None}, file)


def truncate(file: Path, by: int = 100) -> None:
    file.write_bytes(file.read_bytes()[:-by])


SPOILED = {
    "architecture": (lambda f: edit(f, "config.json", model_type="llama"), "model_type is 'llama'"),
    "activation": (lambda f: edit(f, "config.json", activation_function="gelu"), "is 'gelu'"),
    "no config": (lambda f: (f / "config.json").unlink(), "config.json cannot be read"),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        "holds no weights; allowed: model",
    ),
    "truncated": (lambda f: truncate(f / "model.safetensors"), "safetensors is damaged"),
    "empty": (lambda f: (f / "model.safetensors").write_bytes(b""), "safetensors is damaged"),
    "missing": (lambda f: resave(f, fc1_bias=None), "has no layers.1.fc1.bias"),
    "unknown": (lambda f: resave(f, fc3_weight=torch.ones(2)), "has unknown layers.1.fc3.weight"),
    "shape": (
        lambda f: resave(f, fc1_weight=torch.ones(64, 144)),
        r"layers.1.fc1.weight is torch.float32 \(64, 144\); allowed: \(144, 64\)",
    ),
    "integers": (
        lambda f: resave(f, fc1_weight=torch.ones(144, 64).char()),
        "layers.1.fc1.weight is torch.int8",
    ),
    "more layers": (
        lambda f: edit(f, "config.json", num_hidden_layers=5),
        "has no layers.3.attention_norm|has no layers.3.self_attn_layer_norm.weight.* and 29 more",
    ),
    "fewer layers": (
        lambda f: edit(f, "config.json", num_hidden_layers=2),
        "has unknown layers.2.fc1.bias.* and 13 more",
    ),
}


@pytest.mark.parametrize("how", SPOILED)
def test_spoiled_checkpoints_are_refused(how, own):
    spoil, said = SPOILED[how]
    spoil(own)
    with pytest.raises(ValueError, match=said):
        HuggingFace(own)


@pytest.mark.parametrize("kind", ["sharded safetensors", "sharded bin"])
def test_missing_and_damaged_shards_are_named(kind, tmp_path):
    folder = write(theirs(), tmp_path / "opt", kind)
    shard, index = sorted(folder.glob("*-00002-of-*"))[0], next(folder.glob("*.index.json"))
    content, places = shard.read_bytes(), json.loads(index.read_text())["weight_map"]
    truncate(shard)
    with pytest.raises(ValueError, match=f"{shard.name} is damaged or no checkpoint"):
        HuggingFace(folder)
    shard.unlink()
    with pytest.raises(ValueError, match=f"has no shard {shard.name}"):
        HuggingFace(folder)
    shard.write_bytes(content)
    edit(folder, index.name, weight_map={**places, "model.decoder.layers.1.fc9": shard.name})
    with pytest.raises(ValueError, match="has, against its index, no model.decoder.layers.1.fc9"):
        HuggingFace(folder)
    for text in ("{", "{}", '{"weight_map": 3}'):
        index.write_text(text)
        with pytest.raises(ValueError, match="index.json is no index of shards"):
            HuggingFace(folder)


def test_pickles_that_hold_no_tensors_are_refused(own):
    (own / "model.safetensors").unlink()
    torch.save({}, own / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="no checkpoint: RuntimeError: mmap can only be used"):
        HuggingFace(own)
    sparse = torch.eye(2).to_sparse()
    for content in ({"a": 1}, [torch.ones(1)], Path("x"), {1: torch.ones(1)}, {"a": sparse}):
        torch.save(content, own / "pytorch_model.bin")
        with pytest.raises(
            ValueError, match="holds no state of a model|is damaged or no checkpoint"
        ):
            HuggingFace(own)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_pickles_with_a_flipped_byte_are_refused(own):
    """Whatever the unpickler raises then."""
    (own / "model.safetensors").unlink()
    weights = own / "pytorch_model.bin"
    torch.save({"a": torch.ones(1)}, weights)
    whole = weights.read_bytes()
    pickled = whole.index(b"ctorch._utils")
    for at in range(pickled - 16, pickled + 48):
        weights.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        with pytest.raises(ValueError, match="holds no state|is damaged|own has (no|unknown) "):
            HuggingFace(own)
