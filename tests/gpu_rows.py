"""Rows as a GPU might give them, for the tests of figures: the times follow a model."""

import itertools

import pandas as pd

from lab_utils import catalog
from lab_utils.analysis.compression import format_bytes
from lab_utils.results import COLUMNS

# kernel: backend, format whose bytes it reads, share of 4.6 TB/s, microseconds per column and GB
SPARSE = {
    "tiled_csl_mma": ("cuda", "tiled_csl", 0.78, 2.2),
    "tca_bme_mma": ("cuda", "tca_bme", 0.5, 1.5),
    "zero_row_24_mma": ("cuda", "zero_row_24", 0.8, 1.0),
    "zero_row_24_packed_mma": ("cuda", "zero_row_24", 0.78, 1.1),
    "zero_row_24_strips_wgmma": ("cuda", "zero_row_24_strips", 0.75, 0.9),
    "lane_24_strips_wgmma": ("cuda", "lane_24_strips", 0.75, 0.6),
    "bitmap_strips_wgmma": ("cuda", "bitmap_strips", 0.72, 0.8),
    "coded_strips_wgmma": ("cuda", "coded_strips", 0.7, 0.7),
    "sparta": ("cuda", "sparta", 0.55, 1.8),
    "two_four": ("torch", "2:4", 0.8, 0.6),
    "csr_simt": ("cuda", "csr", 0.35, 9.0),
    "cusparse": ("cupy", "csr", 0.05, 25.0),
}
DENSE = {"cublas_mm": 0.86, "cublas_linear": 0.84, "cublaslt": 0.88}


def gpu_rows(
    shapes: list[tuple[int, int]] | None = None,
    Ns: tuple[int, ...] = (1, 8, 16, 32, 64, 128, 256, 512),
    sparsities: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    device: str = "h200",
) -> pd.DataFrame:
    """Rows of every kernel; shapes: those of catalog.opt_matrices() unless given."""
    shapes = shapes or catalog.opt_matrices()
    cases = itertools.product(shapes, sparsities, Ns)
    return pd.concat([_case(M, K, N, s, device) for (M, K), s, N in cases], ignore_index=True)


def _case(M: int, K: int, N: int, sparsity: float, device: str) -> pd.DataFrame:
    dense_bytes = 2 * M * K
    floor = 2 * M * K * N / 600e6  # microseconds at 600 TFLOP/s
    times = {name: ("torch", dense_bytes, max(dense_bytes / 4.6e6 / share, floor))
             for name, share in DENSE.items()}  # fmt: skip
    best = min(time for *_, time in times.values())
    for name, (backend, format, share, slope) in SPARSE.items():
        encoded = int(format_bytes(format, M, K, max(sparsity, 0.5)))
        extra = slope * N * dense_bytes / 1e9 * (1 - sparsity if "csr" in format else 1)
        times[name] = (backend, encoded, max(encoded / 4.6e6 / share + extra + 4, floor))
    rows = [_row(*case, best) for case in times.items()]
    same = {"date": "2026-11-21T10:00:00+00:00", "commit": "abc1234", "device": device,
            "driver": "580.159", "cuda": "13.0", "M": M, "K": K, "N": N, "sparsity": sparsity,
            "pattern": "random", "dtype": "fp16", "split_k": 1}  # fmt: skip
    frame = pd.DataFrame(rows).assign(**same)
    frame["tflops"] = 2 * M * K * N / frame.time_us / 1e6
    return frame[list(COLUMNS["spmm"])]


def _row(kernel: str, measured: tuple[str, int, float], best: float) -> dict:
    backend, encoded, time = measured
    return {
        "kernel": kernel, "backend": backend, "encoded_bytes": encoded,
        "time_us": time, "p10_us": 0.98 * time, "p90_us": 1.03 * time,
        "gb_per_s": encoded / time / 1e3, "byte_limit_fraction": encoded / time / 4.6e6,
        "relative_error": 2e-4, "dense_us": best, "speedup": best / time,
    }  # fmt: skip
