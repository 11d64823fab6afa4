"""Bitmaps and values for each lane: their bytes, against slow ones; damage; use."""

import numpy as np
import pytest
import torch
from bitmap_strips_slow import (
    BANKS,
    LINES,
    ZEROS,
    bits_of,
    chunk_bytes,
    slow_encoding,
    slow_reading,
    value_at,
)
from hypothesis import given, settings
from matrices import ODD_BITS, matrices, same_bits

from lab_utils import accuracy, spmm
from lab_utils.formats import BitmapStrips
from lab_utils.patterns import PATTERNS, random_sparse


def assert_written(dense: torch.Tensor) -> BitmapStrips:
    """Raise unless the encoder writes what the slow one does; returns the encoding."""
    A, expected = BitmapStrips.encode(dense), slow_encoding(dense)
    for chunk, data in enumerate(expected):
        assert np.array_equal(chunk_bytes(A, chunk), data), f"chunk {chunk}"
    assert A.arrays["data"].numel() == sum(data.size for data in expected)
    assert A.largest_chunk == A.largest_copy == max(data.size for data in expected)
    A.validate()
    assert same_bits(A.decode(), dense)
    assert A.nnz == np.count_nonzero(bits_of(dense))
    return A


def lines(A: BitmapStrips, chunk: int) -> int:
    return (chunk_bytes(A, chunk).size - LINES) // 128


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (70, 400), (150, 31), (64, 256), (3, 513)])
def test_all_bytes_are_those_of_a_slow_encoder(shape, sparsity):
    assert_written(random_sparse(*shape, sparsity))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_with_a_dense_tile(pattern):
    dense = random_sparse(120, 500, 0.8, pattern=pattern, dtype=torch.bfloat16)
    dense[30:50, 200:303] = 1.5
    assert_written(dense)


@settings(max_examples=40, deadline=None)
@given(dense=matrices())
def test_any_matrix(dense):
    assert_written(dense)


def test_values_need_not_be_finite():
    dense = torch.zeros(20, 300, dtype=torch.float16)
    odd = torch.tensor([bits - (bits >> 15 << 16) for bits in ODD_BITS], dtype=torch.int16)
    dense.view(torch.int16)[3, 250:261] = dense.view(torch.int16)[19, :11] = odd
    assert_written(dense)


