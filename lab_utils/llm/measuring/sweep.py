"""One model in several formats and batches: dense beside sparse, in one run."""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from lab_utils.analysis import memory
from lab_utils.llm.checkpoint.hugging_face import HuggingFace
from lab_utils.llm.checkpoint.opening import model_of
from lab_utils.llm.checkpoint.skeleton import check_place
from lab_utils.llm.checkpoint.sources import Source
from lab_utils.llm.checkpoint.stored import Stored
from lab_utils.llm.checks import check_count
from lab_utils.llm.measuring import device_memory, fits
from lab_utils.llm.measuring.energy import Hear, check_meters
from lab_utils.llm.measuring.generations import measure, sparsity_of
from lab_utils.llm.measuring.outside import FORMAT as TRANSFORMERS
from lab_utils.llm.measuring.outside import Transformers
from lab_utils.llm.measuring.products import check_multiplied
from lab_utils.llm.model import OPT
from lab_utils.llm.optional import transformers
from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.llm.pruning.masks import Target
from lab_utils.llm.pruning.models import decoded
from lab_utils.llm.pruning.recipe import Recipe

DENSE = "dense"  # our decoder with a torch.nn.Linear for every matrix


def raise_at_once(error: RuntimeError) -> None:
    """The strict way to leave out what does not fit."""
    raise error


@dataclass(frozen=True)
class Sweep:
    """What the measured models share; `rows` measures them.

    Sparse formats are pruned to `target` by magnitude, but for matrices of which `dense` is true; a
    stored model is pruned already, and `target` None. `repeats`, `breakdown` and `energy` are those
    of `generations.measure`. On several `ranks` each does the same. `tell` hears what begins.
    """

    source: Source | Stored
    target: Target | None = None
    dense: Callable[[str], bool] = memory.no_matrix
    prompt: int = 64
    output: int = 512
    repeats: int = 1
    breakdown: bool = True
    energy: Hear | None = None
    ranks: Ranks = ALONE
    device: torch.device | str = "cpu"
    dtype: torch.dtype = torch.float16
    tell: Callable[[str], object] = str

    def __post_init__(self) -> None:
        if not hasattr(self.source, "config"):
            raise ValueError(f"source={self.source!r}; allowed: checkpoint.opened(size or folder)")
        if not isinstance(self.target, Target | None):
            raise ValueError(f"target={self.target!r}; allowed: None, or pruning.Target(sparsity)")
        if self._is_stored and self.target is not None:
            raise ValueError(f"{self.source.folder} is pruned already; allowed: no sparsity")
        check_place(self.device, self.dtype)

    def rows(
        self,
        formats: Sequence[str],
        batches: Sequence[int] = (),
        leave_out: Callable[[RuntimeError], object] = raise_at_once,
    ) -> Iterator[dict]:
        """Rows of `opt`, one for each of `formats` and `batches`, a model after the other.

        `formats`: names in `memory.KNOWN`; "dense" for our decoder with the weights as they are;
        "transformers" for that library's own. Without `batches`, 8, 16 … to the largest that fits.
        What does not fit is not loaded: `leave_out` hears of it.
        Raises ValueError for impossible arguments, RuntimeError without the meters that `energy`
        needs, before anything is loaded.
        """
        here = torch.device(self.device)
        if not formats:
            raise ValueError(f"formats={list(formats)}; allowed: one or more")
        check_count("repeats", self.repeats, 1)
        if self.energy is not None:
            check_meters(here, self.ranks)
        has = min(self.ranks.all_of(device_memory.capacity(here), here))
        fitting = partial(_fitting, wanted=batches, has=has, leave_out=leave_out)
        for format, work in [(format, self._planned(format)) for format in formats]:
            late = self._is_stored and format != DENSE  # it tells its sparsity when it is there
            sizes = [] if late else fitting(work)
            if not (sizes or late):
                continue
            self.tell(f"{self.source.config.name}, {format}: building")
            model = self._model(format)
            if late:
                sizes = fitting(replace(work, sparsity=sparsity_of(model)))
            for batch in sizes:
                yield self._row(model, batch)
            del model
            gc.collect()  # transformers' compiled models refer to themselves
            device_memory.reset_peak(here)

    @property
    def _is_stored(self) -> bool:
        return isinstance(self.source, Stored)

    def _planned(self, format: str) -> memory.Workload:
        """What the planner is asked; ValueError for what cannot be."""
        self._check(format)
        sparse = format not in (DENSE, TRANSFORMERS)
        sparsity = self.target.sparsity if sparse and self.target else 0.0
        return memory.Workload(
            fits.as_catalog_model(self.source.config), format if sparse else DENSE, sparsity,
            prompt=self.prompt, output=self.output, gpus=self.ranks.world, dense=self.dense,
        )  # fmt: skip

    def _check(self, format: str) -> None:
        if format not in (TRANSFORMERS, *memory.KNOWN):
            allowed = ", ".join([*memory.KNOWN, TRANSFORMERS])
            raise ValueError(f"format={format!r}: unknown; allowed: {allowed}")
        pruned = self.target is not None or self._is_stored
        if format not in (DENSE, TRANSFORMERS) and not pruned:
            raise ValueError(f"format={format!r} needs a sparsity; allowed: 0 to 1")
        if format not in (DENSE, TRANSFORMERS):
            check_multiplied(format, self.device)
            if not self._is_stored:
                self._recipe(format).check(self.source.config, self.dtype, None, self.ranks)
        if format == TRANSFORMERS:
            transformers()
        if format == TRANSFORMERS and self._is_stored:
            allowed = "a model by name, or a checkpoint of Hugging Face's"
            raise ValueError(f"format={format!r} of a stored sparse model; allowed: {allowed}")
        if format == TRANSFORMERS and self.ranks.world > 1:
            raise ValueError(f"format={format!r} on {self.ranks.world} ranks; allowed: one rank")

    def _model(self, format: str) -> OPT | Transformers:
        place = {"device": self.device, "dtype": self.dtype}
        if format == TRANSFORMERS:
            named = isinstance(self.source, HuggingFace)
            return Transformers(self.source.config, self.source.folder if named else None, **place)
        if format == DENSE:
            return decoded(model_of(self.source, Recipe(), ranks=self.ranks, **place))
        return model_of(self.source, self._recipe(format), ranks=self.ranks, **place)

    def _recipe(self, format: str) -> Recipe:
        return Recipe(format, self.target, dense=self.dense)

    def _row(self, model: OPT | Transformers, batch: int) -> dict:
        lengths = (batch, self.prompt, self.output)
        how = {"repeats": self.repeats, "energy": self.energy, "tell": self.tell}
        if isinstance(model, Transformers):
            return model.measure(*lengths, **how)
        return measure(model, *lengths, breakdown=self.breakdown, **how)


def _fitting(
    work: memory.Workload,
    wanted: Sequence[int],
    has: float,
    leave_out: Callable[[RuntimeError], object],
) -> list[int]:
    """Of the batches, those that fit."""
    try:
        if not wanted:
            return fits.batches(work, has)
        for batch in sorted(wanted):
            fits.check_fits(replace(work, batch=batch), has)
    except RuntimeError as error:
        leave_out(error)
    return [batch for batch in wanted if memory.total(replace(work, batch=batch)) <= has]
