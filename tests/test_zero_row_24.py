"""Zero-row 2:4: its bytes and the formula, its bank conflicts, use and refusals."""

from itertools import product

import numpy as np
import pytest
import torch
from matrices import same_bits
from zero_row_24_slow import SlowReading

from lab_utils import accuracy, spmm
from lab_utils.analysis import zero_row_24
from lab_utils.analysis import zero_row_24_expected as analysis
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.analysis.zero_row_24_streams import wavefronts as wavefronts_of_loads
from lab_utils.backends import hopper
from lab_utils.formats import ZeroRow24
from lab_utils.patterns import PATTERNS, random_sparse

kinds_with_levels = pytest.mark.parametrize("streams", ["packed", "pairs"])
levels = pytest.mark.parametrize("levels", [0, 1])
# All ways in which values stand, with and without level 1.
kinds = pytest.mark.parametrize(
    "kind",
    [{"streams": streams, "levels": n} for streams in ("packed", "pairs") for n in (0, 1)]
    + [{"streams": streams} for streams in ("sixes", "nested")],
    ids=str,
)


@kinds
@pytest.mark.parametrize("shape", [(1, 1), (64, 48), (65, 130), (150, 31), (70, 300)])
@pytest.mark.parametrize("sparsity", [0.0, 0.4, 0.9, 1.0])
def test_every_element_is_where_the_drawing_puts_it(shape, sparsity, kind):
    dense = random_sparse(*shape, sparsity, pattern="row_skewed")
    A = ZeroRow24.encode(dense, slice_cols=144, **kind)
    A.validate()
    assert np.array_equal(SlowReading(A).dense, dense.view(torch.int16).numpy().view(np.uint16))


@kinds
@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_dense_tile(pattern, kind):
    dense = random_sparse(200, 500, 0.8, pattern=pattern)
    dense[64:130, 48:203] = 1.5
    for reach in (-1, 0, 8):
        A = ZeroRow24.encode(dense, 288, reach=reach, **kind)
        A.validate()
        assert same_bits(A.decode(), dense)


# --- bytes


@kinds_with_levels
@levels
@pytest.mark.parametrize("sparsity", [0.05, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("slice_cols", [480, 2304])
def test_bytes_are_expected(sparsity, levels, streams, slice_cols):
    M, K = 320, 5000
    A = ZeroRow24.encode(random_sparse(M, K, sparsity), slice_cols, streams, -1, levels)
    options = np.float64(1 - sparsity), Streams.named(streams), slice_cols, levels
    assert A.nbytes == pytest.approx(sum(analysis.parts(M, K, *options).values()), rel=0.008)
    chunks = A.arrays["chunk_start"].numel() - 1
    assert chunks == pytest.approx(analysis.chunks(M, K, *options).count, rel=0.01)


@pytest.mark.parametrize("sparsity", [0.7, 0.8, 0.88, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("slice_cols", [480, 2304])
def test_bytes_of_sixes_are_expected(sparsity, slice_cols):
    """Where they pay; with more weights, rows of the queue have more in a six than by chance."""
    M, K, off = 320, 5000, 1 if sparsity > 0.85 else 2.5
    A = ZeroRow24.encode(random_sparse(M, K, sparsity), slice_cols, "sixes", -1)
    options = np.float64(1 - sparsity), Streams.SIXES, slice_cols
    assert A.nbytes == pytest.approx(sum(analysis.parts(M, K, *options).values()), rel=0.008 * off)
    chunks = A.arrays["chunk_start"].numel() - 1
    found = analysis.chunks(M, K, *options)
    pieces = chunks + found.pieces - found.regular
    assert pieces == int(A.pieces.sum()) == pytest.approx(found.all_pieces, rel=0.01 * off)


@pytest.mark.parametrize("sparsity", [0.3, 0.5, 0.6, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("slice_cols", [432, 2304])
def test_bytes_of_nested_chunks_are_expected(sparsity, slice_cols):
    M, K = 320, 5000
    A = ZeroRow24.encode(random_sparse(M, K, sparsity), slice_cols, "nested", -1)
    options = np.float64(1 - sparsity), Streams.NESTED, slice_cols
    assert A.nbytes == pytest.approx(sum(analysis.parts(M, K, *options).values()), rel=0.008)
    chunks = A.arrays["chunk_start"].numel() - 1
    assert chunks == pytest.approx(analysis.chunks(M, K, *options).count, rel=0.015)


def test_pairs_are_chosen_where_a_nested_chunk_is_too_long(monkeypatch):
    """One of a matrix is enough, and what is asked for is done."""
    monkeypatch.setattr(zero_row_24, "nesting_pays", lambda M, K, sparsity: sparsity < 0.77)
    dense = random_sparse(128, 2304, 0.6)
    assert ZeroRow24.encode(dense).streams == Streams.NESTED
    dense[:64, 72:144] = 1
    A, asked = ZeroRow24.encode(dense), ZeroRow24.encode(dense, streams="nested")
    assert (A.streams, asked.streams) == (Streams.PAIRS, Streams.NESTED)
    assert A.variant == A.name and asked.largest_chunk == 9056
    assert same_bits(A.decode(), dense) and same_bits(asked.decode(), dense)


@pytest.mark.parametrize("slice_cols", [72, 1728, 2088, 2304, 2448])
def test_two_of_the_longest_nested_chunks_fit_for_each_warp(slice_cols):
    longest, rows = zero_row_24.longest_nested(slice_cols), -(-slice_cols // 32) * 32
    stages = [hopper.stage_bytes(hopper.LINE - hopper.CHUNK_ALIGN + longest + n) for n in (0, 32)]
    beside = hopper.waiting_beside(16, Streams.NESTED)
    layouts = [hopper.Layout(16, Streams.NESTED, rows, 1, stage, beside) for stage in stages]
    assert layouts[0].stages > layouts[1].stages == 1


@pytest.mark.parametrize("seed", range(3))
def test_level_1_of_a_nested_chunk_has_two_weights_for_each_three_groups(seed):
    """Of three full groups the middle weight of the second one is in lists, and nothing else."""
    dense = random_sparse(64, 72, 0.3, seed=seed)
    A = ZeroRow24.encode(dense, streams="nested")
    groups = dense.ne(0).view(64, 4, 3, 2, 3)  # row, two groups j each, step, of these, column
    middle = torch.zeros_like(groups)
    middle[:, :, 1, :, 1] = groups.all(4).all(2)
    assert np.array_equal(SlowReading(A).of_chunk > 0, middle.view(64, 72).numpy())


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_a_six_keeps_its_first_and_last_value(seed):
    """What stands between them is in the lists of extra chunks, and nothing else."""
    dense = random_sparse(64, 48, 0.6, seed=seed)
    A = ZeroRow24.encode(dense, streams="sixes")
    assert A.streams == Streams.SIXES and A.levels == 0
    nonzero = dense.ne(0).numpy().reshape(64, 2, 8, 3).transpose(0, 2, 1, 3).reshape(64, 8, 6)
    kept = np.zeros_like(nonzero)
    rows, sixes = np.nonzero(nonzero.any(2))
    kept[rows, sixes, nonzero.argmax(2)[rows, sixes]] = True
    kept[rows, sixes, 5 - nonzero[:, :, ::-1].argmax(2)[rows, sixes]] = True
    regular = kept.reshape(64, 8, 2, 3).transpose(0, 2, 1, 3).reshape(64, 48)
    assert np.array_equal(SlowReading(A).of_chunk == 0, regular)


@kinds_with_levels
@pytest.mark.parametrize("sparsity", [0.5, 0.6, 0.65, 0.71, 0.75])
def test_levels_are_those_that_cost_less(sparsity, streams):
    """Bytes, and a time for each chunk; as in the formula, whose bytes are right within .15 %."""
    M, K = 512, 4608
    dense = random_sparse(M, K, sparsity)
    chosen, *both = (ZeroRow24.encode(dense, 2304, streams, -1, n) for n in (None, 0, 1))
    costs = [A.nbytes + analysis.CHUNK_COST * A.arrays["chunk_start"].numel() for A in both]
    assert (
        chosen.levels
        == costs.index(min(costs))
        == (sparsity < (0.73 if streams == "pairs" else 0.63))
    )
    assert [A.levels for A in both] == [0, 1]
    expected = sum(
        analysis.parts(M, K, np.float64(1 - sparsity), Streams.named(streams), 2304).values()
    )
    assert chosen.nbytes == pytest.approx(expected, rel=0.0015)


@pytest.mark.parametrize("sparsity", [0.15, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.87, 0.9, 0.95])
def test_bytes_of_the_default_encoding(sparsity):
    M, K = 256, 7168
    A = ZeroRow24.encode(random_sparse(M, K, sparsity))
    assert A.pairs == (sparsity > 0.19)
    assert (A.streams == Streams.SIXES) == (sparsity > 0.86)
    skipped = 0 if A.pairs else 0.014  # at most
    assert -0.005 < A.nbytes / ZeroRow24.expected_nbytes(M, K, sparsity) - 1 < 0.005 + skipped


@pytest.mark.parametrize(
    ("sparsity", "streams", "rel"),
    [(0.0, Streams.PACKED, 0.025), (1.0, Streams.PAIRS, 0.025), (1.0, Streams.SIXES, 0.03)],
)
def test_bytes_of_all_and_of_no_weights(sparsity, streams, rel):
    dense = random_sparse(256, 960, sparsity)
    A = ZeroRow24.encode(dense, streams=streams.name.lower())
    # The formula rounds chunks up by 15 bytes on average; those without values (580, 452) by 28.
    expected = analysis.parts(256, 960, np.float64(1 - sparsity), A.streams)
    assert A.nbytes == pytest.approx(sum(expected.values()), rel=rel)
    if sparsity == 0 or streams == Streams.SIXES:  # the default
        assert sum(expected.values()) == ZeroRow24.expected_nbytes(256, 960, sparsity)


def test_padding_of_streams_is_that_of_a_simulation():
    rng = np.random.default_rng(0)
    for (size, groups), density in product(((3, 32), (6, 16)), (0.05, 0.3, 0.5, 0.9)):
        kept = np.minimum(rng.binomial(size, density, (20_000, groups)), 2)
        odd, zeros = np.zeros(20_000, bool), np.zeros(20_000)
        for count in kept.T:
            zeros += odd & (count == 2)
            odd = np.where(count == 2, False, odd ^ (count == 1))
        mean = (zeros + odd).mean()
        expected = analysis.padding_of_stream(np.float64(density), groups, size)
        assert expected == pytest.approx(mean, abs=0.05)


# --- bank conflicts


def wavefronts(A: ZeroRow24) -> float:
    data, chunk_start = A.arrays["data"].numpy(), A.arrays["chunk_start"].numpy()
    return wavefronts_of_loads(data, chunk_start, A.streams, A.pieces.numpy())


# What the docstring of `encode` says, packed up to .6, in plain order and with the default reach.
@pytest.mark.parametrize(
    ("sparsity", "plain", "placed"),
    [(0.5, 2.13, 1.68), (0.6, 1.87, 1.54), (0.7, 1.85, 1.5), (0.8, 1.97, 1.49),
     (0.9, 1.51, 1.17), (0.95, 1.0, 1.0)],
)  # fmt: skip
def test_placement_avoids_bank_conflicts(sparsity, plain, placed):
    dense = random_sparse(128, 1536, sparsity)
    kind = {"slice_cols": 1536, "streams": "pairs" if sparsity > 0.65 else "packed"}
    found = [ZeroRow24.encode(dense, **kind, reach=reach) for reach in (-1, 8)]
    assert [wavefronts(A) for A in found] == pytest.approx([plain, placed], abs=0.05)
    plain, placed = (A.nbytes for A in found)
    assert placed == plain if kind["streams"] == "pairs" else plain < placed < 1.015 * plain


@pytest.mark.parametrize(("sparsity", "plain", "placed"), [(0.9, 1.95, 1.42), (0.95, 1.51, 1.18)])
def test_placement_of_sixes(sparsity, plain, placed):
    dense = random_sparse(128, 1536, sparsity)
    found = [ZeroRow24.encode(dense, streams="sixes", reach=reach) for reach in (-1, 8)]
    assert [wavefronts(A) for A in found] == pytest.approx([plain, placed], abs=0.05)
    assert len({A.nbytes for A in found}) == 1


@pytest.mark.parametrize(
    ("sparsity", "plain", "placed"), [(0.5, 2.06, 1.77), (0.6, 2.5, 1.93), (0.7, 1.93, 1.53)]
)
def test_placement_of_nested_chunks(sparsity, plain, placed):
    dense = random_sparse(128, 1584, sparsity)
    found = [ZeroRow24.encode(dense, None, "nested", reach) for reach in (-1, 8)]
    assert [wavefronts(A) for A in found] == pytest.approx([plain, placed], abs=0.05)
    assert len({A.nbytes for A in found}) == 1


def test_wavefronts_by_hand():
    dense = torch.zeros(64, 48, dtype=torch.float16)
    assert wavefronts(ZeroRow24.encode(dense)) == 1  # all lanes read the same word
    # Rows 0 and 8 fill words 0 to 31, one for each group: in gather q, lanes of g = 0 read words
    # 4 q to 4 q + 3, those of g = 1 to 7 word 32, in the bank of word 0.
    dense[[0, 8], ::3] = dense[[0, 8], 1::3] = 1
    A = ZeroRow24.encode(dense, streams="pairs", reach=-1)
    assert wavefronts(A) == (2 + 31) / 32  # of eight gathers of four tiles, one conflicts


# --- use, and refusals


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_that_are_not_finite_are_flagged(dtype):
    dense = random_sparse(70, 100, 0.5, dtype=dtype)
    assert ZeroRow24.encode(dense).nonfinite is False
    for bad in (torch.inf, -torch.inf, torch.nan):
        dense[69, 99] = bad
        A = ZeroRow24.encode(dense)
        A.validate()
        assert A.nonfinite and A.constants == (144, A.levels, A.streams, A.largest_chunk, 1)
        assert same_bits(A.decode(), dense)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@kinds
def test_slices_multiply_without_a_gpu(backend, kind):
    W, B = random_sparse(150, 500, 0.3, mean=0.5), torch.randn(500, 3).half()
    A = ZeroRow24.encode(W, slice_cols=144, **kind)
    accuracy.check(spmm(A, B, backend=backend), W, B)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slice_cols": 50}, "slice_cols=50; allowed: None, multiples of 48 up to 65520"),
        ({"slice_cols": 0}, "slice_cols=0"),
        ({"slice_cols": 65568}, "slice_cols=65568"),
        ({"slice_cols": 48.0}, "slice_cols=48.0"),
        ({"streams": 1}, "streams=1; allowed: None, 'packed', 'pairs', 'sixes', 'nested'"),
        ({"streams": "PAIRS"}, "streams='PAIRS'; allowed: None, 'packed', 'pairs'"),
        ({"streams": "sixes", "levels": 1}, "levels=1 with streams='sixes'; allowed: None, 0"),
        ({"streams": "nested", "levels": 1}, "levels=1 with streams='nested'; allowed: None, 0"),
        ({"streams": "nested", "slice_cols": 96}, "slice_cols=96; allowed: None, multiples of 72"),
        ({"levels": 2}, "levels=2; allowed: None, 0, 1"),
        ({"levels": True}, "levels=True"),
        ({"reach": -2}, "reach=-2; allowed: -1 to 32 bytes"),
        ({"reach": 33}, "reach=33"),
        ({"reach": 0.5}, "reach=0.5"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ZeroRow24.encode(torch.zeros(2, 2, dtype=torch.float16), **options)
