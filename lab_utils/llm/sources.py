"""Models by name: a size of the family with random weights, or the folder of a checkpoint."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from lab_utils import catalog
from lab_utils.llm.checkpoint import Random, Source, load
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.layout import FORMAT
from lab_utils.llm.model import MATRICES, OPT
from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.llm.reader import HuggingFace
from lab_utils.llm.recipe import Recipe
from lab_utils.llm.stored import Stored
from lab_utils.nn import SparseLinear

TOKENIZER = ("tokenizer*.json", "vocab.json", "merges.txt", "special_tokens_map.json",
             "added_tokens.json")  # fmt: skip


def opened(
    name: str,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float16,
) -> Source | Stored:
    """What `name` says: "OPT-30B" and the like, with random weights of `dtype` made on `device`;
    a folder of Hugging Face's; or one that `store.save` wrote. Reads headers only.

    Raises ValueError for anything else, and for a checkpoint that is damaged or no OPT.
    """
    if Path(name).is_dir():
        return Stored(name) if _is_ours(Path(name)) else HuggingFace(name)
    sizes = [one.name for one in catalog.models().values() if one.family == "opt"]
    if name not in sizes:
        raise ValueError(f"model={name!r} is no folder; allowed: one, or {', '.join(sizes)}")
    return Random(OPTConfig.of(name), seed=seed, device=device, dtype=dtype)


def model_of(
    source: Source | Stored,
    recipe: Recipe,
    *,
    ranks: Ranks = ALONE,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float16,
    tokens: torch.Tensor | None = None,
) -> OPT:
    """The model of `source`, as `recipe` says; arguments of `checkpoint.load`.

    A stored model is pruned already and has its dtype: of the recipe it takes the format alone, and
    without one stays as it was stored. Raises ValueError where the recipe would prune it.
    """
    if not isinstance(source, Stored):
        return load(source, recipe, ranks=ranks, device=device, dtype=dtype, tokens=tokens)
    if recipe.target is not None:
        raise ValueError(f"{source.folder} is pruned already; allowed: no sparsity")
    return source.load(ranks=ranks, device=device, format=recipe.format)


def decoded(model: OPT) -> OPT:
    """`model` with a `torch.nn.Linear` in place of every sparse matrix, one after the other."""
    for layer in model.layers:
        for name in MATRICES:
            if isinstance(matrix := layer.get_submodule(name), SparseLinear):
                setattr(layer, name, matrix.to_linear().requires_grad_(False))
    return model


def tokenizer_of(folder: str | Path) -> Any | None:
    """transformers' tokenizer of a checkpoint; None where the folder has none.

    Raises RuntimeError where transformers is not installed.
    """
    if not any(True for pattern in TOKENIZER for _ in Path(folder).glob(pattern)):
        return None
    from lab_utils.llm.outside import imported

    return imported().AutoTokenizer.from_pretrained(folder)


def copy_tokenizer(source: str | Path, target: str | Path) -> None:
    """Copy the files of a tokenizer, if there are any, from one folder into another."""
    for pattern in TOKENIZER:
        for file in Path(source).glob(pattern):
            shutil.copy(file, target)


def _is_ours(folder: Path) -> bool:
    try:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False  # HuggingFace says what is wrong with it
    return isinstance(described, dict) and described.get("format") == FORMAT
