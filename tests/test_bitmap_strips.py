"""Bitmaps for each lane: where their bits and values stand, and which damage is named."""

import numpy as np
import pytest
import torch
from bank_strips_slow import bits_of, chunk_bytes, damaged, other_size, refused
from bitmap_strips_slow import BANKS, LINES, SLOW, ZEROS

from lab_utils.formats import BitmapStrips


@pytest.mark.parametrize("place", [(0, 0), (8, 1), (15, 255), (7, 64), (3, 142), (12, 201)])
def test_one_weight_is_where_the_drawing_puts_it(place):
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[place] = 2.0
    data = chunk_bytes(SLOW.assert_written(dense), 0)
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
    data = chunk_bytes(SLOW.assert_written(dense), 0)
    assert data[BANKS:ZEROS].tolist() == [31, *range(31)] and data.size == LINES + 128
    assert data.view(np.uint16)[SLOW.value_at(31, 0) // 2] == bits_of(dense)[0, 128]
    dense[7, 6] = 1.0  # of lane 31: all lanes have one, and lane 0 takes bank 0
    data = chunk_bytes(SLOW.assert_written(dense), 0)
    assert data[BANKS:ZEROS].tolist() == list(range(32)) and data.size == LINES + 128
    assert data.view(np.uint16)[SLOW.value_at(0, 1) // 2] == bits_of(dense)[0, 128]


def test_a_dense_chunk_is_the_largest():
    A = SLOW.assert_written(torch.ones(64, 512, dtype=torch.float16))
    assert A.largest_chunk == LINES + 64 * 128 == 8832 and A.constants == (8832,)
    assert A.nbytes == 8 * 8832 + 4 * 9 + 4


def test_a_chunk_without_weights_has_no_lines():
    A = SLOW.assert_written(torch.zeros(1, 1, dtype=torch.float16))
    assert A.nbytes == 4 * LINES + 4 * 5 + 4 and SLOW.lines_in(A, 0) == 0


def test_lanes_with_many_values_share_banks_with_those_that_have_few():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[0, :128] = dense[4, 128:] = 1  # 32 values of lanes 0 to 3, and of lanes 16 to 19
    assert SLOW.lines_in(SLOW.assert_written(dense), 0) == 16


# --- damage


def small() -> BitmapStrips:
    """64 x 256; its first chunk has two lines."""
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0, 0] = dense[8, 0] = dense[0, 1] = 1.0  # three values of lane 0
    A = SLOW.assert_written(dense)
    assert SLOW.lines_in(A, 0) == 2 and chunk_bytes(A, 0)[:4].tolist() == [0x80, 0x80, 0x80, 0]
    return A


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
        (SLOW.value_at(0, 1), [0, 0], r"chunk 0 stores a \+0"),
        (SLOW.value_at(0, 3), [1], GARBAGE),  # the half of a word that is not in use
        (SLOW.value_at(31, 0), [0, 1], GARBAGE),
        (SLOW.value_at(31, 3), [0, 1], GARBAGE),  # the last of the chunk
        (ZEROS, [1], GARBAGE),
        (LINES - 1, [1], GARBAGE),
    ],
)
def test_damage_is_named(at, values, message):
    A = small()
    refused(A, message, data=damaged(A, at, values))


@pytest.mark.parametrize("units", [8, 39, 41, 55, 57])
def test_a_wrong_size_is_found(units):
    A = small()
    refused(A, SIZE, chunk_start=other_size(A, units))


def test_a_chunk_that_is_too_large_is_found():
    A = BitmapStrips.encode(torch.ones(64, 256, dtype=torch.float16))
    refused(A, SIZE, chunk_start=other_size(A, (LINES + 65 * 128) // 16))


@pytest.mark.parametrize("units", [40, 48, 64])
def test_a_size_of_other_lines_is_found(units):
    A = small()
    refused(A, LINES_NEEDED, chunk_start=other_size(A, units))


def test_the_first_problem_in_order_is_named():
    A = small()
    data = A.arrays["data"].clone()
    data[ZEROS] = 1  # as a part of a non-zero that is no value
    data[SLOW.value_at(0, 0) : SLOW.value_at(0, 0) + 2] = 0
    refused(A, r"stores a \+0", data=data)
    data[0] = 0xFF
    refused(A, LINES_NEEDED, data=data)
    data[BANKS] = 40
    refused(A, BANK, data=data)