@pytest.mark.parametrize("place", [(0, 0), (8, 1), (15, 255), (7, 64), (3, 142), (12, 201)])
def test_one_weight_is_where_the_drawing_puts_it(place):
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[place] = 2.0
    data = chunk_bytes(assert_written(dense), 0)
    row, column = place
    lane, word, eighth = 4 * (row % 8) + column % 8 // 2, column // 64, column // 8 % 8
    bit = 16 * (row // 8) + 8 * (column % 2) + 7 - eighth
    assert data.size == LINES + 128
    assert data[:BANKS].view(np.uint32).nonzero()[0].tolist() == [4 * lane + word]
    assert data[:BANKS].view(np.uint32)[4 * lane + word] == 1 << bit
    bank = data[BANKS + lane] if word > 1 else lane
    assert data[LINES:].view(np.uint16).nonzero()[0].tolist() == [2 * bank]


def test_a_value_is_behind_those_of_its_bank():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[0, 128] = 5.0  # lane 0, in its second half: the lane with most, in the bank with fewest
    for lane in range(31):
        dense[lane // 4, 2 * (lane % 4)] = 1.0  # a value in the first half of all lanes but 31
    data = chunk_bytes(assert_written(dense), 0)
    assert data[BANKS:ZEROS].tolist() == [31, *range(31)] and data.size == LINES + 128
    assert data.view(np.uint16)[value_at(31, 0) // 2] == bits_of(dense)[0, 128]
    dense[7, 6] = 1.0  # of lane 31: all lanes have one, and lane 0 takes bank 0
    data = chunk_bytes(assert_written(dense), 0)
    assert data[BANKS:ZEROS].tolist() == list(range(32)) and data.size == LINES + 128
    assert data.view(np.uint16)[value_at(0, 1) // 2] == bits_of(dense)[0, 128]


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 1.0])
@pytest.mark.parametrize("shape", [(512, 9216), (330, 5000)])
def test_bytes_are_expected(sparsity, shape):
    A = BitmapStrips.encode(random_sparse(*shape, sparsity))
    exact = sparsity in (0, 1)
    expected = BitmapStrips.expected_nbytes(*shape, sparsity)
    assert A.nbytes == pytest.approx(expected, rel=1e-9 if exact else 0.015)


def test_a_dense_chunk_is_the_largest():
    A = assert_written(torch.ones(64, 512, dtype=torch.float16))
    assert A.largest_chunk == LINES + 64 * 128 == 8832 and A.constants == (8832,)
    assert A.nbytes == 8 * 8832 + 4 * 9 + 4


def test_a_chunk_without_weights_has_no_lines():
    A = assert_written(torch.zeros(1, 1, dtype=torch.float16))
    assert A.nbytes == 4 * LINES + 4 * 5 + 4 and lines(A, 0) == 0


def test_lanes_with_many_values_share_banks_with_those_that_have_few():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[0, :128] = dense[4, 128:] = 1  # 32 values of lanes 0 to 3, and of lanes 16 to 19
    assert lines(assert_written(dense), 0) == 16


def test_other_permutations_of_banks_are_read():
    dense = random_sparse(64, 256, 0.9)
    A = BitmapStrips.encode(dense)
    chunk, other = chunk_bytes(A, 0), np.zeros(LINES + 64 * 128, np.uint8)
    halves = chunk[:BANKS].view(np.uint64).reshape(32, 2).tolist()
    count = [[half.bit_count() for half in lane] for lane in halves]
    banks = np.random.default_rng(1).permutation(32).tolist()
    other[:BANKS], other[BANKS:ZEROS] = chunk[:BANKS], banks
    old, most = chunk[BANKS:ZEROS].tolist(), 0
    for lane in range(32):
        for half in (0, 1):
            source, target = (old[lane], banks[lane]) if half else (lane, lane)
            for i in range(count[lane][half]):
                start = count[source][0] if half else 0, count[target][0] if half else 0
                value = chunk.view(np.uint16)[value_at(source, start[0] + i) // 2]
                other.view(np.uint16)[value_at(target, start[1] + i) // 2] = value
                most = max(most, start[1] + i + 1)
    other = other[: LINES + 128 * -(-most // 2)]
    assert np.array_equal(slow_reading(other), bits_of(dense)[:16])
    starts = A.arrays["chunk_start"].clone()
    starts[1:] += (other.size - chunk.size) // 16
    data = torch.cat([torch.from_numpy(other), A.arrays["data"][chunk.size :]])
    geometry = torch.tensor([16 * int(starts.diff().max())], dtype=torch.int32)
    arrays = {"data": data, "chunk_start": starts, "geometry": geometry}
    B = BitmapStrips(A.shape, A.dtype, arrays)
    assert same_bits(B.decode(), dense) and B.nnz == A.nnz


def test_data_may_begin_anywhere_in_memory():
    dense = random_sparse(64, 256, 0.7)
    A = BitmapStrips.encode(dense)
    for offset in (1, 2):
        moved = torch.zeros(A.arrays["data"].numel() + offset, dtype=torch.uint8)[offset:]
        arrays = {**A.arrays, "data": moved.copy_(A.arrays["data"])}
        assert same_bits(BitmapStrips(A.shape, A.dtype, arrays).decode(), dense)


# --- damage


def small() -> BitmapStrips:
    """64 x 256; its first chunk has two lines."""
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0, 0] = dense[8, 0] = dense[0, 1] = 1.0  # three values of lane 0
    A = assert_written(dense)
    assert lines(A, 0) == 2 and chunk_bytes(A, 0)[:4].tolist() == [0x80, 0x80, 0x80, 0]
    return A


def refused(A: BitmapStrips, message: str, **arrays: torch.Tensor) -> None:
    """Raise unless A with these arrays instead is refused, for that reason."""
    with pytest.raises(ValueError, match=f"invalid bitmap_strips encoding.*{message}"):
        BitmapStrips(A.shape, A.dtype, {**A.arrays, **arrays})


SIZE = "chunk 0 has a size that no chunk has"
BANK = "chunk 0 has banks that are not each one lane's"
LINES_NEEDED = "chunk 0 has other lines than its values need"
GARBAGE = "chunk 0 has a non-zero that is no value"


@pytest.mark.parametrize(
    ("at", "values", "message"),
    [
        (BANKS, [32], BANK),
        (BANKS + 31, [255], BANK),
        (BANKS, [1, 1], BANK),
        (0, [0x80, 0, 0, 0], LINES_NEEDED),  # one value: a line too many
        (0, [0xF0, 0x80, 0x80, 0], LINES_NEEDED),  # six: a line missing
        (4, [0x80, 0x40], LINES_NEEDED),  # of its word 1
        (12, [0x80, 0, 0, 0], r"chunk 0 stores a \+0"),  # of word 3, in a bank of its own
        (0, [0x80, 0x80, 0x80, 0x80], r"chunk 0 stores a \+0"),
        (value_at(0, 1), [0, 0], r"chunk 0 stores a \+0"),
        (value_at(0, 3), [1], GARBAGE),  # the half of a word that is not in use
        (value_at(31, 0), [0, 1], GARBAGE),
        (value_at(31, 3), [0, 1], GARBAGE),  # the last of the chunk
        (ZEROS, [1], GARBAGE),
        (LINES - 1, [1], GARBAGE),
    ],
)
def test_damage_is_named(at, values, message):
    A = small()
    data = A.arrays["data"].clone()
    assert data[at : at + len(values)].tolist() != values
    data[at : at + len(values)] = torch.tensor(values, dtype=torch.uint8)
    refused(A, message, data=data)


def test_a_swap_of_two_banks_of_equals_is_sound():
    A = small()
    data = A.arrays["data"].clone()
    swapped = data[BANKS + 1 : BANKS + 3].flip(0)
    data[BANKS + 1 : BANKS + 3] = swapped
    other = BitmapStrips(A.shape, A.dtype, {**A.arrays, "data": data})
    assert same_bits(other.decode(), A.decode())


@pytest.mark.parametrize("units", [8, 39, 41, 55, 57])
def test_a_wrong_size_is_found(units):
    A = small()
    starts = A.arrays["chunk_start"].clone()
    assert starts[1] == 56 != units
    starts[1] = units
    refused(A, SIZE, chunk_start=starts)


def test_a_chunk_that_is_too_large_is_found():
    A = BitmapStrips.encode(torch.ones(64, 256, dtype=torch.float16))
    starts = A.arrays["chunk_start"].clone()
    starts[1] += 8  # 65 lines
    refused(A, SIZE, chunk_start=starts)


@pytest.mark.parametrize("units", [40, 48, 64])
def test_a_size_of_other_lines_is_found(units):
    A = small()
    starts = A.arrays["chunk_start"].clone()
    starts[1] = units
    refused(A, LINES_NEEDED, chunk_start=starts)


@pytest.mark.parametrize("shape", [(100, 300), (128, 290), (80, 512)])
def test_a_weight_outside_of_the_matrix_is_found(shape):
    larger = BitmapStrips.encode(random_sparse(128, 300 if shape[1] < 301 else 512, 0.5))
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        BitmapStrips(shape, larger.dtype, larger.arrays)


def test_the_first_problem_in_order_is_named():
    A = small()
    data = A.arrays["data"].clone()
    data[ZEROS] = 1  # as a part of a non-zero that is no value
    data[value_at(0, 0) : value_at(0, 0) + 2] = 0
    refused(A, r"stores a \+0", data=data)
    data[0] = 0xFF
    refused(A, LINES_NEEDED, data=data)
    data[BANKS] = 40
    refused(A, BANK, data=data)


@pytest.mark.parametrize("constant", [0, 640, 896 - 128, 896 + 128])
def test_another_largest_chunk_is_found(constant):
    geometry = torch.tensor([constant], dtype=torch.int32)
    message = f"its largest chunk is {constant} bytes, and has 896"
    refused(small(), message, geometry=geometry)


def test_chunks_that_do_not_follow_one_another_are_found():
    A = small()
    starts = A.arrays["chunk_start"].clone()
    starts[2] = 0
    refused(A, "chunk_start does not ascend", chunk_start=starts)
    starts = A.arrays["chunk_start"].clone()
    starts[4] = 8
    refused(A, "chunk_start begins and ends with", chunk_start=starts)


# --- use


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("sparsity", [0.0, 0.6, 0.95])
def test_rounds_multiply_without_a_gpu(backend, sparsity, dtype):
    W = random_sparse(150, 700, sparsity, mean=0.5, dtype=dtype)
    B = torch.randn(700, 3).to(dtype)
    accuracy.check(spmm(BitmapStrips.encode(W), B, backend=backend), W, B)
