"""Where the time of a generation goes: MatMul, attention, communication, and the rest.

Each part is run alone, as often as the generation runs it and on the same weights and cache, and
timed; the rest is what the whole takes longer (Flash-LLM's figures 14 and 16b, which count kernels
in a profiler instead). On a GPU the parts of a step are CUDA graphs, as the step itself is, so that
nothing waits for Python. Parts that overlap in the whole would make the rest negative.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from lab_utils.llm.cache import PromptAttention, StepAttention, step_mask
from lab_utils.llm.generate import BUCKET, Decoder
from lab_utils.llm.model import MATRICES, OPT, Attend

REPEATS = 5


@torch.inference_mode()
def parts(decoder: Decoder, prompt: int, output: int, seconds: float) -> dict[str, float]:
    """The columns matmul_s, attention_s, communication_s and other_s of a generation.

    It took `seconds`, for prompts of `prompt` tokens and `output` new ones, with the batch of
    `decoder`. On several ranks each must call this.
    """
    model, batch = decoder.model, len(decoder.token)
    steps, reads = output - 1, cache_reads(prompt, output, decoder.cache.slots)
    matmul = _time(_products(model, batch, prompt), model.device)
    matmul += steps * _time(_products(model, batch, 1), model.device, captured=True)
    look = PromptAttention(decoder.cache)
    attention = _time(_attention(model, batch, prompt, look), model.device)
    for slots, count in reads.items():
        mask = step_mask(decoder.starts, decoder.slot, slots, model.dtype)
        look = StepAttention(decoder.cache, decoder.slot, mask)
        attention += count * _time(_attention(model, batch, 1, look), model.device, captured=True)
    communication = 0.0
    if model.ranks.world > 1:
        communication = _time(_sums(model, batch, prompt), model.device)
        communication += steps * _time(_sums(model, batch, 1), model.device, captured=True)
    rest = seconds - matmul - attention - communication
    return {"matmul_s": matmul, "attention_s": attention, "communication_s": communication,
            "other_s": rest}  # fmt: skip


def cache_reads(prompt: int, output: int, slots: int) -> Counter[int]:
    """How many of the `output` - 1 steps read how many slots of a cache that has `slots`."""
    filled = range(prompt + 1, prompt + output)
    return Counter(min(-(-n // BUCKET) * BUCKET, slots) for n in filled)


def _products(model: OPT, batch: int, tokens: int) -> Callable[[], None]:
    """All products with the four matrices of all layers, biases included."""
    widths = {name: model.layers[0].get_submodule(name).in_features for name in MATRICES}
    x = {name: _random(model, batch, tokens, width) for name, width in widths.items()}

    def run() -> None:
        for layer in model.layers:
            for name in MATRICES:
                layer.multiply(layer.get_submodule(name), x[name])

    return run


def _attention(model: OPT, batch: int, tokens: int, attend: Attend) -> Callable[[], None]:
    """Attention of all layers, which also writes keys and values into the cache."""
    heads, _ = model.config.share(model.ranks.world)
    q = _random(model, batch, heads, tokens, model.config.head_dim)
    kv = _random(model, 2, batch, heads, tokens, model.config.head_dim)

    def run() -> None:
        for index in range(model.config.layers):
            attend(index, q, kv)

    return run


def _sums(model: OPT, batch: int, tokens: int) -> Callable[[], None]:
    """The two all_reduces of each layer, of zeros: sums of sums would grow without end."""
    x = torch.zeros(batch, tokens, model.config.hidden, device=model.device, dtype=model.dtype)

    def run() -> None:
        for _ in range(2 * model.config.layers):
            model.ranks.sum(x)

    return run


def _random(model: OPT, *shape: int) -> Tensor:
    return torch.randn(shape, device=model.device).to(model.dtype)


def _time(run: Callable[[], None], device: torch.device, captured: bool = False) -> float:
    """Seconds of one run: the median of REPEATS, after one that counts for nothing."""
    run()
    if device.type != "cuda":
        return statistics.median(_host_seconds(run) for _ in range(REPEATS))
    torch.cuda.synchronize(device)
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            run()
        run = graph.replay
    return statistics.median(_device_seconds(run) for _ in range(REPEATS))


def _host_seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _device_seconds(run: Callable[[], None]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3
