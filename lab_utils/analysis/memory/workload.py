"""What is decoded: a model, a format, a batch, on how many GPUs."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

from lab_utils.analysis.checked import is_integer
from lab_utils.analysis.compression import FORMULAS
from lab_utils.analysis.variants import with_variants
from lab_utils.catalog import Model, layer_shapes

KNOWN = tuple(with_variants(FORMULAS))  # formats that can be planned with
MOST = 2**31 - 1  # sequences: more than any memory holds, few enough for bytes to be floats
SLOT_ALIGN = 16  # of the cache: masks of torch's attention kernels have rows of whole 32 bytes


def no_matrix(name: str) -> bool:
    """Keeps no matrix dense."""
    return False


@dataclass(frozen=True)
class Workload:
    """What is decoded on how many tensor-parallel GPUs; the defaults are Flash-LLM's (sec. 6.3).

    `format` is one of KNOWN, `sparsity` the fraction of zeros, 0 to 1. `dense` says by its name,
    such as "layers.3.fc1", whether a matrix stays dense. `prompt` and `output` count tokens of each
    of the `batch` sequences.
    Raises ValueError where one of them is impossible, for a model that is not an OPT, and where
    the model has fewer positions than `prompt` + `output`.
    """

    model: Model
    format: str = "tiled_csl"
    sparsity: float = 0.8
    batch: int = 8
    prompt: int = 64
    output: int = 512
    gpus: int = 1
    dense: Callable[[str], bool] = no_matrix

    def __post_init__(self) -> None:
        _check(self)

    @property
    def positions(self) -> int:
        """Tokens of each sequence, at the end."""
        return self.prompt + self.output

    @property
    def slots(self) -> int:
        """Tokens that the cache has room for."""
        return whole_slots(self.positions)


def whole_slots(tokens: int) -> int:
    """Tokens that a cache for `tokens` has room for: a multiple of SLOT_ALIGN."""
    return -(-tokens // SLOT_ALIGN) * SLOT_ALIGN


class HasLayers(Protocol):
    """A model's dimensions, of whatever kind."""

    layers: int


def outer_fc1(model: HasLayers) -> Callable[[str], bool]:
    """Says which matrices Flash-LLM's pruned models keep dense (sec. 6.3.1).

    They are the feed-forward inputs, fc1, of the first and of the last quarter of the layers.
    Raises ValueError for a model so small that these are none.
    """
    if (quarter := model.layers // 4) == 0:
        raise ValueError(f"layers={model.layers}: no fc1 is outer, to be kept dense; allowed: 4 up")
    outer = {*range(quarter), *range(model.layers - quarter, model.layers)}
    names = {f"layers.{layer}.fc1" for layer in outer}
    return names.__contains__


def _check(work: Workload) -> None:
    if not isinstance(work.model, Model):
        raise ValueError(f"model={work.model!r}; allowed: catalog.model(name)")
    if work.model.family != "opt":
        raise ValueError(f"model={work.model.name!r} is a {work.model.family}; allowed: OPT models")
    if work.format not in KNOWN:
        raise ValueError(f"format={work.format!r} is unknown; allowed: {', '.join(KNOWN)}")
    if not isinstance(work.sparsity, Real) or not 0 <= work.sparsity <= 1:
        raise ValueError(f"sparsity={work.sparsity!r} must lie between 0 and 1")
    for name in ("batch", "prompt", "output", "gpus"):
        check_count(name, getattr(work, name))
    if work.batch > MOST:
        raise ValueError(f"batch={work.batch} is too large; allowed: at most {MOST}")
    if work.positions > work.model.max_positions:
        raise ValueError(
            f"prompt={work.prompt} and output={work.output} are {work.positions} positions; "
            f"{work.model.name} has {work.model.max_positions}"
        )
    layer_shapes(work.model, work.gpus)  # raises for a number of GPUs that does not divide it


def check_count(name: str, value: int) -> None:
    """Raise ValueError unless it is a whole number of at least 1."""
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
