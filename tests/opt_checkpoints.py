"""Checkpoints on disk of every kind that transformers writes, or once wrote."""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

KINDS = ["safetensors", "sharded safetensors", "bin", "sharded bin"]
SHARD = 60_000  # bytes: several shards


def write(other: transformers.OPTForCausalLM, folder: Path, kind: str = "safetensors") -> Path:
    """The checkpoint of a model of transformers; newer versions of it write no .bin any more."""
    other.save_pretrained(folder, max_shard_size=SHARD if "sharded" in kind else "5GB")
    if kind.endswith("bin"):
        for file in folder.glob("*.safetensors"):
            torch.save(load_file(file), folder / bin_name(file.name))
            file.unlink()
        for index in folder.glob("*.index.json"):
            found = json.loads(index.read_text())
            places = {name: bin_name(file) for name, file in found["weight_map"].items()}
            index.unlink()
            index = folder / "pytorch_model.bin.index.json"
            index.write_text(json.dumps({"weight_map": places}))
    return folder


def bin_name(file: str) -> str:
    return file.replace("model", "pytorch_model").replace(".safetensors", ".bin")
