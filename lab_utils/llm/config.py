"""What an OPT model is made of: the nine sizes of the family, or any Hugging Face config.json."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lab_utils import catalog

ARCHITECTURES = ("OPTForCausalLM", "OPTModel")
SIZES = {  # ours: Hugging Face's
    "hidden": "hidden_size",
    "ffn": "ffn_dim",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "vocab": "vocab_size",
    "max_positions": "max_position_embeddings",
}
LARGEST = 2**24  # of any size: products of three still fit 64 bits
MOST_LAYERS = 2**12  # each of which is made before a file can contradict it
SWITCHES = {
    "norm_first": "do_layer_norm_before",
    "bias": "enable_bias",
    "norm_affine": "layer_norm_elementwise_affine",
    "tied": "tie_word_embeddings",
}


@dataclass(frozen=True)
class OPTConfig:
    """One decoder-only OPT transformer (Zhang et al. 2022, table 1). ReLU between fc1 and fc2."""

    name: str
    hidden: int
    ffn: int
    layers: int
    heads: int
    vocab: int
    max_positions: int
    embed: int  # width of the token embedding; projected where it is not `hidden` (OPT-350M)
    norm_first: bool = True  # norms before attention and MLP; after them in OPT-350M
    final_norm: bool = True  # after the last layer
    bias: bool = True  # of qkv, out, fc1, fc2
    norm_affine: bool = True  # norms have weights and biases
    tied: bool = True  # the head multiplies with the token embedding

    def __post_init__(self) -> None:
        for name in (*SIZES, "embed"):
            value, most = getattr(self, name), MOST_LAYERS if name == "layers" else LARGEST
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(
                    f"{name}={value!r} of {self.name}; allowed: integers from 1 to {most}"
                )
        for name in (*SWITCHES, "final_norm"):
            if type(value := getattr(self, name)) is not bool:
                raise ValueError(f"{name}={value!r} of {self.name}; allowed: true, false")
        if self.hidden % self.heads:
            raise ValueError(f"heads={self.heads} of {self.name} must divide hidden={self.hidden}")

    @classmethod
    def of(cls, name: str) -> Self:
        """The configuration of a model of data/models.yaml: "OPT-125M" to "OPT-175B".

        Raises ValueError for an unknown name, and for a model of another family.
        """
        found = catalog.model(name, "opt")
        sizes = {ours: getattr(found, ours) for ours in SIZES}
        return cls(
            name=found.name,
            **sizes,
            embed=found.embed or found.hidden,
            norm_first=found.norm_first,
            final_norm=found.norm_first,
            tied=found.tied,
        )

    @classmethod
    def from_folder(cls, path: str | Path) -> Self:
        """The configuration in `path`/config.json, as Hugging Face writes it; named as the folder.

        Raises ValueError for a missing or unreadable file, another architecture or activation,
        and a size that is missing.
        """
        file = Path(path) / "config.json"
        found = _read(file)
        if absent := [theirs for theirs in SIZES.values() if theirs not in found]:
            raise ValueError(f"{file}: {', '.join(absent)} missing")
        sizes = {ours: found[theirs] for ours, theirs in SIZES.items()}
        switches = {ours: found[theirs] for ours, theirs in SWITCHES.items() if theirs in found}
        norm_first = found.get(SWITCHES["norm_first"], True)
        return cls(
            name=Path(path).resolve().name,
            **sizes,
            **switches,
            embed=found.get("word_embed_proj_dim") or found["hidden_size"],
            final_norm=norm_first and not found.get("_remove_final_layer_norm", False),
        )

    def as_hugging_face(self) -> dict[str, Any]:
        """The arguments of transformers' OPTConfig for the same model."""
        sizes = {theirs: getattr(self, ours) for ours, theirs in (SIZES | SWITCHES).items()}
        removed = self.norm_first and not self.final_norm
        return {**sizes, "word_embed_proj_dim": self.embed, "_remove_final_layer_norm": removed}

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    def share(self, world: int) -> tuple[int, int]:
        """Heads, and rows of fc1, on each of `world` tensor-parallel ranks.

        Raises ValueError where `world` does not divide both.
        """
        for what in ("heads", "ffn"):
            if world < 1 or getattr(self, what) % world:
                raise ValueError(
                    f"world={world} must divide {what}={getattr(self, what)} of {self.name}"
                )
        return self.heads // world, self.ffn // world


def family() -> list[str]:
    """The names that `OPTConfig.of` knows."""
    return [model.name for model in catalog.models().values() if model.family == "opt"]


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file; ValueError where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file} holds a {type(found).__name__}; allowed: an object")
    return found


def _read(file: Path) -> dict[str, Any]:
    found = read_object(file)
    if (kind := found.get("model_type")) != "opt":
        raise ValueError(f"{file}: model_type is {kind!r}; allowed: 'opt'")
    named = found.get("architectures")
    for one in named if isinstance(named, list) else () if named is None else [named]:
        if one not in ARCHITECTURES:
            raise ValueError(f"{file}: architecture {one!r}; allowed: {', '.join(ARCHITECTURES)}")
    if (activation := found.get("activation_function", "relu")) != "relu":
        raise ValueError(f"{file}: activation_function is {activation!r}; allowed: 'relu'")
    return found
