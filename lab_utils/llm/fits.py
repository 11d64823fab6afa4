"""What fits the memory of this machine: asked before a weight is loaded.

`lab_utils.analysis.memory` is the arithmetic.
"""

from dataclasses import replace

import torch

from lab_utils import catalog, machine
from lab_utils.analysis import memory
from lab_utils.llm.config import OPTConfig

SMALLEST_BATCH = 8  # of the paper's figures


def as_catalog_model(config: OPTConfig) -> catalog.Model:
    """The dimensions that the planner takes, of any OPT, such as that of a checkpoint."""
    names = ("name", "hidden", "ffn", "layers", "heads", "vocab", "max_positions", "norm_first",
             "tied", "embed")  # fmt: skip
    dimensions = {name: getattr(config, name) for name in names}
    return catalog.Model(
        **dimensions, family="opt", kv_heads=config.heads, gated=False, source="config.json"
    )


def capacity(device: torch.device | str) -> float:
    """Bytes that a program can have: of a GPU, those that are free or torch's own; of the host."""
    device = torch.device(device)
    if device.type != "cuda":
        return machine.memory_bytes()
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) + memory.CONTEXT_BYTES


def check_fits(work: memory.Workload, has: float) -> None:
    """Raise RuntimeError, saying what would fit, unless `has` bytes on each GPU are enough."""
    needed = memory.total(work)
    if needed <= has:
        return
    gpus, batch = memory.fewest_gpus(work, has), memory.largest_batch(work, has)
    more = f"{gpus} of them hold it" if gpus else "8 of them do not hold it either"
    raise RuntimeError(
        f"{work.model.name} as {work.format} at sparsity {work.sparsity:g} and batch={work.batch} "
        f"needs {needed / 1e9:.1f} GB on each of {work.gpus} GPUs, which have {has / 1e9:.1f}: "
        f"{more}; the largest batch here is {batch or 'none'}"
    )


def batches(work: memory.Workload, has: float) -> list[int]:
    """8, 16, 32 … up to the largest batch that fits; RuntimeError where not even 8 does."""
    check_fits(replace(work, batch=SMALLEST_BATCH), has)
    largest = memory.largest_batch(work, has)
    return [SMALLEST_BATCH << i for i in range((largest // SMALLEST_BATCH).bit_length())]
