"""The choice of workers: legal for every shape, and what the model says it is best for."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import encode, results
from lab_utils.backends import emulator, published
from lab_utils.backends.shares import MODELS, Tiles, best_workers
from lab_utils.patterns import random_sparse

counts = st.integers(1, 2000)
# Of an SM of the H200 that was measured, at .5 and .8: what registers and shared memory allow.
BLOCKS = {
    "tca_bme": {8: (9, 9), 16: (9, 9), 32: (5, 5), 64: (3, 3)},
    "tiled_csl": {8: (4, 5), 16: (4, 5), 32: (4, 4), 64: (3, 3)},
}
SM90_SHARED_BYTES, RESERVED = 228 * 1024, 1024  # of an SM; of every block, by CUDA


@given(
    tiles=st.builds(
        Tiles, rows=counts, columns=st.integers(1, 8), row_tiles=counts, sums=counts,
        block_n=st.sampled_from([8, 16, 32, 64, 128]), density=st.floats(0, 1),
    ),
    model=st.sampled_from(list(MODELS.values())),
    sms=st.integers(1, 200),
    blocks_per_sm=st.integers(1, 16),
)  # fmt: skip
def test_every_worker_has_a_tile(tiles, model, sms, blocks_per_sm):
    workers, _ = best_workers(tiles, model, sms, blocks_per_sm)
    assert 1 <= workers <= tiles.count


def test_large_matrices_fill_the_gpu():
    workers, _ = best_workers(Tiles(288, 1, 144, 1024, 8, 0.5), MODELS["tiled_csl"], 132, 4)
    assert workers % (4 * 132) == 0


def test_rows_are_not_shared_where_their_sums_are_dear():
    assert best_workers(Tiles(2, 1, 64, 10**8, 8, 0.5), MODELS["tiled_csl"], 132, 4)[0] == 2


def test_wide_products_keep_rows_aligned():
    wide = Tiles(96, 1, 768, 64 * 128, 64, 0.5)
    assert best_workers(wide, MODELS["tiled_csl"], 132, 3)[0] == 4 * 96


@pytest.mark.parametrize("N", [8, 64, 128])
@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5, 9])
def test_an_sm_has_room_for_no_more_blocks_than_it_is_to_have(N, at_once):
    A = encode(random_sparse(128, 64, 0.9), "tiled_csl")
    least, shape = published.shape_of(A, N), published.Shape()
    problem = published.problem_of(A, N, A.arrays)
    problem.at_once = at_once
    library = emulator.machine().library
    library.lscd_cuda_shape(0, ctypes.byref(problem), ctypes.byref(shape))
    fit = SM90_SHARED_BYTES // (shape.shared_bytes + RESERVED)
    assert fit == min(at_once, SM90_SHARED_BYTES // (least.shared_bytes + RESERVED))
    assert shape.shared_bytes >= least.shared_bytes


def test_choices_are_within_5_percent_of_the_best_that_was_measured() -> None:
    """Of the numbers of workers that `lab shares` has timed, the model takes one of the fastest."""
    rows = results.measured("shares")
    assert len(rows)
    for (kernel, M, K, N, sparsity), tried in rows.groupby(["kernel", "M", "K", "N", "sparsity"]):
        format, times = kernel.removesuffix("_mma"), tried.set_index("workers").time_us
        block_m = {"tiled_csl": 128, "tca_bme": 64}[format]
        tiles = Tiles(-(-M // block_m), 1, -(-K // 64), N * block_m, N, 1 - sparsity)
        workers, _ = best_workers(tiles, MODELS[format], 132, BLOCKS[format][N][sparsity > 0.5])
        nearest = min(times.index, key=lambda one: abs(one - workers))
        assert times[nearest] <= 1.05 * times.min(), (kernel, M, K, N, sparsity)
