"""Codes of pairs: damage is found, and named."""

import pytest
import torch
from bank_strips_slow import chunk_bytes, damaged, other_size, refused
from coded_strips_slow import BANKS, LINES, SLOW

from lab_utils.formats import CodedStrips


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
