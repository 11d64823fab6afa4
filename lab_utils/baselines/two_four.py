"""2:4 through torch's semi-structured sparsity (cuSPARSELt): W without the two smallest of four."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.sparse import SparseSemiStructuredTensorCUSPARSELT as SemiStructured

from lab_utils.baselines import native
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights
from lab_utils.baselines.fastest import fastest

GROUP, KEPT = 4, 2


class TwoFour(Baseline):
    """The two largest weights of every aligned group of four along K; `represented` says which.

    A product is W · B with N padded to whole tiles of cuSPARSELt: `Products` chooses how.
    """

    name = "two_four"

    def __init__(self) -> None:
        self._products = Products()

    def problem(self, W: Tensor, N: int) -> str | None:
        return problem(W)

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        pruned = largest_two(W)
        return Operand({"packed": torch._cslt_compress(pruned)}, pruned)

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        return self._products.bind(operand.tensors["packed"], B)


class Products:
    """Ways to one product of packed 2:4 weights, and which of them was the fastest for a problem.

    B [K, N] as it is (columns contiguous) or in rows, each with the algorithm and split of K that
    cuSPARSELt's own search finds; chosen at the first `bind`. C is in rows: results in columns,
    which torch offers too, cost 150 ms a launch with cuSPARSELt 0.8, and their search crashes.
    """

    def __init__(self) -> None:
        self._chosen: dict[tuple, tuple] = {}

    def bind(self, packed: Tensor, B: Tensor) -> Callable[[], Tensor]:
        """A function that computes C [M, N] for packed [M, K] weights; a new C at each call."""
        columns = padded_columns(B)
        orders = columns, columns.contiguous()
        key = (packed.device, packed.dtype, packed.numel(), *B.shape)
        if key not in self._chosen:
            ways = [(order, *_search(packed, dense)) for order, dense in enumerate(orders)]
            launches = [_launcher(packed, orders[way[0]], B.shape[1], way) for way in ways]
            self._chosen[key] = ways[fastest(launches)]
        way = self._chosen[key]
        return _launcher(packed, orders[way[0]], B.shape[1], way)


def _search(packed: Tensor, B: Tensor) -> tuple[int, int, int]:
    """cuSPARSELt's search: (algorithm, parts of K, how they are added up)."""
    return torch._C._cusparselt.mm_search(packed, B, None, None, None, False)[:3]


def _launcher(packed: Tensor, B: Tensor, N: int, way: tuple) -> Callable[[], Tensor]:
    _, algorithm, split_k, mode = way

    def run() -> Tensor:
        return torch._cslt_sparse_mm(
            packed, B, alg_id=algorithm, split_k=split_k, split_k_mode=mode
        )[:, :N]

    return run


def problem(W: Tensor) -> str | None:
    """Why cuSPARSELt cannot multiply W [M, K] here, or None if it can."""
    M, K = W.shape
    limits = SemiStructured._DTYPE_SHAPE_CONSTRAINTS[W.dtype]
    if M % limits.sparse_min_rows or K % limits.sparse_min_cols:
        allowed = f"multiples of {limits.sparse_min_rows} and {limits.sparse_min_cols}"
        return f"M={M}, K={K}: torch's 2:4 takes {allowed}"
    if reason := native.no_gpu():
        return reason
    return (
        None if torch.backends.cusparselt.is_available() else "torch was built without cuSPARSELt"
    )


def padded_columns(B: Tensor) -> Tensor:
    """B [K, N] with zero columns up to a multiple of what cuSPARSELt takes; columns contiguous."""
    multiple = SemiStructured._DTYPE_SHAPE_CONSTRAINTS[B.dtype].dense_min_rows
    return torch.nn.functional.pad(B.T, (0, 0, 0, -B.shape[1] % multiple)).T


def largest_two(W: Tensor) -> Tensor:
    """W [M, K] with the two largest magnitudes of each group of four; of equals, the first."""
    groups = W.view(W.shape[0], -1, GROUP)
    sizes = groups.abs().unbind(2)
    pruned = torch.zeros_like(groups)
    for i, mine in enumerate(sizes):
        larger = torch.zeros_like(mine, dtype=torch.int8)
        for j, other in enumerate(sizes):
            if j != i:
                larger += other >= mine if j < i else other > mine
        pruned[..., i] = groups[..., i].masked_fill(larger >= KEPT, 0)
    return pruned.view_as(W)
