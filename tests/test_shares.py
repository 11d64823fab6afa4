"""The choice of workers: legal for every shape, and what the model says it is best for."""

from hypothesis import given
from hypothesis import strategies as st

from lab_utils.backends.shares import MODELS, Tiles, best_workers

counts = st.integers(1, 2000)


@given(
    tiles=st.builds(
        Tiles, rows=counts, columns=st.integers(1, 8), row_tiles=counts, sums=counts,
        wide=st.booleans(),
    ),
    model=st.sampled_from(list(MODELS.values())),
    sms=st.integers(1, 200),
    blocks_per_sm=st.integers(1, 16),
)  # fmt: skip
def test_every_worker_has_a_tile(tiles, model, sms, blocks_per_sm):
    workers, _ = best_workers(tiles, model, sms, blocks_per_sm)
    assert 1 <= workers <= tiles.count


def test_large_matrices_fill_the_gpu():
    assert best_workers(Tiles(288, 1, 144, 1024, False), MODELS["tiled_csl"], 132, 4)[0] == 528


def test_rows_are_not_shared_where_their_sums_are_dear():
    assert best_workers(Tiles(2, 1, 64, 10**8, False), MODELS["tiled_csl"], 132, 4)[0] == 2


def test_wide_products_keep_rows_aligned():
    wide = Tiles(96, 1, 768, 64 * 128, True)
    assert best_workers(wide, MODELS["tiled_csl"], 132, 3)[0] == 4 * 96
