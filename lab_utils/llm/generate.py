"""Generation: the prompts at once, then token by token; on a GPU, each step is one CUDA graph.

A step has only tensors that stay where they are: the token of each sequence, the slot of the cache
where it goes, and who has finished. It waits for nothing on the host. How much of the cache it
reads is fixed when it is captured, so there is one graph for each BUCKET slots: a cache that has
room for 2048 tokens is read only as far as it is full, up to the next multiple of BUCKET.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab_utils.llm.cache import KVCache, PromptAttention, StepAttention, prompt_mask, step_mask
from lab_utils.llm.checks import check_count
from lab_utils.llm.model import OPT, check_model
from lab_utils.llm.one_kernel import as_one
from lab_utils.llm.prompts import Prompts
from lab_utils.llm.sampling import Sampling
from lab_utils.patterns import check_seed

BUCKET = 32  # slots: the cache is read for 16 tokens too many in the mean
STOP_EVERY = 16  # steps between two looks, for which the host waits, at who has finished
NO_STOP = -1


def generate(
    model: OPT,
    tokens: Tensor | Sequence[Sequence[int]],
    max_new: int,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: int | None = None,
) -> Tensor:
    """New tokens [batch, at most max_new], int64, that follow the prompts, on the model's device.

    `tokens`: [batch, prompt], or lists of token ids, which may differ in length. Temperature 0 is
    greedy; `Sampling` says what the other numbers mean, and the same `seed` gives the same tokens
    on the same machine. After the token `stop` a sequence is filled up with it, and generation
    ends early once all have met it. With several ranks, each gives the same prompts, and all
    return the tokens of rank 0.
    Raises ValueError for another model, and for prompts and numbers out of range or of another
    kind (see `Prompts`, `Sampling`).
    """
    check_model(model)
    sampling = Sampling(temperature, top_k, top_p)
    prompts = Prompts.of(tokens, model.config, max_new, model.device)
    batch, longest = prompts.tokens.shape
    decoder = Decoder(model, batch, longest + max_new, sampling)
    new = decoder.run(prompts, max_new, seed=seed, stop=stop)
    return new.clone()  # what inference mode has made cannot be written to outside of it


class Decoder:
    """A model with a cache for `batch` sequences of `slots` tokens, prompt and new ones together.

    It can be used again: memory is allocated and graphs are captured once. `graphs` says whether
    steps are captured; None: on a GPU. Raises ValueError unless there is room for something.
    """

    @torch.inference_mode()
    def __init__(
        self,
        model: OPT,
        batch: int,
        slots: int,
        sampling: Sampling | None = None,
        *,
        graphs: bool | None = None,
    ):
        check_count("batch", batch, 1)
        check_count("slots", slots, 1)
        self.model, self.sampling = model, sampling or Sampling()
        place = {"device": model.device}
        self.cache = KVCache(model.config, batch, slots, model.ranks, **place, dtype=model.dtype)
        self.token = torch.zeros(batch, 1, dtype=torch.int64, **place)
        self.starts = torch.zeros(batch, dtype=torch.int64, **place)
        self.slot = torch.zeros(1, dtype=torch.int64, **place)
        self.stop = torch.full((1,), NO_STOP, **place)
        self.finished = torch.zeros(batch, dtype=torch.bool, **place)
        self.noise = None
        if not self.sampling.greedy:
            self.noise = torch.ones(batch, model.config.vocab, **place)
        self.filled = 0  # slots: what `slot` is on the device
        self._generator = torch.Generator(model.device)
        self._graphs = _Graphs() if _wanted(graphs, model.device) else None

    @torch.inference_mode()
    def run(
        self, prompts: Prompts, max_new: int, *, seed: int | None = None, stop: int | None = None
    ) -> Tensor:
        """New tokens [batch, at most max_new]; see `generate`. ValueError where they do not fit."""
        self._check(prompts, max_new, stop)
        if seed is not None:
            check_seed(seed)
        self._generator.seed() if seed is None else self._generator.manual_seed(seed)
        self.stop.fill_(NO_STOP if stop is None else stop)
        new = prompts.tokens.new_empty(len(prompts.tokens), max_new)
        self.prompt(prompts)
        new[:, :1] = self.token
        for step in range(1, max_new):
            if stop is not None and step % STOP_EVERY == 0 and bool(self.finished.all()):
                return _trimmed(new[:, :step], stop)
            self.step()
            new[:, step : step + 1] = self.token
        return new if stop is None else _trimmed(new, stop)

    @torch.inference_mode()
    def rehearse(self, prompts: Prompts, max_new: int) -> None:
        """Run once whatever `run` would: kernels are compiled and loaded, and steps captured."""
        self._check(prompts, max_new, None)
        self.prompt(prompts)
        steps = range(self.filled, self.filled + max_new - 1)
        a_step_of_each = {slots_read(filled + 1, self.cache.slots): filled for filled in steps}
        for filled in a_step_of_each.values():
            self.filled = filled
            self.slot.fill_(filled)
            self.step()

    @torch.inference_mode()
    def prompt(self, prompts: Prompts) -> None:
        """Fill the cache with the prompts, and choose the first new tokens."""
        tokens = prompts.tokens
        self.starts.copy_(prompts.starts)
        self.finished.zero_()
        longest = self.filled = tokens.shape[1]
        self.slot.fill_(longest)
        mask = prompt_mask(self.starts, longest, self.model.dtype) if prompts.ragged else None
        places = torch.arange(longest, device=tokens.device) - self.starts[:, None]
        hidden = self.model.hidden(tokens, places.clamp_(min=0), PromptAttention(self.cache, mask))
        self._draw()
        self._choose(self.model.logits(hidden[:, -1]))

    @torch.inference_mode()
    def step(self) -> None:
        """Put `token` into the cache and choose the next ones, without waiting for the device."""
        self.model.ranks.passes()
        self._draw()
        self.filled += 1
        slots = slots_read(self.filled, self.cache.slots)
        if self._graphs is None:
            self._step(slots)
        else:
            self._graphs.run(slots, partial(self._step, slots))

    def _step(self, slots: int) -> None:
        """One step that reads the first `slots` of the cache: all that a graph holds."""
        places = (self.slot - self.starts)[:, None]  # begins late, after the slot was written
        seen = (self.starts, self.slot, slots, self.model.dtype)
        mask = as_one(step_mask, self.model.device)(*seen)
        attend = StepAttention(self.cache, self.slot, mask)
        hidden = self.model.hidden(self.token, places, attend)
        self._choose(self.model.logits(hidden[:, -1]))
        self.slot += 1

    def _choose(self, logits: Tensor) -> None:
        """The next `token`, equal on all ranks, from logits [batch, vocab]."""
        chosen = self.model.ranks.first(self.sampling.choose(logits, self.noise))
        as_one(_settle, chosen.device)(chosen, self.token, self.finished, self.stop)

    def _draw(self) -> None:
        if self.noise is not None:
            self.noise.exponential_(generator=self._generator)
            self.noise.clamp_(min=torch.finfo(self.noise.dtype).tiny)  # since 0 / 0 is no chance

    def _check(self, prompts: Prompts, max_new: int, stop: int | None) -> None:
        check_count("max_new", max_new, 1)
        if stop is not None:
            check_count("stop", stop, 0, self.model.config.vocab - 1, ", or None")
        batch, longest = prompts.tokens.shape
        if batch != len(self.token) or longest + max_new > self.cache.slots:
            raise ValueError(
                f"{batch} prompts of {longest} tokens, max_new={max_new}; this decoder was made "
                f"for batch {len(self.token)} and {self.cache.slots} slots"
            )


def _settle(chosen: Tensor, token: Tensor, finished: Tensor, stop: Tensor) -> None:
    """The next `token` [batch, 1]: what was chosen, or `stop` [1] for those that had it before."""
    chosen = torch.where(finished, stop, chosen)
    finished |= chosen == stop
    token.copy_(chosen[:, None])


class _Graphs:
    """CUDA graphs by a key, which share memory.

    They know of no function between two runs. One of their owner's would be a cycle of references,
    and keep the owner's memory until Python looks for cycles, which is seldom.
    """

    def __init__(self) -> None:
        self.by_key: dict[int, torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def run(self, key: int, function: Callable[[], None]) -> None:
        """Replay the graph of `key`; at first run `function`, which loads kernels, and capture it.

        The same key always comes with the same function.
        """
        if key in self.by_key:
            return self.by_key[key].replay()
        function()
        self.by_key[key] = captured(function, self.pool)


def captured(run: Callable[[], object], pool: Any = None) -> torch.cuda.CUDAGraph:
    """`run`, which has run before, as a CUDA graph; with `pool`, in memory that graphs share."""
    graph = torch.cuda.CUDAGraph()
    # thread_local: the thread that watches over NCCL may ask for its events meanwhile.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        run()
    return graph


def slots_read(filled: int, slots: int) -> int:
    """How many of a cache's `slots` a step reads that has so many filled: whole BUCKETs."""
    return min(-(-filled // BUCKET) * BUCKET, slots)


def _wanted(graphs: bool | None, device: torch.device) -> bool:
    if graphs and device.type != "cuda":
        raise ValueError(f"graphs={graphs} on {device}; allowed: a CUDA device, or None")
    return device.type == "cuda" if graphs is None else graphs


def _trimmed(new: Tensor, stop: int) -> Tensor:
    """The columns up to that in which the last sequence met `stop`."""
    running = ((new == stop).cumsum(1) == 0).any(0)  # [new]
    return new[:, : int(running.sum()) + 1]
