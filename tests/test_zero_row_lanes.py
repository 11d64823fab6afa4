"""Lanes of zero-row 2:4: the counter's addresses are the encoder's, mma.sp's product is dense's."""

import numpy as np
import pytest

from lab_utils.analysis import zero_row_24_streams, zero_row_lanes
from lab_utils.formats import ZeroRow24
from lab_utils.patterns import PATTERNS, random_sparse

COLS = 144
streams = pytest.mark.parametrize("pairs", [False, True])


def encoded(
    sparsity: float, pairs: bool, pattern: str = "random", levels: int | None = None
) -> tuple[np.ndarray, dict]:
    """Weights [64, 144] and the arrays of their encoding, of one block."""
    W = random_sparse(64, COLS, sparsity, pattern=pattern, mean=0.5)
    A = ZeroRow24.encode(W, COLS, "pairs" if pairs else "packed", levels=levels)
    return W.numpy(), {name: array.numpy() for name, array in A.arrays.items()}


@streams
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.8, 1.0])
def test_counted_bits_lead_where_the_streams_do(sparsity, pairs) -> None:
    _, arrays = encoded(sparsity, pairs)
    for chunk in range(len(arrays["chunk_start"]) - 1):
        for tile in zero_row_lanes.tiles_of(arrays, chunk, COLS):
            found = zero_row_24_streams.addresses_of(tile.codes, tile.starts, pairs)
            assert np.array_equal(zero_row_lanes.addresses(tile), found)


@streams
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_product_is_that_of_the_weights(pattern, pairs) -> None:
    W, arrays = encoded(0.6, pairs, pattern)
    B = np.random.default_rng(0).integers(-4, 5, (COLS, 8)).astype(np.float16)  # exact in fp64
    assert np.array_equal(zero_row_lanes.product(arrays, B), W.astype(float) @ B)


@streams
def test_columns_of_zeros_hold_what_is_not_in_use_and_nothing_else(pairs) -> None:
    W, arrays = encoded(0.7, pairs, levels=0)  # level 1 of pairs gets other middle ones as well
    tile = zero_row_lanes.tiles_of(arrays, 0, COLS)[1]
    for step in (0, 1):
        operand = zero_row_lanes.selected(tile, step).reshape(16, 8, 4)
        real, here = operand[..., :3], W[16:32, 24 * step : 24 * step + 24].reshape(16, 8, 3)
        full = (here != 0).all(-1)
        assert np.array_equal(real[~full], here[~full])  # the middle one of three is elsewhere
        assert np.array_equal(real[full][:, ::2], here[full][:, ::2])
        assert not real[full][:, 1].any()
        assert operand[..., 3].any()


def test_lanes_and_registers_cover_the_tile_once() -> None:
    places = [zero_row_lanes.place(*at) for at in np.ndindex(32, 4, 2)]
    assert len({(p.row, p.group) for p in places}) == len(places) == 16 * 16
    assert len({(p.g, p.order) for p in places}) == len(places)
    with pytest.raises(ValueError, match="lane=32, register=0, step=0: allowed: 0 to 31"):
        zero_row_lanes.place(32, 0, 0)


def test_sixes_are_refused_by_name() -> None:
    A = ZeroRow24.encode(random_sparse(64, COLS, 0.9), slice_cols=COLS, streams="sixes")
    arrays = {name: array.numpy() for name, array in A.arrays.items()}
    with pytest.raises(ValueError, match="streams are sixes; allowed: packed, pairs"):
        zero_row_lanes.product(arrays, np.zeros((COLS, 8), np.float16))
