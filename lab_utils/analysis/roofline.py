"""Computational intensity, the roofline and the byte limit of C[M,N] = A[M,K] · B[K,N].

Intensities are in FLOP per byte for 2-byte activations and outputs, rates in TFLOP/s, bandwidths
in GB/s (10⁹), times in µs. Everything broadcasts over numpy arrays. A *machine* is any object with
``peak_tflops`` and ``bandwidth_gb_s``: a ``catalog.Device``, or what ``machine`` measured here.
All raise ValueError where a size, an intensity or a share is not positive.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from lab_utils.analysis.checked import plain
from lab_utils.analysis.compression import VALUE_BYTES, compression_ratio, format_bytes

Number = float | np.ndarray


class Machine(Protocol):
    """What the roofline needs to know of a machine."""

    peak_tflops: float
    bandwidth_gb_s: float


def dense_intensity(M: ArrayLike, N: ArrayLike) -> Number:
    """Intensity of the dense product, M·N/(M+N) (Flash-LLM eq. 1).

    2·M·N·K operations over the 2·(M·K + K·N) bytes that are read; writing C is left out.
    """
    return ratio_intensity(M, N, 1.0)


def ratio_intensity(M: ArrayLike, N: ArrayLike, ratio: ArrayLike) -> Number:
    """Intensity with the weights compressed by `ratio`, M·N/(M/CR + N) (SpInfer eq. 7)."""
    m, n, r = _positive(M=M, N=N, ratio=ratio)
    return plain(m * n / (m / r + n))


def format_intensity(format: str, M: int, K: int, N: ArrayLike, sparsity: ArrayLike) -> Number:
    """Intensity with the weights stored in `format` at `sparsity` (SpInfer eq. 7)."""
    return ratio_intensity(M, N, compression_ratio(format, M, K, sparsity))


def optimal_intensity(M: ArrayLike, N: ArrayLike, sparsity: ArrayLike) -> Number:
    """Intensity without any index bytes, M·N/(M·(1−s) + N) (Flash-LLM eq. 2, SpInfer eq. 8)."""
    (m, n), s = _positive(M=M, N=N), np.asarray(sparsity, dtype=np.float64)
    if not np.all((s >= 0) & (s <= 1)):
        raise ValueError(f"sparsity={sparsity!r} must lie between 0 and 1")
    return plain(m * n / (m * (1 - s) + n))


def exact_intensity(M: int, K: int, N: ArrayLike) -> Number:
    """Intensity of dense weights that also counts writing C: M·N·K/(M·K + K·N + M·N)."""
    n = np.asarray(N, dtype=np.float64)
    return plain(2 * M * n * K / total_bytes(M, K, n, "dense", 0.0))


def total_bytes(M: int, K: int, N: ArrayLike, format: str, sparsity: ArrayLike) -> Number:
    """Bytes that one product moves at least: the stored weights, B once and C once."""
    n = np.asarray(N, dtype=np.float64)
    if not np.all(n >= 1):
        raise ValueError(f"N={N!r} must be at least 1")
    return plain(format_bytes(format, M, K, sparsity) + VALUE_BYTES * n * (K + M))


def ridge(machine: Machine) -> float:
    """Intensity in FLOP/byte at which memory and tensor cores take equally long."""
    return machine.peak_tflops * 1e12 / (machine.bandwidth_gb_s * 1e9)


def attainable_tflops(machine: Machine, intensity: ArrayLike) -> Number:
    """TFLOP/s under the roof at `intensity`: min(peak, intensity · bandwidth)."""
    (i,) = _positive(intensity=intensity)
    return plain(np.minimum(machine.peak_tflops, i * machine.bandwidth_gb_s / 1e3))


def utilisation(machine: Machine, intensity: ArrayLike) -> Number:
    """Share of the tensor-core peak under the roof at `intensity`, 0 to 1 (Flash-LLM fig. 5)."""
    (i,) = _positive(intensity=intensity)
    return plain(np.minimum(1.0, i / ridge(machine)))


def ridge_batch(machine: Machine, M: int, weight_fraction: float = 1.0) -> float:
    """N at which the product leaves the memory slope, infinite where it never does.

    `weight_fraction` is encoded ÷ dense bytes (1/CR): a smaller one reaches the ridge earlier.
    Solves M·N/(M·f + N) = ridge.
    """
    _positive(M=M, weight_fraction=weight_fraction)
    r = ridge(machine)
    return r * M * weight_fraction / (M - r) if r < M else float("inf")


def ridge_range(intensity: float, percent: float, digits: int = 1) -> tuple[float, float]:
    """Ridges (low, high) at which `intensity` gives `percent` of the peak, printed to `digits`.

    Tells which machine a published percentage was calculated for, and whether one can be. `high` is
    infinite where `percent` may be so little that it would be printed as zero.
    """
    _positive(intensity=intensity, percent=percent)
    half = 0.5 * 10.0**-digits
    high = 100 * intensity / (percent - half) if percent > half else float("inf")
    return 100 * intensity / (percent + half), high


def byte_limit_us(machine: Machine, nbytes: ArrayLike) -> Number:
    """Time in µs to read `nbytes` once at full bandwidth; no kernel can be faster."""
    (read,) = _positive(nbytes=nbytes)
    return plain(read / (machine.bandwidth_gb_s * 1e3))


def roofline_us(
    machine: Machine, M: int, K: int, N: ArrayLike, format: str = "dense", sparsity: float = 0.0
) -> Number:
    """Time in µs under the roof: the slower of moving all bytes and computing as dense."""
    n = np.asarray(N, dtype=np.float64)
    memory = byte_limit_us(machine, total_bytes(M, K, n, format, sparsity))
    compute = 2 * M * n * K / (machine.peak_tflops * 1e6)
    return plain(np.maximum(memory, compute))


def _positive(**values: ArrayLike) -> list[np.ndarray]:
    """Values as float64. Raises ValueError, with its name, for the first that is not positive."""
    arrays = [np.asarray(value, dtype=np.float64) for value in values.values()]
    for name, array in zip(values, arrays, strict=True):
        if not np.all(array > 0):
            raise ValueError(f"{name}={array} must be positive")
    return arrays
