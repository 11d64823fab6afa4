"""Whole generations, measured as in Flash-LLM's section 6.3, and the rows of `opt` they become.

Prompt and output have fixed lengths, nothing stops early. Throughput is equation 3: tokens
generated, divided by the seconds of all GPUs together.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch

from lab_utils import machine
from lab_utils.analysis.variants import VARIANTS
from lab_utils.formats import is_variant
from lab_utils.llm.checks import SHORT, check_count
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.generate import Decoder
from lab_utils.llm.measuring.clocks import seconds_of
from lab_utils.llm.measuring.device_memory import out_of_memory_named, peak_bytes, reset_peak
from lab_utils.llm.measuring.energy import Energy, Hear
from lab_utils.llm.measuring.parts import NO_PARTS, parts
from lab_utils.llm.measuring.products import check_products
from lab_utils.llm.model import MATRICES, OPT
from lab_utils.llm.prompts import Prompts
from lab_utils.nn import SparseLinear
from lab_utils.results import rounded


def measure(
    model: OPT,
    batch: int,
    prompt: int = 64,
    output: int = 512,
    *,
    repeats: int = 1,
    breakdown: bool = True,
    energy: Hear | None = None,
    tell: Callable[[str], object] = str,
) -> dict:
    """A row of `opt`: the median of `repeats` generations, whose graphs are captured before.

    Before that, every sparse product is held against a dense one. The prompts are random tokens,
    the same in each run. On several ranks each calls this and gets the same row. `breakdown` fills
    the last four columns, for a little more time. `energy` hears a row of `opt_energy`: what one
    generation costs, by the GPUs' meters. `tell` hears what begins.
    Raises ValueError for lengths that the model has no positions for, and for `energy` of a CPU;
    RuntimeError where a product is wrong, where the memory is not enough after all, and where a GPU
    has no meters for `energy`.
    """
    check_count("batch", batch, 1)
    check_count("repeats", repeats, 1)
    tokens = random_tokens(model.config, batch, prompt)
    prompts = Prompts.of(tokens, model.config, output, model.device)
    case = {"batch": batch, "prompt": prompt, "output": output}
    meters = Energy(model.device, energy, model.ranks)
    with out_of_memory_named(model.config.name, case):
        tell(f"batch {batch}: holding sparse products against dense ones")
        check_products(model, batch)
        reset_peak(model.device)
        decoder = Decoder(model, batch, prompt + output)
        tell(f"batch {batch}: compiling and capturing")
        torch.compiler.reset()  # or else a second batch had kernels for any number of sequences
        decoder.rehearse(prompts, output)
        tell(f"batch {batch}: timed generations{', and their parts' * breakdown}")
        run = partial(decoder.run, prompts, output)
        with meters.watched:
            seconds = seconds_of(run, model.device, repeats, model.ranks)
        peaks = model.ranks.all_of(peak_bytes(model.device), model.device)
        shares = rounded(parts(decoder, prompt, output, seconds)) if breakdown else NO_PARTS
    own = {"format": format_of(model), "sparsity": sparsity_of(model),
           "weights": model.weights_origin, "dtype": SHORT[model.dtype]}  # fmt: skip
    found = row(model.config, model.device, case, seconds, peaks) | own | shares
    meters.told(found, tell)
    return found


def row(
    config: OPTConfig,
    device: torch.device,
    case: dict[str, int],
    seconds: float,
    peaks: list[float],
) -> dict:
    """The columns that every system has; `peaks` are bytes of each GPU, NaN of CPUs."""
    tokens = case["batch"] * case["output"]
    numbers = {"seconds": seconds, "tokens_per_gpu_second": tokens / (len(peaks) * seconds)}
    return {
        **machine.stamp(device.type),
        "model": config.name,
        "gpus": len(peaks),
        **case,
        **rounded(numbers),
        "peak_gb": None if math.isnan(peaks[0]) else round(max(peaks) / 1e9, 3),
    }


def opt_line(row: Mapping) -> str:
    """One row of `opt` for a terminal.

    Zeros are those of encoded matrices: dense ones may have some, too, which no row counts.
    """
    zeros = f" {row['sparsity']:.0%} zeros" if row["sparsity"] else ""
    peak = "" if row["peak_gb"] is None else f", {row['peak_gb']:.1f} GB at most"
    return (
        f"{row['model']}, {row['format']}{zeros}, {row['dtype']}, {row['gpus']} x "
        f"{row['device']}, batch {row['batch']}: {row['seconds']:.4g} s, "
        f"{row['tokens_per_gpu_second']:.4g} tokens per GPU-second{peak}"
    )


def random_tokens(config: OPTConfig, batch: int, prompt: int) -> torch.Tensor:
    """Token ids [batch, prompt], the same on every rank and in every run."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(config.vocab, (batch, prompt), generator=generator)


def format_of(model: OPT) -> str:
    """The format of the sparse matrices; "dense" where there are none.

    That of a variant where all of a format's are encoded so: for matrices of some shapes it may be
    what the format chooses by itself.
    """
    weights = [matrix.weight for matrix in _sparse(model)]
    names = {A.variant for A in weights}
    for name in names & VARIANTS.keys():
        format = VARIANTS[name].format
        if all(is_variant(A, name) for A in weights if A.name == format):
            names.discard(format)
    return "+".join(sorted(names)) or "dense"


def sparsity_of(model: OPT) -> float:
    """Zeros of the encoded matrices, as a fraction of all weights of the four matrices."""
    every = [layer.get_submodule(name) for layer in model.layers for name in MATRICES]
    weights = sum(matrix.in_features * matrix.out_features for matrix in every)
    zeros = sum(one.in_features * one.out_features - one.weight.nnz for one in _sparse(model))
    return round(zeros / weights, 3)


def _sparse(model: OPT) -> list[SparseLinear]:
    return [module for module in model.layers.modules() if isinstance(module, SparseLinear)]
