"""The choice of workers: legal for every shape, and what the model says it is best for."""

import ctypes
from dataclasses import fields, replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import encode, results
from lab_utils.backends import emulator, published
from lab_utils.backends.shares import MODELS, Model, Tiles, best_workers
from lab_utils.bench.shares import candidates
from lab_utils.patterns import random_sparse

counts = st.integers(1, 2000)
# Of an SM of the H200 that was measured, at .5 and .8: what registers and shared memory allow.
BLOCKS = {
    "tca_bme": {8: (9, 9), 16: (9, 9), 32: (5, 5), 64: (3, 3)},
    "tiled_csl": {8: (4, 5), 16: (4, 5), 32: (4, 4), 64: (3, 3)},
}
SMS = 132  # of an H200
SM90_SHARED_BYTES, RESERVED = 228 * 1024, 1024  # of an SM; of every block, by CUDA


@given(
    tiles=st.builds(
        Tiles, rows=counts, row_tiles=counts, N=st.integers(1, 1024),
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
    workers, _ = best_workers(Tiles(288, 144, 8, 8, 0.5), MODELS["tiled_csl"], SMS, 4)
    assert workers % (4 * SMS) == 0


def test_rows_are_not_shared_where_their_sums_are_dear():
    dear = replace(MODELS["tiled_csl"], sum=1e6)
    assert best_workers(Tiles(2, 64, 8, 8, 0.5), dear, SMS, 4)[0] == 2


def test_wide_products_keep_rows_aligned():
    wide = Tiles(96, 768, 64, 64, 0.5)
    assert best_workers(wide, MODELS["tiled_csl"], SMS, 3)[0] == 4 * 96


def test_an_sm_with_fewer_tiles_is_worth_a_few_more_workers():
    """360 workers have 9 tiles each, at most; of 396 only the first 32 have as many."""
    wide = Tiles(40, 80, 64, 64, 0.5)
    for model in MODELS.values():
        assert best_workers(wide, model, SMS, 3)[0] == 396


@given(rows=st.integers(1, 40), row_tiles=st.integers(1, 40), data=st.data())
def test_segments_are_what_workers_and_rows_cut_of_each_other(rows, row_tiles, data):
    tiles = Tiles(rows, row_tiles, 8, 8, 0.5)
    workers = data.draw(st.integers(1, tiles.count))
    each, longer = divmod(tiles.count, workers)
    starts = {worker * each + min(worker, longer) for worker in range(workers)}
    row_starts = {row * row_tiles for row in range(rows)}
    segments = tiles.segments(workers)
    if segments == 0:
        assert starts <= row_starts
    else:
        assert max(workers, rows) <= len(starts | row_starts) <= segments


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


def geometry(kernel: str, M: int, K: int, N: int, sparsity: float) -> tuple[Model, Tiles, int]:
    """Of a measured case: the model, what it is asked of, and blocks of an SM."""
    format = kernel.removesuffix("_mma")
    shape = published.shape_of(encode(random_sparse(128, 64, sparsity), format), N)
    rows, row_tiles = -(-M // shape.block_m), -(-K // published.TILE_K)
    tiles = Tiles(rows, row_tiles, N, shape.block_n, round(1 - sparsity, 2))
    return MODELS[format], tiles, BLOCKS[format][N][sparsity > 0.5]


@pytest.fixture(scope="module")
def searches() -> list[tuple[Model, Tiles, int, pd.Series]]:
    """The last search of each case: its geometry, and the time of each number of workers."""
    case = ["kernel", "M", "K", "N", "sparsity"]
    groups = results.latest(results.measured("shares"), case).groupby(case)
    return [(*geometry(*key), tried.set_index("workers").time_us) for key, tried in groups]


def slower(model: Model, tiles: Tiles, blocks: int, times: pd.Series) -> float:
    """Time of the number of workers that a model chooses, by that of the best that was tried."""
    return times[best_workers(tiles, model, SMS, blocks)[0]] / times.min()


def test_searches_tried_what_a_choice_is_made_of(searches) -> None:
    assert len(searches) >= 96
    for _, tiles, blocks, times in searches:
        tried = set(candidates(tiles.rows, tiles.count, SMS, blocks))
        assert tried <= set(times.index) and len(times) <= len(tried) + 1


def test_choices_are_within_5_percent_of_the_best_that_was_measured(searches) -> None:
    for search in searches:
        assert slower(*search) <= 1.05, search[:3]


@pytest.mark.parametrize("factor", [0.8, 1.2])
@pytest.mark.parametrize("parameter", [field.name for field in fields(Model)])
def test_no_parameter_needs_to_be_exact(searches, parameter: str, factor: float) -> None:
    """Or else the model would know the cases that it is fitted to, and no others: with one wrong by
    a fifth, none of its choices is over 6 % slower than the best."""
    for model, *search in searches:
        value = min(1.0, factor * getattr(model, parameter))
        assert slower(replace(model, **{parameter: value}), *search) <= 1.06, (model, search[:2])
