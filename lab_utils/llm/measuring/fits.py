"""What fits the memory of this machine: asked before a weight is loaded.

`lab_utils.analysis.memory` is the arithmetic.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from lab_utils import catalog
from lab_utils.analysis import memory
from lab_utils.analysis.variants import VARIANTS
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.measuring import device_memory
from lab_utils.llm.pruning.recipe import Recipe

SMALLEST_BATCH = 8  # of the paper's figures


def as_catalog_model(config: OPTConfig) -> catalog.Model:
    """The dimensions that the planner takes, of any OPT, such as that of a checkpoint."""
    names = ("name", "hidden", "ffn", "layers", "heads", "vocab", "max_positions", "norm_first",
             "tied", "embed")  # fmt: skip
    dimensions = {name: getattr(config, name) for name in names}
    return catalog.Model(
        **dimensions, family="opt", kv_heads=config.heads, gated=False, source="config.json"
    )


def check_fits(work: memory.Workload, has: float) -> None:
    """Raise RuntimeError, saying what would fit, unless `has` bytes on each device are enough."""
    needed = memory.total(work)
    if needed <= has:
        return
    gpus, batch = memory.fewest_gpus(work, has), memory.largest_batch(work, has)
    more = f"{gpus} of them hold it" if gpus else "8 of them do not hold it either"
    variants = (name for name, variant in VARIANTS.items() if variant.format == work.format)
    if fitting := [v for v in variants if memory.total(replace(work, format=v)) <= has]:
        more += f", but {work.gpus} would as {' or '.join(fitting)}"
    raise RuntimeError(
        f"{work.model.name} as {work.format} at sparsity {work.sparsity:g} and batch={work.batch} "
        f"needs {needed / 1e9:.1f} GB on each of gpus={work.gpus}, and there are {has / 1e9:.1f}: "
        f"{more}; the largest batch here is {batch or 'none'}"
    )


def check_generation(
    config: OPTConfig,
    recipe: Recipe,
    tokens: Sequence[Sequence[int]],
    output: int,
    gpus: int,
    device: torch.device | str,
) -> None:
    """`check_fits` for prompts of these `tokens`, and a recipe whose format is a name or None."""
    sparsity = recipe.target.sparsity if recipe.target else 0.0
    lengths = (len(tokens), max(map(len, tokens)), output)
    opt, format = as_catalog_model(config), recipe.format or "dense"
    work = memory.Workload(opt, format, sparsity, *lengths, gpus, recipe.dense)
    check_fits(work, device_memory.capacity(device))


def batches(work: memory.Workload, has: float) -> list[int]:
    """8, 16, 32 … up to the largest batch that fits; RuntimeError where not even 8 does."""
    check_fits(replace(work, batch=SMALLEST_BATCH), has)
    largest = memory.largest_batch(work, has)
    return [SMALLEST_BATCH << i for i in range((largest // SMALLEST_BATCH).bit_length())]
