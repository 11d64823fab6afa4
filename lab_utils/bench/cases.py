"""What is measured: cases, and ways to name many of them at once."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from lab_utils import catalog
from lab_utils.analysis.checked import check_any, check_list, is_integer
from lab_utils.formats.checks import INT32_MAX
from lab_utils.patterns import check_places

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Case:
    """A [M, K] with that sparsity (0 to 1) and pattern, B [K, N]; ValueError where out of range."""

    M: int
    K: int
    N: int
    sparsity: float
    dtype: str = "bf16"
    pattern: str = "random"

    def __post_init__(self) -> None:
        check_places(self.M, self.K, self.sparsity, self.pattern)
        if not is_integer(self.N) or self.N < 1:
            raise ValueError(f"N={self.N!r} must be a whole number of at least 1")
        for name in ("M", "K", "N"):
            if (size := getattr(self, name)) > INT32_MAX:  # kernels count with 32 bits
                raise ValueError(f"{name}={size} is too large; allowed: at most {INT32_MAX}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r}: unknown; allowed: {', '.join(DTYPES)}")

    @property
    def weights(self) -> tuple:
        """What decides A: cases that agree in it can share encodings."""
        return self.M, self.K, self.sparsity, self.dtype, self.pattern

    def __str__(self) -> str:
        what = f"{self.M}x{self.K}, N={self.N}, sparsity {self.sparsity:g} ({self.pattern})"
        return f"{what}, {self.dtype}"


def grid(
    shapes: Iterable[tuple[int, int]], Ns: Sequence[int], sparsities: Sequence[float], **fixed
) -> Iterator[Case]:
    """Every combination of shape, sparsity and N, as cases, each once; N changes fastest.

    Raises ValueError where one of the lists is empty.
    """
    shapes = [tuple(shape) for shape in shapes]
    check_any(shapes=shapes, Ns=Ns, sparsities=sparsities)
    for (M, K), sparsity, N in itertools.product(*map(dict.fromkeys, (shapes, sparsities, Ns))):
        yield Case(M, K, N, sparsity, **fixed)


def check_repeats(repeats: int) -> None:
    """Raise ValueError unless something would be timed."""
    if not is_integer(repeats) or repeats < 1:
        raise ValueError(f"repeats={repeats!r} must be a whole number of at least 1")


def check_formats(formats: Sequence[str], multiplied: Sequence[str], where: str) -> None:
    """Raise ValueError for a format that is not among those multiplied there, or no list of any."""
    check_list("formats", formats)
    for format in formats:
        if format not in multiplied:
            which = f"not multiplied on the {where}; allowed: {', '.join(multiplied)}"
            raise ValueError(f"format={format!r}: {which}")


def shapes(texts: Iterable[str] = (), models: Iterable[str] = ()) -> list[tuple[int, int]]:
    """(M, K) of texts like 4096x1024 and of all layers of models like OPT-30B, each once.

    Raises ValueError for a text that is no shape and for a model not in data/models.yaml.
    """
    layers = (catalog.layer_shapes(name).values() for name in models)
    return list(dict.fromkeys([*map(_shape, texts), *itertools.chain.from_iterable(layers)]))


def _shape(text: str) -> tuple[int, int]:
    M, x, K = text.lower().partition("x")
    if not (x and M.isdecimal() and K.isdecimal() and int(M) and int(K)):
        raise ValueError(f"shape={text!r}; allowed: MxK, for example 4096x1024")
    return int(M), int(K)
