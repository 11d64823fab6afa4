"""Storage formulas: the papers' numbers to the printed digit, limits, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import catalog
from lab_utils.analysis import compression as c
from lab_utils.analysis import zero_row_24, zero_row_24_expected
from lab_utils.formats import encode
from lab_utils.patterns import random_sparse

SQUARE = (8192, 8192)
shapes = st.tuples(st.integers(1, 5000), st.integers(1, 5000))
sparsities = st.floats(0, 1)
formats = pytest.mark.parametrize("format", c.FORMULAS)


def test_formulas_by_hand() -> None:
    nnz = 0.25 * 128 * 256
    assert c.dense_bytes(128, 256) == 65536
    assert c.csr_bytes(128, 256, 0.75) == 6 * nnz + 4 * 129
    assert c.tiled_csl_bytes(128, 256, 0.75) == 4 * nnz + 4 * 4
    assert c.tca_bme_bytes(128, 256, 0.75) == 2 * nnz + 8 * 512 + 4 * (8 + 1)
    assert c.two_four_bytes(128, 256) == 2.25 * 128 * 256 / 2
    overflow = 128 * 256 / 4 * (4 * 0.25**3 * 0.75 + 2 * 0.25**4)
    assert c.sparta_bytes(128, 256, 0.75) == pytest.approx(36864 + 6 * overflow + 4 * 129)


@pytest.mark.parametrize("s", [0.0, 0.3, 0.5, 0.8])
def test_sparta_overflow_is_the_binomial_expectation(s: float) -> None:
    chance = np.random.default_rng(0).random((200_000, 4)) >= s
    counted = np.maximum(chance.sum(axis=1) - 2, 0).mean()
    assert c.sparta_overflow(1, 4, s) == pytest.approx(counted, abs=0.005)


def test_tabulated_compression_ratios_to_the_printed_digit() -> None:
    table = catalog.published("compression_ratio")
    for row in table.itertuples():
        if row.format == "optimal":
            ours = c.optimal_ratio(row.sparsity)
        else:
            ours = c.compression_ratio(row.format, *SQUARE, row.sparsity)
        assert ours == pytest.approx(row.compression_ratio, abs=0.00501), (row.format, row.sparsity)


@formats
def test_arrays_give_the_scalars(format: str) -> None:
    s = np.linspace(0, 1, 11)
    values = c.format_bytes(format, 100, 300, s)
    assert values.shape == s.shape
    assert values == pytest.approx([c.format_bytes(format, 100, 300, x) for x in s])
    assert isinstance(c.format_bytes(format, 100, 300, 0.5), float)


@formats
@given(shape=shapes, low=sparsities, high=sparsities)
def test_more_zeros_never_take_more_bytes(format: str, shape, low: float, high: float) -> None:
    low, high = sorted((low, high))
    # Pairs have more bytes, and levels are those that cost less time.
    options = {"streams": "packed", "levels": 1} if format == "zero_row_24" else {}
    fewer, more = (c.format_bytes(format, *shape, s, **options) for s in (high, low))
    # The first one's rounding up is an expectation, the second one a simulation, of whole lines.
    slack = {"zero_row_24_strips": 1e-3, "lane_24_strips": 2e-3}.get(format, 1e-12)
    line = 128 if format == "lane_24_strips" else 0
    assert 0 < fewer <= more * (1 + slack) + line


@formats
@given(shape=shapes, s=sparsities)
def test_bytes_per_weight_sum_to_the_formula(format: str, shape, s: float) -> None:
    parts = c.bytes_per_weight(format, *shape, s)
    total = c.format_bytes(format, *shape, s) / (shape[0] * shape[1])
    assert sum(parts.values()) == pytest.approx(total)
    assert all(value >= -1e-9 for value in parts.values())


@formats
def test_offsets_are_those_of_rows_and_tiles(format: str) -> None:
    per_weight = c.bytes_per_weight(format, 1024, 512, 0.6)["offsets"]
    chunks = zero_row_24_expected.chunks(1024, 512, np.float64(0.4), streams=True).count
    entries = {
        "csr": 1025,
        "sparta": 1025,
        "tiled_csl": 8 * 8,
        "tca_bme": 16 * 8 + 1,
        "zero_row_24": chunks * (16 + 1) + 1 + 16 + 1 + 5,
        "zero_row_24_strips": 64 * (3 + 1) * (16 + 1) + 1 + 3,
        "lane_24_strips": 64 * 2 * (10 + 1) + 1 + 1,
        "bitmap_strips": 64 * 2 + 1 + 1,
        "coded_strips": 64 * 2 + 1 + 1,
    }
    assert per_weight * 1024 * 512 == pytest.approx(4 * entries.get(format, 0), abs=1e-6)


def test_no_format_with_indices_beats_the_optimum() -> None:
    s = np.linspace(0, 0.99, 100)
    for format in ("csr", "tiled_csl", "tca_bme"):
        assert np.all(c.compression_ratio(format, *SQUARE, s) < c.optimal_ratio(s))
    assert c.optimal_ratio(1.0) == float("inf")


@pytest.mark.parametrize(
    ("format", "expected"),
    [("csr", 2 / 3), ("tiled_csl", 0.5), ("tca_bme", 1 / 16), ("sparta", 0.408)],
)
def test_break_even(format: str, expected: float) -> None:
    s = c.break_even(format, *SQUARE)
    assert s == pytest.approx(expected, abs=1e-3)
    assert c.compression_ratio(format, *SQUARE, s) == pytest.approx(1)


def test_break_even_is_none_where_there_is_none() -> None:
    assert c.break_even("dense", *SQUARE) is None
    assert c.break_even("2:4", *SQUARE) is None
    assert c.break_even("csr", 4096, 1) is None  # row pointers alone exceed one dense column


def test_tile_sizes() -> None:
    assert c.tca_bme_bytes(*SQUARE, 0.5, group_tile=(8, 8)) > c.tca_bme_bytes(*SQUARE, 0.5)
    # Whole words: 4×4 bits fill two bytes, 3×4 bits waste four of sixteen.
    plain = c.tca_bme_bytes(192, 192, 0.5)
    assert c.tca_bme_bytes(192, 192, 0.5, bitmap_tile=(4, 4)) == plain
    assert c.tca_bme_bytes(192, 192, 0.5, bitmap_tile=(16, 16)) == plain
    assert c.tca_bme_bytes(192, 192, 0.5, bitmap_tile=(2, 6), group_tile=(96, 96)) > plain
    sides = [c.tile_overhead("tca_bme", *SQUARE, 0.6, (t, t)) for t in (8, 16, 32, 64)]
    assert sides == sorted(sides, reverse=True)
    assert sides[0] == pytest.approx((4 / 64) / (0.8 + 8 / 64 + 4 / 64), rel=1e-3)
    padded = c.tile_overhead("tiled_csl", *SQUARE, 0.6, (64, 64), padding=True)
    assert padded > c.tile_overhead("tiled_csl", *SQUARE, 0.6, (64, 64))


def test_ragged_shapes_round_up_to_whole_tiles() -> None:
    assert c.tiled_csl_bytes(129, 65, 1.0) == 4 * 4
    assert c.tca_bme_bytes(9, 1, 1.0) == 4 * 2 + 8 * 2


@pytest.mark.parametrize("format", ["tiled_csl", "tca_bme"])
@pytest.mark.parametrize("sparsity", [0.5, 0.8])
def test_extra_bytes_explain_real_encodings(format: str, sparsity: float) -> None:
    M = K = 2048
    matrix = encode(random_sparse(M, K, sparsity, dtype=torch.float16, seed=1), format)
    beyond = matrix.nbytes - c.format_bytes(format, M, K, matrix.sparsity)
    tiles = M * K / {"tiled_csl": 128 * 64, "tca_bme": 64 * 64}[format]
    # Paddings of 0 to 12, or 0 to 14 bytes deviate by 4.6 at most: a mean off by one byte shows.
    assert beyond == pytest.approx(c.stored_extra_bytes(format, M, K), abs=4 * 4.6 * tiles**0.5)


@formats
@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.int32, np.float32])
def test_numbers_of_numpy_do_not_overflow(format: str, kind: type) -> None:
    M, K = 20000, 200
    expected = c.format_bytes(format, M, K, 0.5)
    assert c.format_bytes(format, kind(M), kind(K), 0.5) == expected
    assert c.format_bytes(format, kind(M), np.uint8(K), 0.5) == expected
    assert c.compression_ratio(format, kind(M), kind(K), 0.5) == 2 * M * K / expected
    assert c.stored_extra_bytes(format, kind(M), kind(K)) == c.stored_extra_bytes(format, M, K)
    assert c.bytes_per_weight(format, kind(M), kind(K), 0.5) == c.bytes_per_weight(
        format, M, K, 0.5
    )


def test_tiles_of_numpy_do_not_overflow() -> None:
    tile = (np.int16(256), np.int16(256))
    assert c.tiled_csl_bytes(512, 512, 0.5, tile=tile) == c.tiled_csl_bytes(
        512, 512, 0.5, tile=(256, 256)
    )
    shares = [
        c.tile_overhead("tca_bme", M, K, 0.5, tile) for M, K in (SQUARE, map(np.int16, SQUARE))
    ]
    assert shares[0] == shares[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: c.format_bytes("coo", 8, 8, 0.5), "'coo'.*dense, csr, tiled_csl, tca_bme, 2:4"),
        (lambda: c.compression_ratio("coo", 8, 8, 0.5), "coo"),
        (lambda: c.break_even("coo", 8, 8), "coo"),
        (lambda: c.stored_extra_bytes("coo", 8, 8), "coo"),
        (lambda: c.csr_bytes(0, 8, 0.5), "M=0"),
        (lambda: c.csr_bytes(8, 2.5, 0.5), "K=2.5"),
        (lambda: c.csr_bytes(float("nan"), 8, 0.5), "M=nan must be a whole number of at least 1"),
        (lambda: c.csr_bytes(8, float("inf"), 0.5), "K=inf must be a whole number of at least 1"),
        (lambda: c.csr_bytes(None, 8, 0.5), "M=None must be a whole number of at least 1"),
        (lambda: c.stored_extra_bytes("csr", 8, "8"), "K='8' must be a whole number of at least"),
        (
            lambda: c.csr_bytes(10**400, 8, 0.5),
            "M=1000.* is too large; allowed: at most 2147483647",
        ),
        (lambda: c.csr_bytes(8, 8, 1.5), "sparsity=1.5"),
        (lambda: c.csr_bytes(8, 8, "x"), "sparsity='x' must lie between 0 and 1"),
        (
            lambda: c.csr_bytes(8, 8, [[0.5], [0.5, 0.6]]),
            r"sparsity=\[\[0.5\], .* must lie between",
        ),
        (lambda: c.csr_bytes(8, 8, [0.5, float("nan")]), "sparsity="),
        (lambda: c.tiled_csl_bytes(8, 8, 0.5, tile=(512, 256)), "65536"),
        (lambda: c.tiled_csl_bytes(8, 8, 0.5, tile=(0, 64)), r"tile\[0\]=0 must .* at least 1"),
        (lambda: c.tiled_csl_bytes(8, 8, 0.5, tile=64), r"tile=64; allowed: \(rows, columns\)"),
        (lambda: c.tca_bme_bytes(8, 8, 0.5, bitmap_tile=(8, None)), r"bitmap_tile\[1\]=None must"),
        (lambda: c.tca_bme_bytes(8, 8, 0.5, group_tile=(60, 64)), "whole number of bitmap"),
        (lambda: c.tile_overhead("csr", 8, 8, 0.5, (8, 8)), "no tiles.*tiled_csl, tca_bme"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_words_of_two_values_pay_sooner_in_small_matrices():
    least = {2048: 0.19, 4096: 0.19, 8192: 0.55, 8193: 0.65, 40000: 0.65}
    for M, sparsity in least.items():
        assert zero_row_24.pairs_pay(M, 8192, sparsity)
        assert not zero_row_24.pairs_pay(M, 8192, sparsity - 0.01)


def test_nested_chunks_pay_in_large_matrices_of_some_sparsities():
    of_rows = {4096: (2, 2), 8192: (0.49, 0.66), 16384: (0.49, 0.72), 16385: (0.49, 0.77)}
    for M, bounds in of_rows.items():
        found = [s for s in np.linspace(0.3, 0.99, 70) if zero_row_24.nesting_pays(M, 8192, s)]
        assert all(bounds[0] - 1e-9 <= s < bounds[1] for s in found) and bool(found) == (M > 4096)
        for s in found:
            assert zero_row_24.streams_of(M, 8192, s) == zero_row_24.Streams.NESTED


def test_slices_share_the_multiprocessors():
    large = [zero_row_24.slice_columns(36864, K) for K in (1, 48, 7168, 9216)]
    assert large == [48, 48, 2400, 2304]
    small = [zero_row_24.slice_columns(4096, K) for K in (48, 4096, 7168, 14336)]
    assert small == [48, 1056, 1824, 2400]
    tiny = [(2048, 2048), (4096, 1536), (3072, 1535), (4097, 4095), (8192, 2048), (64, 40000)]
    slices = [-(-K // zero_row_24.slice_columns(M, K)) for M, K in tiny]
    assert slices == [4, 4, 1, 3, 2, 22]
    for M in (1024, 36864):
        for K in (7168, 12288, 28672, 36864, 49152):
            for streams in zero_row_24.Streams:
                cols = zero_row_24.slice_columns(M, K, streams)
                assert 132 % -(-K // cols) == cols % zero_row_24.piece_cols(streams) == 0
