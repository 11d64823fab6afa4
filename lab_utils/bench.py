"""Measuring products, side by side with dense ones, and the rows that a measurement becomes.

In one run of a case every contender is first checked against fp64, then all are timed in turns,
so that whatever else happens on the machine happens to all of them. No launch finds its weights
in a cache: each takes the next copy of them, and one turn of all ends with a read of memory.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from numbers import Integral

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lab_utils import accuracy, catalog, machine, ops
from lab_utils.backends import cpu
from lab_utils.formats import FORMATS, SparseMatrix, encode
from lab_utils.patterns import check_places, random_sparse

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
PADDED_N = 8  # columns that torch's dense product is padded to
PIECE_BYTES = 1 << 26  # what one turn reads of memory, to know the bandwidth of that moment


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
        if not isinstance(self.N, Integral) or self.N < 1:
            raise ValueError(f"N={self.N!r} must be a whole number of at least 1")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r}: unknown; allowed: {', '.join(DTYPES)}")

    @property
    def weights(self) -> tuple:
        """What decides A: cases that agree in it can share encodings."""
        return self.M, self.K, self.sparsity, self.dtype, self.pattern


class Turns:
    """Copies of an operand, handed out in turn for ever."""

    def __init__(self, copies: Sequence):
        self.count = len(copies)
        self._endless = itertools.cycle(copies)

    def next(self) -> object:
        return next(self._endless)


@dataclass
class Contender:
    """A way to compute the product: `run(weights)` for any of its rotating `copies` of A."""

    kernel: str
    backend: str
    copies: Turns
    encoded_bytes: int
    run: Callable[[object], Tensor]
    dense: bool = False
    relative_error: float = 0.0
    times_us: list[float] = field(default_factory=list)


class Weights:
    """A random A [M, K], its encodings, and copies of both that are handed out in turn."""

    def __init__(self, case: Case, seed: int = 0):
        self.key = case.weights
        self.dense = random_sparse(case.M, case.K, case.sparsity, pattern=case.pattern,
                                   dtype=DTYPES[case.dtype], seed=seed, mean=0.25)  # fmt: skip
        self._copies: dict[str, list] = {}

    def copies(self, format: str | None, launches: int) -> list:
        """At least `launches` copies in a format (None: a tensor), or enough to fill the caches."""
        copies = self._copies.setdefault(format, [])
        if not copies:
            copies.append(self.dense if format is None else encode(self.dense, format))
        wanted = min(launches, -(-_cold_bytes() // copies[0].nbytes))
        copies += [copies[0].clone() for _ in range(wanted - len(copies))]
        return copies


def measure(
    case: Case,
    formats: Sequence[str],
    *,
    isas: Sequence[str] = (),
    repeats: int = 15,
    seed: int = 0,
    weights: Weights | None = None,
) -> list[dict]:
    """Rows of one case on the CPU: torch's dense products, ours, and each of `formats`.

    `isas` adds the named instruction sets to the one that is chosen anyway. `weights` are made
    from `seed` unless given. Raises AssertionError where a contender is wrong in any element, and
    ValueError for a format that A does not fit.
    """
    _check(formats, repeats)
    weights = weights or Weights(case, seed)
    if weights.key != case.weights:
        raise ValueError(f"weights are {weights.key}; this case needs {case.weights}")
    generator = torch.Generator().manual_seed(seed + 1)
    B = torch.randn(case.K, case.N, generator=generator).add_(0.5).to(weights.dense.dtype)
    contenders = list(_contenders(weights, B, formats, isas, repeats))
    judge = accuracy.Judge(weights.dense, B)
    for contender in contenders:
        contender.relative_error = _relative_error(contender, judge)
    memory = _Memory()
    _time_in_turns([*contenders, memory], repeats)
    best_dense = min(np.median(c.times_us) for c in contenders if c.dense)
    stamp = _stamp(case)
    return [stamp | _row(case, c, memory.gb_per_s, best_dense) for c in contenders]


def sweep(
    cases: Iterable[Case],
    formats: Sequence[str],
    *,
    progress: Callable[[list[Case]], Iterable[Case]] = iter,
    keep: Callable[[list[dict]], object] = lambda rows: None,
    seed: int = 0,
    **options,
) -> pd.DataFrame:
    """`measure` for every case; one DataFrame with the columns of `results.COLUMNS["spmm"]`.

    `keep` takes the rows of each case as soon as they are measured, so that an interrupted sweep
    loses one case. Cases that follow each other and differ in N alone share their weights.
    """
    rows: list[dict] = []
    for _, group in itertools.groupby(progress(list(cases)), lambda case: case.weights):
        weights = None
        for case in group:
            weights = weights or Weights(case, seed)
            measured = measure(case, formats, weights=weights, seed=seed, **options)
            keep(measured)
            rows += measured
    return pd.DataFrame(rows)


def grid(
    shapes: Iterable[tuple[int, int]], Ns: Sequence[int], sparsities: Sequence[float], **fixed
) -> Iterator[Case]:
    """Every combination of shape, sparsity and N, as cases; N changes fastest."""
    for (M, K), sparsity, N in itertools.product(shapes, sparsities, Ns):
        yield Case(M, K, N, sparsity, **fixed)


def shapes(texts: Iterable[str] = (), models: Iterable[str] = ()) -> list[tuple[int, int]]:
    """(M, K) of texts like 4096x1024 and of all layers of models like OPT-30B, each once.

    Raises ValueError for a text that is no shape and for a model not in data/models.yaml.
    """
    names = {name.lower(): name for name in catalog.models()}
    layers = (catalog.layer_shapes(names.get(name.lower(), name)).values() for name in models)
    return list(dict.fromkeys([*map(_shape, texts), *itertools.chain.from_iterable(layers)]))


def _shape(text: str) -> tuple[int, int]:
    M, x, K = text.lower().partition("x")
    if not (x and M.isdecimal() and K.isdecimal() and int(M) and int(K)):
        raise ValueError(f"shape={text!r}; allowed: MxK, for example 4096x1024")
    return int(M), int(K)


def _check(formats: Sequence[str], repeats: int) -> None:
    if unknown := [format for format in formats if format not in FORMATS]:
        raise ValueError(f"format={unknown[0]!r}: unknown; allowed: {', '.join(FORMATS)}")
    if repeats < 1:
        raise ValueError(f"repeats={repeats!r} must be at least 1")


def _contenders(
    weights: Weights, B: Tensor, formats: Sequence[str], isas: Sequence[str], repeats: int
) -> Iterator[Contender]:
    """Torch's ways to the dense product (which is fastest depends), then ours."""
    ways = _torch_products(B)
    turns = Turns(weights.copies(None, len(ways) * repeats))
    for kernel, product in ways.items():
        yield Contender(kernel, "torch", turns, weights.dense.nbytes, product, dense=True)
    chosen = dict.fromkeys([cpu.choose_isa(B.dtype)[0], *isas])
    for format in dict.fromkeys(["dense", *formats]):
        copies = weights.copies(format, len(chosen) * repeats)
        turns = Turns(copies)
        for isa in chosen:
            with cpu.forced(isa):
                kernel = ops.explain(copies[0], B, backend="cpu").kernel
            is_dense, nbytes = format == "dense", copies[0].nbytes
            yield Contender(kernel, "cpu", turns, nbytes, _forced(isa, B), is_dense)


