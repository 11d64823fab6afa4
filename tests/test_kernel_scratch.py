"""Scratch memory by shape alone: no launch has more, and none that was measured had."""

import itertools
import math

import pytest
from emulated import tiles_in_parts

from lab_utils import encode, results
from lab_utils.analysis.gpu_products import OF_SM_90
from lab_utils.analysis.kernel_scratch import WORKERS, scratch_bytes
from lab_utils.analysis.zero_row_24 import MULTIPROCESSORS
from lab_utils.backends.crossover import LEAST_TILED
from lab_utils.backends.kernels import KERNELS, TILED
from lab_utils.formats import FORMATS
from lab_utils.patterns import random_sparse

# By tiles: the last but one leaves 65 row blocks for 66 pairs, which have parts of them; the last
# one, where it is dense, has wider thread blocks than N takes.
TILED_SHAPES = [(70, 5000), (9000, 500), (16700, 300), (8320, 512), (4736, 128)]
TILED_BATCHES = (LEAST_TILED, 256, 300, 384, 390, 400, 448, 512, 576, 640, 768, 769, 900, 1600)
BATCHES = (1, 8, 9, 16, 24, 32, 50, 64, 65, 96, 128, 129, 160, 190, 224, 250, 300, 384, 600, 1140)
OF_MANY_PASSES = (145, 193, 241, 385, 673, 833, 2401)  # whose blocks have more columns than N


def launched_bytes(A, N: int, kernels: dict = KERNELS) -> int:
    """Of a launch on an H200."""
    kernel = kernels[A.name]
    launch = kernel.launch_of(A, N, kernel.layout_of(A, N, MULTIPROCESSORS, None))
    return 4 * sum(math.prod(shape) for shape in (launch.sums, *launch.more.values()))


@pytest.mark.parametrize("format", KERNELS)
def test_no_launch_has_more(format: str) -> None:
    shapes, sparsities = [(70, 90), (64, 5000), (3000, 500), (500, 1000)], [0.0, 0.5, 0.9]
    for (M, K), sparsity in itertools.product(shapes, sparsities):
        A = encode(random_sparse(M, K, sparsity), format)
        for N in BATCHES:
            assert launched_bytes(A, N) <= scratch_bytes(format, M, K, N), (M, K, sparsity, N)


@pytest.mark.parametrize("format", ["zero_row_24_strips", "lane_24_strips"])
@pytest.mark.parametrize("sparsity", [0.0, 0.2, 0.6, 0.95])
def test_no_launch_has_more_where_b_is_most_of_it(format: str, sparsity: float) -> None:
    M, K = 16, 60000
    A = encode(random_sparse(M, K, sparsity), format)
    for N in BATCHES + OF_MANY_PASSES:
        assert launched_bytes(A, N) <= scratch_bytes(format, M, K, N), N


@pytest.mark.parametrize("format", TILED)
def test_no_launch_by_tiles_has_more(format: str) -> None:
    """Of columns for which a plan may take them; chunks of the densest leave narrower blocks."""
    for (M, K), sparsity in itertools.product(TILED_SHAPES, [0.0, 0.15, 0.5, 0.9]):
        A = encode(random_sparse(M, K, sparsity), format)
        with tiles_in_parts():
            launched = [launched_bytes(A, N, TILED) for N in TILED_BATCHES]
        for N, needed in zip(TILED_BATCHES, launched, strict=True):
            assert needed <= scratch_bytes(format, M, K, N), (M, K, sparsity, N)


@pytest.mark.parametrize("format", OF_SM_90)
def test_large_launches_have_about_as_much(format: str) -> None:
    M, K = 3072, 7168
    A = encode(random_sparse(M, K, 0.8), format)
    for N in (8, 16, 64, *(256, 512) * (format != "zero_row_24")):
        assert scratch_bytes(format, M, K, N) < 2.5 * launched_bytes(A, N)


@pytest.mark.parametrize("format", WORKERS)
def test_measured_launches_had_at_most_as_much(format: str) -> None:
    """And one for each width of block did."""
    rows = results.measured("spmm")
    rows = rows[rows.kernel.eq(f"{format}_mma") & rows.device.eq("h200")]
    shares = []
    for row in rows.itertuples():
        width = next((width for width in (16, 32, 64) if width >= row.N), 128)
        block_m, _ = WORKERS[format][width]
        workers = round(row.split_k * -(-row.M // block_m))
        used = 4 * workers * 2 * row.N * block_m
        shares.append((width, used / scratch_bytes(format, row.M, row.K, row.N)))
    most = {width: max(share for w, share in shares if w == width) for width, _ in shares}
    assert most == dict.fromkeys(WORKERS[format], pytest.approx(1.0, abs=0.02))


def test_formats_without_kernels_have_none() -> None:
    assert [scratch_bytes(f, 512, 512, 8) for f in FORMATS if f not in KERNELS] == [0] * (
        len(FORMATS) - len(KERNELS)
    )
