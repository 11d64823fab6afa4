"""Arguments and results of formulas of (M, K, sparsity)."""

import numpy as np
from numpy.typing import ArrayLike


def checked(M: int, K: int, sparsity: ArrayLike) -> np.ndarray:
    """The sparsity as float64; ValueError for what no matrix has."""
    for name, value in (("M", M), ("K", K)):
        if value != int(value) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    s = np.asarray(sparsity, dtype=np.float64)
    if not np.all((s >= 0) & (s <= 1)):  # also refuses NaN
        raise ValueError(f"sparsity={sparsity!r} must lie between 0 and 1")
    return s


def plain(value: np.ndarray) -> float | np.ndarray:
    """Return a Python float for a scalar input and an array for an array."""
    return float(value) if np.ndim(value) == 0 else value
