"""Codes of pairs: where they, words and banks stand, and which damage is named."""

import numpy as np
import pytest
import torch
from bank_strips_slow import bits_of, chunk_bytes, damaged, other_size, refused
from coded_strips_slow import BANKS, LINES, SLOW

from lab_utils.formats import CodedStrips

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


# --- damage


def small() -> CodedStrips:
    """64 x 256; its first chunk has three lines."""
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0, 0] = dense[8, 0] = dense[0, 1] = 1.0  # a pair with both and a lone weight of lane 0
    A = SLOW.assert_written(dense)
    assert SLOW.lines_in(A, 0) == 3 and chunk_bytes(A, 0)[:4].tolist() == [0x46, 0, 0, 0]
    return A


SIZE = "chunk 0 has a size that no chunk has"
BANK = "chunk 0 has banks that are not each one lane's"
CODE = "chunk 0 has codes that no weights have"
LINES_NEEDED = "chunk 0 has other lines than its values need"
ZERO = r"chunk 0 stores a \+0"
GARBAGE = "chunk 0 has a non-zero that is no value"


@pytest.mark.parametrize(
    ("at", "values", "message"),
    [
        (BANKS, [32], BANK),
        (BANKS + 31, [255], BANK),
        (BANKS, [1, 1], BANK),
        (0, [0x16], CODE),  # 1 and 2 are no codes
        (0, [0x26], CODE),
        (0, [0x47], CODE),  # no word to take the second half of
        (0, [0x43], CODE),
        (0, [0x76], CODE),  # none that has room
        (0, [0x36], CODE),
        (0, [0x44], CODE),  # a new word, though the last one has room
        (0, [0x54], CODE),
        (0, [0x74, 0x07], CODE),  # a third weight of a word
        (0, [0x4E], CODE),  # as the code of pair 24: 1
        (4, [0x08], CODE),  # 2
        (8, [0x08], CODE),  # 4, though a word has room
        (12, [0x01], CODE),  # of its second half
        (512, [0x10], CODE),
        (0, [0x06], LINES_NEEDED),  # one word: a line too many
        (0, [0x46, 0x06], LINES_NEEDED),  # three: a line missing
        (767, [0x80], LINES_NEEDED),  # 4 as the last code of all, in the longest bank
        (0, [0x46, 0x07], ZERO),
        (0, [0x66], ZERO),
        (12, [0x04], ZERO),  # of its second half, in a bank of its own
        (SLOW.value_at(0, 2), [0, 0], ZERO),
        (SLOW.value_at(0, 5), [1], GARBAGE),  # the half of a word that is not in use
        (SLOW.value_at(8, 0), [1], GARBAGE),  # behind the banks
        (SLOW.value_at(31, 1), [0, 1], GARBAGE),
        (SLOW.value_at(1, 2), [1], GARBAGE),
        (SLOW.value_at(31, 5), [0, 1], GARBAGE),  # the last of the chunk
    ],
)
def test_damage_is_named(at, values, message):
    A = small()
    refused(A, message, data=damaged(A, at, values))


@pytest.mark.parametrize("units", [8, 48, 55, 57, 71, 73])
def test_a_wrong_size_is_found(units):
    A = small()
    refused(A, SIZE, chunk_start=other_size(A, units))


def test_a_chunk_that_is_too_large_is_found():
    A = CodedStrips.encode(torch.ones(64, 256, dtype=torch.float16))
    refused(A, SIZE, chunk_start=other_size(A, (LINES + 66 * 128) // 16))


@pytest.mark.parametrize("units", [56, 64, 80])
def test_a_size_of_other_lines_is_found(units):
    A = small()
    refused(A, LINES_NEEDED, chunk_start=other_size(A, units))


def test_the_first_problem_in_order_is_named():
    A = small()
    data = A.arrays["data"].clone()
    data[SLOW.value_at(31, 5)] = 1  # as a part of a non-zero that is no value
    data[SLOW.value_at(0, 2) : SLOW.value_at(0, 2) + 2] = 0
    refused(A, ZERO, data=data)
    data[1] = 0x06
    refused(A, LINES_NEEDED, data=data)
    data[2] = 0x01
    refused(A, CODE, data=data)
    data[BANKS] = 40
    refused(A, BANK, data=data)
