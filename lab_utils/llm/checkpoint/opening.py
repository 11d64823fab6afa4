"""Models by name: a size of the family with random weights, or the folder of a checkpoint."""

from pathlib import Path

import torch

from lab_utils.llm.checkpoint.hugging_face import HuggingFace
from lab_utils.llm.checkpoint.layout import FORMAT
from lab_utils.llm.checkpoint.loading import load
from lab_utils.llm.checkpoint.sources import Random, Source
from lab_utils.llm.checkpoint.stored import Stored
from lab_utils.llm.config import OPTConfig, family, read_object
from lab_utils.llm.model import OPT
from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.llm.pruning.recipe import Recipe, check_recipe


def opened(
    name: str,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float16,
) -> Source | Stored:
    """What `name` says: "OPT-30B" and the like, with random weights of `dtype` made on `device`;
    a folder of Hugging Face's; or one that `saving.save` wrote. Reads headers only.

    Raises ValueError for anything else, and for a checkpoint that is damaged or no OPT.
    """
    name = str(name)  # of a path, too
    if name and Path(name).is_dir():
        return Stored(name) if _is_ours(Path(name)) else HuggingFace(name)
    if name.lower() not in map(str.lower, family()):
        raise ValueError(f"model={name!r} is no folder; allowed: one, or {', '.join(family())}")
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
    """The model of `source`, as `recipe` says; arguments of `loading.load`.

    A stored model is pruned already and has its dtype: of the recipe it takes the format alone, and
    without one stays as it was stored. Raises ValueError where the recipe would prune it.
    """
    check_recipe(recipe)
    if not isinstance(source, Stored):
        return load(source, recipe, ranks=ranks, device=device, dtype=dtype, tokens=tokens)
    if recipe.target is not None:
        raise ValueError(f"{source.folder} is pruned already; allowed: no sparsity")
    return source.load(ranks=ranks, device=device, format=recipe.format)


def _is_ours(folder: Path) -> bool:
    try:
        return read_object(folder / "config.json").get("format") == FORMAT
    except ValueError:
        return False  # HuggingFace says what is wrong with it
