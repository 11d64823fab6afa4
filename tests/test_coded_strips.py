"""Codes of pairs: where they, words and banks stand."""

import numpy as np
import pytest
import torch
from bank_strips_slow import bits_of, chunk_bytes
from coded_strips_slow import BANKS, LINES, SLOW

# Of a chunk whose second halves have no words: banks 0 to 7 are fuller, by the word they lack.
BANKS_OF_NONE = [*range(8, 32), *range(8)]


def written(**weights: list[tuple[int, int]]) -> np.ndarray:
    """The first chunk of a matrix with `ones` there, and `twos`."""
    dense = torch.zeros(16, 256, dtype=torch.float16)
    for value, name in enumerate(("ones", "twos"), 1):
        for place in weights.get(name, ()):
            dense[place] = value
    return chunk_bytes(SLOW.assert_written(dense), 0)


def values(data: np.ndarray) -> dict[tuple[int, int], float]:
    """Those that are not zero, by bank and position."""
    numbers = data[LINES:].view(np.float16).copy()
    numbers[:16] = 0  # banks
    found = numbers.nonzero()[0].tolist()
    return {(at % 64 // 2, 2 * (at // 64) + at % 2): float(numbers[at]) for at in found}


def code_words(data: np.ndarray) -> np.ndarray:
    """Of both halves of each lane, u32 [32, 2, 3]."""
    words = data[:BANKS].view(np.uint32)
    return np.hstack([words[:128].reshape(32, 4), words[128:].reshape(32, 2)]).reshape(32, 2, 3)


@pytest.mark.parametrize("place", [(0, 0), (8, 1), (15, 255), (7, 64), (3, 142), (12, 201)])
def test_one_weight_is_where_the_drawing_puts_it(place):
    data, (row, column) = written(ones=[place]), place
    lane, half, code = 4 * (row % 8) + column % 8 // 2, column // 128, 4 + column % 2
    eight, n = column % 128 // 32, column % 32 // 8 * 2 + row // 8
    expected = np.zeros((32, 2, 3), np.uint32)
    if eight < 3:
        expected[lane, half, eight] = code << 4 * n
    else:
        expected[lane, half] = [(code >> k & 1) << 4 * n + 3 for k in range(3)]
    assert np.array_equal(code_words(data), expected)
    bank = int(data[BANKS + lane]) if half else lane
    assert values(data) == {(bank, 0 if bank > 7 else 2): 1.0}
    assert data.size == LINES + 128 * (1 if bank > 7 else 2)


def test_two_lone_weights_share_a_word_over_pairs_without_any():
    data = written(ones=[(2, 1)], twos=[(10, 120)])  # of lane 8: the first pair, and the last one
    assert values(data) == {(8, 0): 1.0, (8, 1): 2.0}
    assert code_words(data)[8, 0].tolist() == [1 << 31 | 5, 1 << 31, 1 << 31]  # 5 and 7
    assert data.size == LINES + 128


def test_no_word_takes_a_weight_from_before_a_pair_with_both():
    data = written(ones=[(2, 0), (2, 8), (2, 16)], twos=[(2, 9)])
    assert data[128:134].tolist() == [4, 6, 4, 0, 0, 0]
    assert values(data) == {(8, 0): 1.0, (8, 2): 1.0, (8, 3): 2.0, (8, 4): 1.0}


def test_three_lone_weights_take_two_words():
    data = written(ones=[(2, 0), (10, 1), (2, 9)], twos=[(2, 128)])
    assert data[128:130].tolist() == [0x34, 0x05]
    assert values(data) == {(8, 0): 1.0, (8, 1): 1.0, (8, 2): 1.0, (data[BANKS + 8], 0): 2.0}


def test_halves_share_no_word():
    data = written(ones=[(2, 127)], twos=[(2, 128)])
    assert values(data) == {(int(data[BANKS + 8]), 0): 2.0, (11, 0): 1.0}


@pytest.mark.parametrize("bank", range(32))
def test_banks_0_to_7_begin_a_line_below(bank):
    data = written(ones=[(bank // 4, 2 * (bank % 4))])
    assert values(data) == {(bank, 2 if bank < 8 else 0): 1.0}
    assert data.size == LINES + (256 if bank < 8 else 128)
    emptiest = sorted(range(32), key=lambda other: (other < 8) + (other == bank))
    assert data[BANKS : BANKS + 32].tolist() == emptiest


def test_a_word_is_behind_those_of_its_bank():
    ones = [(lane // 4, 2 * (lane % 4)) for lane in range(8, 32)]  # one word in each longer bank
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[0, 128] = dense[0, 129] = 5.0  # of lane 0
    for place in ones:
        dense[place] = 1.0
    data = chunk_bytes(SLOW.assert_written(dense), 0)
    assert data[BANKS] == 0 and data.size == LINES + 256  # all banks are as full: the lowest one
    assert data.view(np.uint16)[SLOW.value_at(0, 2) // 2] == bits_of(dense)[0, 128]
    dense[0, 0] = 1.0  # of lane 0 itself: bank 1 is the emptiest now
    data = chunk_bytes(SLOW.assert_written(dense), 0)
    assert data[BANKS] == 1 and values(data)[1, 2] == values(data)[1, 3] == 5.0


def test_a_dense_chunk_is_the_largest():
    A = SLOW.assert_written(torch.ones(64, 512, dtype=torch.float16))
    assert A.largest_chunk == LINES + 65 * 128 == 9088 and A.constants == (9088,)
    assert A.nbytes == 8 * 9088 + 4 * 9 + 4


def test_a_chunk_without_weights_has_the_line_of_banks():
    A = SLOW.assert_written(torch.zeros(1, 1, dtype=torch.float16))
    assert A.nbytes == 4 * 896 + 4 * 5 + 4 and SLOW.lines_in(A, 0) == 1
    data = chunk_bytes(A, 0)
    assert data[BANKS : BANKS + 32].tolist() == BANKS_OF_NONE
    assert data.sum() == sum(range(32))


def test_lanes_with_many_words_share_banks_with_those_that_have_few():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[2, :128] = dense[6, 128:] = 1  # 16 words of lanes 8 to 11, and of lanes 24 to 27
    assert SLOW.lines_in(SLOW.assert_written(dense), 0) == 16
