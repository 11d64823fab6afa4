"""Arguments and results of formulas of (M, K, sparsity)."""

from collections.abc import Sequence, Sized
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

LARGEST = 2**31 - 1  # rows or columns, which kernels count with 32 bits


def checked(M: int, K: int, sparsity: ArrayLike) -> tuple[int, int, np.ndarray]:
    """M and K as Python ints, the sparsity as float64; ValueError for what no matrix has."""
    return whole("M", M), whole("K", K), _shares(sparsity)


def whole(name: str, value: float) -> int:
    """`value` as a Python int, as those of numpy overflow; ValueError unless it is 1 to LARGEST."""
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name}={value!r:.60} must be a whole number of at least 1")
    if value > LARGEST:
        raise ValueError(f"{name}={value!r:.60} is too large; allowed: at most {LARGEST}")
    return int(value)


def is_whole(value: object) -> bool:
    """Whether it is a whole number of any type; neither NaN nor infinities are."""
    if isinstance(value, Integral):
        return is_integer(value)
    return isinstance(value, Real) and float(value).is_integer()


def is_integer(value: object) -> bool:
    """Whether it is one by its type, Python's or numpy's; bool is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def sides(name: str, tile: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a tile as Python ints; ValueError, naming it, for anything else."""
    if not isinstance(tile, (tuple, list)) or len(tile) != 2:
        raise ValueError(f"{name}={tile!r:.60}; allowed: (rows, columns)")
    rows, columns = (whole(f"{name}[{i}]", side) for i, side in enumerate(tile))
    return rows, columns


def check_any(**lists: Sequence) -> None:
    """Raise ValueError, naming it, for a list without items, and for a text in place of a list."""
    for name, items in lists.items():
        check_list(name, items)
        if not len(items):
            raise ValueError(f"{name}={items!r:.60}: empty; allowed: one item or more")


def check_list(name: str, items: Sequence) -> None:
    """Raise ValueError for a text, or anything else without a length, in place of a list."""
    if not isinstance(items, Sized):
        raise ValueError(f"{name}={items!r:.60}; allowed: a list")
    if isinstance(items, str):
        raise ValueError(f"{name}={items!r:.60} is a text; allowed: a list")


def _shares(sparsity: ArrayLike) -> np.ndarray:
    try:
        found = np.asarray(sparsity, dtype=np.float64)
    except (TypeError, ValueError):  # text, lists of different lengths
        found = np.array(np.nan)
    if not np.all((found >= 0) & (found <= 1)):  # also refuses NaN
        raise ValueError(f"sparsity={sparsity!r:.60} must lie between 0 and 1")
    return found


def plain(value: np.ndarray) -> float | np.ndarray:
    """Return a Python float for a scalar input and an array for an array."""
    return float(value) if np.ndim(value) == 0 else value
