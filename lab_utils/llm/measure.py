"""Whole generations, measured as in Flash-LLM's section 6.3, and the rows of `opt` they become.

Prompt and output have fixed lengths, nothing stops early. Throughput is equation 3: tokens
generated, divided by the seconds of all GPUs together.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch.nn import functional as F

from lab_utils import machine
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.generate import Decoder
from lab_utils.llm.model import MATRICES, OPT
from lab_utils.llm.parallel import Ranks
from lab_utils.llm.parts import parts
from lab_utils.llm.prompts import Prompts
from lab_utils.nn import SparseLinear
from lab_utils.results import rounded

ROUNDINGS = 4  # of 16 bits, by which a sparse and a dense product may differ
NO_PARTS = dict.fromkeys(["matmul_s", "attention_s", "communication_s", "other_s"])


def measure(
    model: OPT,
    batch: int,
    prompt: int = 64,
    output: int = 512,
    *,
    repeats: int = 1,
    breakdown: bool = True,
) -> dict:
    """A row of `opt`: the median of `repeats` generations, after one that counts for nothing.

    Before that, every sparse product is held against a dense one. The prompts are random tokens,
    the same in each run. On several ranks each calls this and gets the same row. `breakdown` fills
    the last four columns, for a little more time.
    Raises ValueError for lengths that the model has no positions for, RuntimeError where a product
    is wrong, and where the memory is not enough after all.
    """
    for name, value in (("batch", batch), ("repeats", repeats)):
        if value < 1:
            raise ValueError(f"{name}={value!r} must be at least 1")
    tokens = random_tokens(model.config, batch, prompt)
    prompts = Prompts.of(tokens, model.config, output, model.device)
    case = {"batch": batch, "prompt": prompt, "output": output}
    with out_of_memory_named(model.config.name, case):
        check_products(model, batch)
        reset_peak(model.device)
        decoder = Decoder(model, batch, prompt + output)
        decoder.run(prompts, output)  # loads what kernels need, and captures
        run = partial(decoder.run, prompts, output)
        seconds = seconds_of(run, model.device, repeats, model.ranks)
        peaks = over_ranks(peak_bytes(model.device), model.device, model.ranks)
        shares = rounded(parts(decoder, prompt, output, seconds)) if breakdown else NO_PARTS
    own = {"format": format_of(model), "sparsity": sparsity_of(model),
           "weights": model.weights_origin}  # fmt: skip
    return row(model.config, model.device, case, seconds, peaks) | own | shares


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


@contextmanager
def out_of_memory_named(name: str, case: dict[str, int]) -> Iterator[None]:
    """Turns torch's long error into one that says what was too large."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        what = ", ".join(f"{key}={value}" for key, value in case.items())
        raise RuntimeError(f"{name}, {what}: out of memory: {error}") from error


def random_tokens(config: OPTConfig, batch: int, prompt: int) -> torch.Tensor:
    """Token ids [batch, prompt], the same on every rank and in every run."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(config.vocab, (batch, prompt), generator=generator)


def seconds_of(
    run: Callable[[], object], device: torch.device, repeats: int, ranks: Ranks
) -> float:
    """Seconds of `run`, the device's work included: the mean over ranks, the median of repeats."""
    times = []
    for _ in range(repeats):
        over_ranks(0.0, device, ranks)  # all start together
        _wait(device)
        start = time.perf_counter()
        run()
        _wait(device)
        times.append(statistics.mean(over_ranks(time.perf_counter() - start, device, ranks)))
    return statistics.median(times)


def reset_peak(device: torch.device) -> None:
    """Forget what was needed before, and give back what torch keeps of it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> float:
    """The most memory taken on the GPU since `reset_peak`; NaN for the CPU.

    That of torch's allocator, with the private memory of graphs, and what is now taken outside of
    it: by the driver, by libraries and kernels, and by other programs, if there are any.
    """
    if device.type != "cuda":
        return math.nan
    free, everything = torch.cuda.mem_get_info(device)
    outside = everything - free - torch.cuda.memory_reserved(device)
    return torch.cuda.max_memory_reserved(device) + outside


def over_ranks(value: float, device: torch.device, ranks: Ranks) -> list[float]:
    """The values that all ranks have, on each of them."""
    values = torch.zeros(ranks.world, dtype=torch.float64, device=device)
    values[ranks.rank] = value
    return ranks.sum(values).tolist()


@torch.inference_mode()
def check_products(model: OPT, tokens: int) -> None:
    """Raise RuntimeError, naming the matrix, unless each sparse product is as exact as a dense one.

    Both are computed for the same `tokens` random rows, the dense one with the decoded matrix.
    """
    limit = ROUNDINGS * torch.finfo(model.dtype).eps
    for name, module in model.layers.named_modules():
        if not isinstance(module, SparseLinear):
            continue
        x = torch.randn(tokens, module.in_features, device=model.device).to(model.dtype)
        y = F.linear(x, module.weight.decode(), module.bias).float()
        error = float((module(x).float() - y).norm() / y.norm())
        if not error <= limit:  # nor NaN
            raise RuntimeError(
                f"layers.{name}: {module.weight.name} is wrong by {error:.1e} of the dense "
                f"product at {tokens} tokens; allowed: {limit:.1e}"
            )


def format_of(model: OPT) -> str:
    """The format of the sparse matrices; "dense" where there are none."""
    names = {matrix.weight.name for matrix in _sparse(model)}
    return "+".join(sorted(names)) or "dense"


def sparsity_of(model: OPT) -> float:
    """Zeros of the encoded matrices, as a fraction of all weights of the four matrices."""
    every = [layer.get_submodule(name) for layer in model.layers for name in MATRICES]
    weights = sum(matrix.in_features * matrix.out_features for matrix in every)
    zeros = sum(one.in_features * one.out_features - one.weight.nnz for one in _sparse(model))
    return round(zeros / weights, 3)


def _sparse(model: OPT) -> list[SparseLinear]:
    return [module for module in model.layers.modules() if isinstance(module, SparseLinear)]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
