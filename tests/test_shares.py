"""The choice of workers: legal for every shape, and what the model says it is best for."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import encode
from lab_utils.backends import emulator, published
from lab_utils.backends.shares import MODELS, Tiles, best_workers
from lab_utils.patterns import random_sparse

counts = st.integers(1, 2000)
SM90_SHARED_BYTES, RESERVED = 228 * 1024, 1024  # of an SM; of every block, by CUDA


@given(
    tiles=st.builds(
        Tiles, rows=counts, columns=st.integers(1, 8), row_tiles=counts, sums=counts,
        block_n=st.sampled_from([8, 16, 32, 64, 128]),
    ),
    model=st.sampled_from(list(MODELS.values())),
    sms=st.integers(1, 200),
    blocks_per_sm=st.integers(1, 16),
)  # fmt: skip
def test_every_worker_has_a_tile(tiles, model, sms, blocks_per_sm):
    workers, _ = best_workers(tiles, model, sms, blocks_per_sm)
    assert 1 <= workers <= tiles.count


def test_large_matrices_fill_the_gpu():
    assert best_workers(Tiles(288, 1, 144, 1024, 8), MODELS["tiled_csl"], 132, 4)[0] == 528


def test_rows_are_not_shared_where_their_sums_are_dear():
    assert best_workers(Tiles(2, 1, 64, 10**8, 8), MODELS["tiled_csl"], 132, 4)[0] == 2


def test_wide_products_keep_rows_aligned():
    wide = Tiles(96, 1, 768, 64 * 128, 64)
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
