"""Where the time of a generation goes: MatMul, attention, communication, and the rest.

Each part is run alone, as often as the generation runs it and on the same weights and cache, and
timed; the rest is what the whole takes longer (Flash-LLM's figures 14 and 16b, which count kernels
in a profiler instead). On a GPU the parts of a step are CUDA graphs, as the step itself is, so that
nothing waits for Python. Parts that overlap in the whole would make the rest negative.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from lab_utils.llm.cache import PromptAttention, StepAttention, step_mask
from lab_utils.llm.generate import Decoder, slots_read
from lab_utils.llm.measuring.clocks import part_seconds
from lab_utils.llm.model import MATRICES, OPT, Attend
from lab_utils.llm.parallel import BY_COLUMNS
from lab_utils.llm.residual import Product

Part = Callable[[int], Callable[[], None]]  # of that many tokens of each sequence
NO_PARTS = dict.fromkeys(["matmul_s", "attention_s", "communication_s", "other_s"])


@torch.inference_mode()
def parts(decoder: Decoder, prompt: int, output: int, seconds: float) -> dict[str, float]:
    """The columns of NO_PARTS, filled in, of a generation that took `seconds`.

    It had prompts of `prompt` tokens and `output` new ones, with the batch of `decoder`. On several
    ranks each must call this.
    """
    model, batch = decoder.model, len(decoder.token)
    matmul = _over_phases(partial(_products, model, batch), prompt, output, model.device)
    attention = _attention_seconds(decoder, prompt, output)
    communication = 0.0
    if model.ranks.world > 1:
        communication = _over_phases(partial(_sums, model, batch), prompt, output, model.device)
    rest = seconds - matmul - attention - communication
    return dict(zip(NO_PARTS, (matmul, attention, communication, rest), strict=True))


def cache_reads(prompt: int, output: int, slots: int) -> Counter[int]:
    """How many of the `output` - 1 steps read how many slots of a cache that has `slots`."""
    return Counter(slots_read(filled, slots) for filled in range(prompt + 1, prompt + output))


def _over_phases(part: Part, prompt: int, output: int, device: torch.device) -> float:
    """Seconds of a part that depends on nothing but the tokens of a phase: prompt, then steps."""
    of_prompt = part_seconds(part(prompt), device)
    return of_prompt + (output - 1) * part_seconds(part(1), device, graph=True)


def _attention_seconds(decoder: Decoder, prompt: int, output: int) -> float:
    """Seconds of attention, whose steps read more and more of the cache."""
    model, batch, cache = decoder.model, len(decoder.token), decoder.cache
    look = PromptAttention(cache)
    seconds = part_seconds(_attention(model, batch, prompt, look), model.device)
    for slots, count in cache_reads(prompt, output, cache.slots).items():
        mask = step_mask(decoder.starts, decoder.slot, slots, model.dtype)
        look = StepAttention(cache, decoder.slot, mask)
        seconds += count * part_seconds(_attention(model, batch, 1, look), model.device, graph=True)
    return seconds


def _products(model: OPT, batch: int, tokens: int) -> Callable[[], None]:
    """All products with the four matrices of all layers, and the biases that they add themselves.

    On several ranks, those of sums over the ranks are added later.
    """
    waiting = BY_COLUMNS if model.ranks.world > 1 else ()
    widths = {name: model.layers[0].get_submodule(name).in_features for name in MATRICES}
    x = {name: _random(model, batch, tokens, width) for name, width in widths.items()}

    def run() -> None:
        for layer in model.layers:
            for name in MATRICES:
                layer.multiply(layer.get_submodule(name), x[name], name in waiting)

    return run


def _attention(model: OPT, batch: int, tokens: int, attend: Attend) -> Callable[[], None]:
    """Attention of all layers, which also writes keys and values into the cache."""
    heads, _ = model.config.share(model.ranks.world)
    qkv = _random(model, batch, tokens, 3 * heads * model.config.head_dim)
    qkv = Product(qkv).of_heads(model.config.head_dim)

    def run() -> None:
        for index in range(model.config.layers):
            attend(index, qkv)

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