def _torch_products(B: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """Dense products W · B; torch's with a single vector can be slower than that with eight."""
    linear, x, N = torch.nn.functional.linear, B.T.contiguous(), B.shape[1]
    ways = {"torch_mm": lambda w: w @ B, "torch_linear": lambda w: linear(x, w).T}
    if N < PADDED_N:
        padded = torch.nn.functional.pad(B, (0, PADDED_N - N))
        ways["torch_mm_padded"] = lambda w: (w @ padded)[:, :N]
    return ways


def _relative_error(contender: Contender, judge: accuracy.Judge) -> float:
    try:
        return judge.check(contender.run(contender.copies.next()))
    except AssertionError as error:
        raise AssertionError(f"kernel {contender.kernel} is wrong: {error}") from error


def _forced(isa: str, B: Tensor) -> Callable[[SparseMatrix], Tensor]:
    def run(A: SparseMatrix) -> Tensor:
        with cpu.forced(isa):
            return ops.spmm(A, B, backend="cpu")

    return run


@functools.cache
def _cold_bytes() -> int:
    """After reading that much, nothing older is left in the caches."""
    return max(1 << 28, machine.cache_bytes() * 5 // 4)


@functools.cache
def _cold_buffer() -> Tensor:
    """uint8 [pieces, PIECE_BYTES]: reading it drives everything else out of the caches."""
    return torch.ones(-(-_cold_bytes() // PIECE_BYTES), PIECE_BYTES, dtype=torch.uint8)


class _Memory:
    """Reads memory in the same turns, a piece each: the byte limit of this very run."""

    def __init__(self) -> None:
        self.copies = Turns(_cold_buffer())
        self.run = cpu.read_all
        self.times_us: list[float] = []

    @property
    def gb_per_s(self) -> float:
        return PIECE_BYTES / float(np.median(self.times_us)) / 1e3


def _time_in_turns(contenders: Sequence, repeats: int) -> None:
    for contender in contenders:  # the first reading of freshly written memory is slower
        for _ in range(contender.copies.count):
            contender.run(contender.copies.next())
    for _ in range(repeats):
        for contender in contenders:
            weights = contender.copies.next()
            start = time.perf_counter()
            contender.run(weights)
            contender.times_us.append(1e6 * (time.perf_counter() - start))


def _stamp(case: Case) -> dict:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": machine.commit(),
        "device": machine.device_name(),
        "driver": "",
        "cuda": "",
        **vars(case),
        "split_k": 1,
    }


def _row(case: Case, contender: Contender, memory_gb_per_s: float, best_dense_us: float) -> dict:
    p10, median, p90 = np.percentile(contender.times_us, [10, 50, 90])
    gb_per_s = contender.encoded_bytes / median / 1e3
    numbers = {
        "time_us": median,
        "p10_us": p10,
        "p90_us": p90,
        "gb_per_s": gb_per_s,
        "tflops": 2 * case.M * case.K * case.N / median / 1e6,
        "byte_limit_fraction": gb_per_s / memory_gb_per_s,
        "relative_error": contender.relative_error,
        "dense_us": best_dense_us,
        "speedup": best_dense_us / median,
    }
    return {
        "kernel": contender.kernel,
        "backend": contender.backend,
        "encoded_bytes": contender.encoded_bytes,
        **{name: float(f"{number:.5g}") for name, number in numbers.items()},
    }
