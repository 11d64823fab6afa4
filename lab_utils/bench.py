"""Measuring products, side by side with dense ones, and the rows that a measurement becomes.

In one run of a case every contender is first checked against fp64, then all are timed in turns,
so that whatever else happens on the machine happens to all of them. Operands rotate through copies
that together are larger than the caches.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lab_utils import accuracy, machine, ops
from lab_utils.backends import cpu
from lab_utils.formats import SparseMatrix, encode
from lab_utils.patterns import random_sparse

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
ROTATE_BYTES = 1 << 28  # copies of a contender's weights together read at least this much


@dataclass(frozen=True)
class Case:
    """One product to measure: A [M, K] with that sparsity and pattern, B [K, N]."""

    M: int
    K: int
    N: int
    sparsity: float
    dtype: str = "bf16"
    pattern: str = "random"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r}: unknown; allowed: {', '.join(DTYPES)}")


@dataclass
class Contender:
    """A way to compute the product: `run(weights)` for any of its rotating `copies` of A."""

    kernel: str
    backend: str
    copies: list
    encoded_bytes: int
    run: Callable[[object], Tensor]
    dense: bool = False
    relative_error: float = 0.0
    times_us: list[float] = field(default_factory=list)


def measure(
    case: Case, formats: Sequence[str], *, isas: Sequence[str] = (), repeats: int = 15, seed: int = 0
) -> list[dict]:
    """Rows of one case on the CPU: torch's dense products, ours, and each of `formats`.

    `isas` adds the named instruction sets to the one that is chosen anyway. Raises AssertionError
    where a contender is wrong in any element, and ValueError for a format that A does not fit.
    """
    W = random_sparse(case.M, case.K, case.sparsity, pattern=case.pattern,
                      dtype=DTYPES[case.dtype], seed=seed, mean=0.25)  # fmt: skip
    generator = torch.Generator().manual_seed(seed + 1)
    B = torch.randn(case.K, case.N, generator=generator).add_(0.5).to(W.dtype)
    contenders = [*_torch_dense(W, B), *_ours(W, B, ["dense", *formats], isas)]
    for contender in contenders:
        contender.relative_error = accuracy.check(contender.run(contender.copies[0]), W, B)
    ceiling = _Ceiling()
    _time_in_turns([*contenders, ceiling], repeats)
    best_dense = min(np.median(c.times_us) for c in contenders if c.dense)
    stamp = _stamp(case)
    return [stamp | _row(case, c, ceiling.gb_per_s, best_dense) for c in contenders]


def sweep(
    cases: Iterable[Case],
    formats: Sequence[str],
    *,
    progress: Callable[[Iterable], Iterable] = iter,
    **options,
) -> pd.DataFrame:
    """`measure` for every case; one DataFrame with the columns of `results.COLUMNS["spmm"]`."""
    rows = itertools.chain.from_iterable(
        measure(case, formats, **options) for case in progress(list(cases))
    )
    return pd.DataFrame(rows)


def grid(
    shapes: Iterable[tuple[int, int]], Ns: Sequence[int], sparsities: Sequence[float], **fixed
) -> Iterator[Case]:
    """Every combination of shape, sparsity and N, as cases."""
    for (M, K), sparsity, N in itertools.product(shapes, sparsities, Ns):
        yield Case(M, K, N, sparsity, **fixed)


def _torch_dense(W: Tensor, B: Tensor) -> list[Contender]:
    """Torch's two ways to the dense product; which is faster depends on N, dtype and CPU."""
    copies, x = _copies(W, W.nbytes), B.T.contiguous()
    linear = torch.nn.functional.linear
    return [
        Contender("torch_mm", "torch", copies, W.nbytes, lambda w: w @ B, dense=True),
        Contender("torch_linear", "torch", copies, W.nbytes, lambda w: linear(x, w).T, dense=True),
    ]


def _ours(W: Tensor, B: Tensor, formats: Sequence[str], isas: Sequence[str]) -> Iterator[Contender]:
    """Each format with each instruction set of this CPU that was asked for."""
    chosen = dict.fromkeys([cpu.choose_isa(W.dtype)[0], *isas])
    for format in formats:
        A = encode(W, format)
        copies = _copies(A, A.nbytes)
        for isa in chosen:
            with cpu.forced(isa):
                kernel = ops.explain(A, B, backend="cpu").kernel
            yield Contender(kernel, "cpu", copies, A.nbytes, _forced(isa, B), format == "dense")


def _forced(isa: str, B: Tensor) -> Callable[[SparseMatrix], Tensor]:
    def run(A: SparseMatrix) -> Tensor:
        with cpu.forced(isa):
            return ops.spmm(A, B, backend="cpu")

    return run


def _copies(weights, nbytes: int) -> list:
    """`weights` and copies of it that together exceed ROTATE_BYTES."""
    count = -(-ROTATE_BYTES // nbytes)
    return [weights, *(weights.clone() for _ in range(count - 1))]


class _Ceiling:
    """Reads memory in the same turns: the byte limit of this very run."""

    def __init__(self) -> None:
        self.copies = [torch.ones(ROTATE_BYTES, dtype=torch.uint8)]
        self.run = cpu.read_all
        self.times_us: list[float] = []

    @property
    def gb_per_s(self) -> float:
        return ROTATE_BYTES / float(np.median(self.times_us)) / 1e3


def _time_in_turns(contenders: Sequence, repeats: int) -> None:
    for contender in contenders:
        contender.run(contender.copies[0])
    for turn in range(repeats):
        for contender in contenders:
            weights = contender.copies[turn % len(contender.copies)]
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


def _row(case: Case, contender: Contender, ceiling_gb_per_s: float, best_dense_us: float) -> dict:
    p10, median, p90 = np.percentile(contender.times_us, [10, 50, 90])
    gb_per_s = contender.encoded_bytes / median / 1e3
    return {
        "kernel": contender.kernel,
        "backend": contender.backend,
        "time_us": round(median, 2),
        "p10_us": round(p10, 2),
        "p90_us": round(p90, 2),
        "encoded_bytes": contender.encoded_bytes,
        "gb_per_s": round(gb_per_s, 2),
        "tflops": round(2 * case.M * case.K * case.N / median / 1e6, 4),
        "byte_limit_fraction": round(gb_per_s / ceiling_gb_per_s, 4),
        "relative_error": float(f"{contender.relative_error:.3g}"),
        "dense_us": round(best_dense_us, 2),
        "speedup": round(best_dense_us / median, 4),
    }


