"""Bitmaps for each lane: where their bits and values stand."""

import numpy as np
import pytest
import torch
from bank_strips_slow import bits_of, chunk_bytes
from bitmap_strips_slow import BANKS, LINES, SLOW, ZEROS


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
