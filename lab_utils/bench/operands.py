"""The operands of cases, copies of them that are handed out in turn, and their judges."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol, Self

import torch
from torch import Tensor

from lab_utils import accuracy, machine
from lab_utils.bench.cases import DTYPES, Case
from lab_utils.patterns import random_sparse

PIECE_BYTES = {"cpu": 1 << 26, "cuda": 1 << 30}  # what one read of the bandwidth takes of memory
PIECES = 2  # at least
JUDGED_BYTES = 2 + 8 + 8  # of an operand's element where products are judged: in fp64, its size
RESULT_BYTES = 8 + 8 + 8  # of a result's: the product, its magnitude, what it may be off by


class Operand(Protocol):
    """What weights become for a contender: a tensor, an encoding, what a library wants."""

    nbytes: int

    def clone(self) -> Self: ...


class Turns:
    """Copies of an operand, handed out in turn for ever."""

    def __init__(self, copies: Sequence):
        self.count = len(copies)
        self._endless = itertools.cycle(copies)

    def next(self) -> object:
        return next(self._endless)


class Weights:
    """A random A [M, K] and activations B [K, N] on a device; what contenders make of A.

    Cases with the same A and no more columns can share it: they take the first columns of B.
    """

    def __init__(self, case: Case, seed: int = 0, device: torch.device | str = "cpu"):
        self.key, self.N = case.weights, case.N
        self.dense = random_sparse(case.M, case.K, case.sparsity, pattern=case.pattern, mean=0.25,
                                   dtype=DTYPES[case.dtype], seed=seed, device=device)  # fmt: skip
        self.device = self.dense.device
        generator = torch.Generator(device).manual_seed(int(seed) + 1)
        x = torch.randn(case.N, case.K, generator=generator, device=device)
        self._activations = x.add_(0.5).to(self.dense.dtype)  # [N, K]
        self._copies: dict[str, list] = {}
        self._judges: dict[int, tuple[Tensor, accuracy.Judge]] = {}

    def check(self, case: Case, device: torch.device) -> None:
        """Raise ValueError unless these are operands of the case, on that device."""
        if self.key != case.weights or self.N < case.N or self.device.type != device.type:
            mine = (*self.key, f"N <= {self.N}", str(self.device))
            wanted = (*case.weights, f"N = {case.N}", str(device))
            raise ValueError(f"weights are {mine}; this case needs {wanted}")

    def columns(self, N: int) -> Tensor:
        """The first N columns of B, each contiguous: activations [N, K], transposed."""
        return self._activations[:N].T

    def copies(self, name: str, make: Callable[[Tensor], Operand], launches: int) -> list:
        """At least `launches` copies of make(A), or enough to fill the caches."""
        copies = self._copies.setdefault(name, [])
        if not copies:
            copies.append(make(self.dense))
        wanted = min(launches, -(-cold_bytes(self.device) // copies[0].nbytes))
        copies += [copies[0].clone() for _ in range(wanted - len(copies))]
        return copies

    def judge(self, N: int, represented: Tensor | None = None) -> accuracy.Judge:
        """The judge of A times the first N columns; of `represented` [M, K] instead of A if given.

        The product in fp64 is computed once for all N.
        """
        A = self.dense if represented is None else represented
        if id(A) not in self._judges:
            self._judges[id(A)] = (A, accuracy.Judge(A, self._activations.T))
        return self._judges[id(A)][1].columns(N)


@functools.cache
def cold_bytes(device: torch.device) -> int:
    """After reading that much, nothing older is left in the caches of the device."""
    if device.type == "cuda":
        return 4 * torch.cuda.get_device_properties(device).L2_cache_size
    return max(1 << 28, machine.cache_bytes() * 5 // 4)


@functools.cache
def cold_buffer(device: torch.device) -> Tensor:
    """uint8 [pieces, bytes of a piece]: reading it drives everything else out of the caches."""
    piece = PIECE_BYTES[device.type]
    pieces = max(PIECES, -(-cold_bytes(device) // piece))
    return torch.ones(pieces, piece, dtype=torch.uint8, device=device)


def weights_of(
    case: Case, seed: int, device: torch.device, given: Weights | None = None
) -> Weights:
    """The given weights, once they are known to fit the case, or new ones.

    Raises ValueError where they do not fit, RuntimeError where there is no memory for new ones.
    """
    weights = given or _made(case, seed, device)
    weights.check(case, device)
    return weights


def require_memory(case: Case, device: torch.device) -> None:
    """Raise RuntimeError where a case is too large for the host, which would end the process.

    A GPU says itself that it lacks memory.
    """
    M, K, N = case.M, case.K, case.N
    needed, there = JUDGED_BYTES * K * (M + N) + RESULT_BYTES * M * N, machine.memory_bytes()
    if device.type == "cpu" and needed > there:
        raise RuntimeError(
            f"shape={M}x{K}, N={N}: to make and judge it takes at least {needed / 1e9:.1f} GB; "
            f"allowed: what fits the {there / 1e9:.1f} GB of this machine's memory"
        )


def _made(case: Case, seed: int, device: torch.device) -> Weights:
    require_memory(case, device)
    if device.type == "cuda" and torch.cuda.memory_reserved(device) > _memory_bytes(device) / 2:
        torch.cuda.empty_cache()  # what torch keeps of earlier weights, libraries cannot have
    try:
        return Weights(case, seed, device)
    except torch.OutOfMemoryError as error:
        raise RuntimeError(f"{case}: the GPU has no memory for its operands: {error}") from error


def _memory_bytes(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory
