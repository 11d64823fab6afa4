"""2:4 in strips, words for each lane: its bytes, against slow ones; its size; its use."""

import numpy as np
import pytest
import torch
from lane_24_slow import (
    BANKS,
    HEADER,
    STEPS,
    SlowReading,
    bits_of,
    chunk_bytes,
    lines_and_steps,
    steps_of,
)
from lane_24_slow_encoder import SlowChunk, slow_encoding
from matrices import same_bits

from lab_utils import accuracy, spmm
from lab_utils.analysis import lane_24_strips
from lab_utils.formats import Lane24Strips
from lab_utils.patterns import PATTERNS, random_sparse


@pytest.mark.parametrize("shape", [(1, 1), (64, 256), (65, 700), (150, 31)])
@pytest.mark.parametrize("sparsity", [0.0, 0.4, 0.9, 1.0])
def test_every_element_is_where_the_drawing_puts_it(shape, sparsity):
    dense = random_sparse(*shape, sparsity, pattern="row_skewed")
    A = Lane24Strips.encode(dense)
    found = SlowReading(A)
    assert np.array_equal(found.dense[: shape[0], : shape[1]], bits_of(dense))
    assert A.nnz == np.count_nonzero(found.dense)


def assert_written(dense: torch.Tensor) -> Lane24Strips:
    """Raise unless the encoder writes what the slow one does; returns the encoding."""
    A, expected = Lane24Strips.encode(dense), slow_encoding(dense)
    for chunk, data in enumerate(expected):
        assert np.array_equal(chunk_bytes(A, chunk), data), f"chunk {chunk}"
    assert A.arrays["data"].numel() == sum(data.size for data in expected)
    assert A.largest_chunk == max(data.size for data in expected)
    A.validate()
    assert same_bits(A.decode(), dense)
    return A


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.999, 1.0])
def test_all_bytes_are_those_of_a_slow_encoder(sparsity):
    assert_written(random_sparse(70, 400, sparsity))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_with_a_dense_tile(pattern):
    dense = random_sparse(120, 500, 0.8, pattern=pattern)
    dense[30:50, 200:303] = 1.5
    assert_written(dense)


def test_lines_are_those_that_cost_least():
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[:16, :4] = torch.tensor([1, 0, 0, 1])  # two words in each lane with t = 0
    assert lines_and_steps(assert_written(dense), 0) == (2, 0)
    dense[0, 16:20] = torch.tensor([0, 1, 0, 0])  # a third one in lane 0
    # A step of its own costs 256 bytes and more, a line only 128.
    assert lines_and_steps(assert_written(dense), 0) == (3, 0)
    dense[0, 4:8] = 1  # two entries of lane 1: the step is there, a line is saved
    assert lines_and_steps(assert_written(dense), 0) == (2, 1)
    dense[0, 16:28] = 1  # and six more with their step full: now one line holds three words
    assert lines_and_steps(assert_written(dense), 0) == (3, 1)


def test_no_more_than_thirteen_lines_are_saved():
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0] = torch.tensor([1, 0, 0, 1]).repeat(64)  # row 0: 16 words in each of lanes 0 to 3
    dense[:16, ::16] = dense[:16, 3::16] = 1  # 32 in lanes with t = 0, in two banks
    A = assert_written(dense)
    assert lines_and_steps(A, 0) == (16, 0)
    dense[:] = 0
    dense[1, :7] = 1  # three entries of others
    for column in range(0, 256, 64):  # lane 0 has groups with one and with two weights, in turns,
        for half in (0, 16):  # 16 words in one bank: no line at all would cost least
            dense[0, column + half] = dense[8, column + half] = dense[8, column + half + 1] = 1
    assert lines_and_steps(assert_written(dense), 0) == (3, 4)  # one is empty, to fill a four


def words_of(dense: torch.Tensor, lane: int) -> list[list[int]]:
    """Halves of the first words in a lane's bank."""
    A = assert_written(dense)
    data, lines = chunk_bytes(A, 0), lines_and_steps(A, 0)[0]
    at = int(data[HEADER : HEADER + 2].view(np.uint16)[0]) + 4 * lane
    words = [data[at + 128 * i : at + 128 * i + 4].view(np.uint16).tolist() for i in range(lines)]
    return words[:3]


def test_lone_weights_share_words_with_their_neighbours():
    dense = torch.zeros(64, 256, dtype=torch.float16)
    a, b, c, d, e = range(1, 6)
    groups = dense.view(torch.int16)[:, :224:16]  # lane 0's: rows 0 and 8, in turns
    dense[:] = torch.tensor([1, 0, 0, 1]).repeat(64)  # of others, so that every line pays
    dense[0] = dense[8] = 0
    groups[0, 0] = a
    assert words_of(dense, 0)[:1] == [[a, 0]]
    groups[8, 4] = b  # eleven groups later
    assert words_of(dense, 0)[:1] == [[a, b]]
    groups[8, 0] = c
    assert words_of(dense, 0)[:2] == [[a, c], [b, 0]]
    dense.view(torch.int16)[8, 3] = d  # two weights: a has none to share with
    assert words_of(dense, 0) == [[a, 0], [c, d], [b, 0]]
    groups[0, 12] = e  # order 12 of step 0
    assert words_of(dense, 0) == [[a, 0], [c, d], [b, e]]
    groups[0, 12] = 0
    dense.view(torch.int16)[0, 32] = e  # order 0 of step 1, which begins words of its own
    assert words_of(dense, 0) == [[a, 0], [c, d], [b, 0]]


def test_who_has_many_words_stands_below_who_has_few():
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0, :128] = dense[0, 160] = 1  # lanes 0 to 3 have four words in either step, and
    dense[4, 32:64:4] = 1  # lane 0 one more; lanes 16 to 19 have two in step 1
    banks = chunk_bytes(assert_written(dense), 0)[BANKS : BANKS + 32].tolist()
    even = [*range(4), *range(8, 12), *range(16, 20), *range(24, 28)]  # lanes with an even g
    assert banks[:4] == even[4:8] and banks[16:20] == even[8:12]
    assert banks[8:12] + banks[24:28] == even[12:] + even[:4]
    assert [bank for bank in banks if bank not in even] == [i for i in range(32) if i not in even]


def test_full_groups_leave_out_columns_with_few_entries():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[0, :] = torch.arange(1, 257).half()
    A = assert_written(dense)
    first = chunk_bytes(A, 0)
    assert lines_and_steps(A, 0)[1] == 16
    # Lane 0 has groups 0, 4, 16, 20, ... of row 0, in order of tiles and halves: it leaves out
    # columns 0 and 1 of the first, 2 and 3 of the second. Odd places begin with the last lanes.
    reading = SlowReading(Lane24Strips.encode(dense))
    assert reading.entries == 128
    pairs = first[STEPS : STEPS + 32].view(np.uint16).reshape(4, 2, 2)
    columns = first[STEPS + 32 : STEPS + 40]
    assert columns.tolist() == [0, 233, 18, 251, 4, 237, 22, 255] and (pairs[:, 1] == 1).all()
    assert np.array_equal(pairs[:, 0].ravel(), bits_of(dense)[0, columns])
    dense[0] = torch.tensor([0, 1, 1, 1]).repeat(64)  # lane 0 leaves out 1, 18, 67, 81, 130, ...
    columns = chunk_bytes(assert_written(dense), 0)[STEPS + 32 : STEPS + 40]
    # Places 0 and 4 have none: each step has six of the others, and two that find no step.
    assert columns.tolist() == [233, 18, 187, 237, 22, 191, 5, 254]


def steps_and_fours(entries: int, rows: int) -> tuple[int, int, int]:
    """What a chunk states that has so many entries, of so many rows by turns."""
    dense = torch.zeros(64, 256, dtype=torch.float16)
    for i in range(entries):
        group = dense[i % rows, 4 * (i // rows) : 4 * (i // rows) + 4]
        group[:3] = 1
    A = assert_written(dense)
    SlowReading(A)
    return steps_of(A, 0)


def test_four_steps_are_multiplied_at_once():
    found = {n: steps_and_fours(8 * n, 16) for n in range(1, 15)}
    assert [found[n][:2] for n in (1, 2)] == [(1, 0), (2, 0)]
    assert [found[n] for n in (3, 4)] == [(4, 1, 0)] * 2  # three, and one more
    assert [found[n] for n in (5, 6, 7)] == [(5, 1, 0), (6, 1, 0), (8, 2, 0)]
    assert [found[n] for n in (8, 9, 10)] == [(8, 2, 0), (9, 2, 0), (10, 2, 0)]
    assert [found[n] for n in (11, 12, 14)] == [(12, 3, 0), (12, 3, 0), (12, 3, 2)]


def columns_of_steps(A: Lane24Strips, chunk: int) -> np.ndarray:
    """Of near steps, [steps, 8]."""
    near, *_ = steps_of(A, chunk)
    steps = chunk_bytes(A, chunk)[STEPS : STEPS + 40 * near].reshape(near, 40)
    return steps[:, 32:]


@pytest.mark.parametrize("sparsity", [0.75, 0.8, 0.9])
def test_a_step_meets_few_banks_of_b_twice(sparsity):
    A = Lane24Strips.encode(random_sparse(256, 2048, sparsity))
    steps = np.concatenate([columns_of_steps(A, chunk) for chunk in range(128)])
    met = [np.bincount(np.unique(step) % 8, minlength=8).max() for step in steps]
    assert 1 <= np.mean(met) < {0.75: 1.16, 0.8: 1.22, 0.9: 1.5}[sparsity]


def test_a_row_with_too_many_entries_of_a_step_forbids_fours():
    for rows, fours in ((1, 0), (6, 0), (7, 1), (16, 1)):
        assert steps_and_fours(32, rows) == (4, fours, 0)


# --- size


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 1.0])
@pytest.mark.parametrize("shape", [(512, 9216), (330, 5000)])
def test_bytes_are_expected(sparsity, shape):
    A = Lane24Strips.encode(random_sparse(*shape, sparsity))
    exact = sparsity in (0, 1)
    expected = Lane24Strips.expected_nbytes(*shape, sparsity)
    assert A.nbytes == pytest.approx(expected, rel=1e-9 if exact else 0.015)


def test_expected_lines_and_steps_are_chosen_as_the_encoder_does():
    padded = np.pad(bits_of(random_sparse(96, 512, 0.75)), ((0, 32), (0, 0)))
    slow = [
        SlowChunk(padded[row : row + 16, column : column + 256])
        for row in range(0, 128, 16)
        for column in (0, 256)
    ]
    held = np.zeros((len(slow), 32), np.int64)
    for chunk, words in enumerate(one.words for one in slow):
        for line, word in (word for bank in words for word in enumerate(bank)):
            held[chunk, line] += len(word.weights)
    chosen = lane_24_strips.choose(held, np.array([len(one.left) for one in slow]))
    assert chosen.lines.tolist() == [one.lines() for one in slow]
    sizes = [one.sizes(one.lines()) for one in slow]
    assert chosen.steps.tolist() == [size[0] for size in sizes]
    assert chosen.nbytes.tolist() == [size[3] for size in sizes]


def test_a_dense_chunk_is_the_largest_and_has_far_steps():
    dense = torch.ones(64, 512, dtype=torch.float16)
    A = assert_written(dense)
    most = 1408 + 32 * 128 + 9856  # header, lines, 244 far steps in whole 128 bytes
    assert A.largest_chunk == most == 15360
    assert A.largest_copy == 1408 + 32 * 128 and A.constants == (A.largest_copy,)
    assert A.nbytes == 8 * most + 4 * 9 + 4
    for chunk in range(8):
        assert lines_and_steps(A, chunk) == (32, 256)
        far_at = chunk_bytes(A, chunk)[HEADER + 4 : HEADER + 8].view(np.uint32)
        assert 16 * int(far_at[0]) == most * chunk + 1408 + 32 * 128


def test_twelve_steps_are_near():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    for full, steps, far in ((48, 12, False), (49, 13, True)):
        dense[0, : 4 * full] = 1  # two entries of each
        dense[1:] = torch.tensor([1, 0, 0, 1]).repeat(64)  # so that every line pays
        A = assert_written(dense)
        far_at = int(chunk_bytes(A, 0)[HEADER + 4 : HEADER + 8].view(np.uint32)[0])
        assert lines_and_steps(A, 0)[1] == steps and bool(far_at) == far


def test_a_chunk_without_weights_is_a_header():
    A = Lane24Strips.encode(torch.zeros(64, 256, dtype=torch.float16))
    assert A.nbytes == 4 * 896 + 4 * 5 + 4
    assert lines_and_steps(A, 0) == (0, 0)


# --- use, and refusals


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.95])
def test_weights_that_are_not_finite_survive(dtype, sparsity):
    dense = random_sparse(70, 100, sparsity, dtype=dtype)
    places = dense.view(torch.int16).flatten().nonzero().flatten()[::7]
    odd = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0], dtype=dtype)
    dense.flatten()[places] = odd.repeat(len(places))[: len(places)]
    A = Lane24Strips.encode(dense)
    A.validate()
    assert same_bits(A.decode(), dense) and A.nnz == int((dense.view(torch.int16) != 0).sum())


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("sparsity", [0.3, 0.9], ids=["far steps", "near steps"])
def test_rounds_multiply_without_a_gpu(backend, sparsity):
    W, B = random_sparse(150, 700, sparsity, mean=0.5), torch.randn(700, 3).half()
    accuracy.check(spmm(Lane24Strips.encode(W), B, backend=backend), W, B)
