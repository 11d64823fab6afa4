"""Damage of chunks whose lanes have banks is found, and named."""

from types import ModuleType

import bitmap_strips_slow as bitmaps
import coded_strips_slow as codes
import pytest
import torch
from bank_strips_slow import chunk_bytes, damaged, other_size, refused

from lab_utils.formats.banks import BankStrips

SIZE = "chunk 0 has a size that no chunk has"
BANK = "chunk 0 has banks that are not each one lane's"
CODE = "chunk 0 has codes that no weights have"
LINES_NEEDED = "chunk 0 has other lines than its values need"
ZERO = r"chunk 0 stores a \+0"
GARBAGE = "chunk 0 has a non-zero that is no value"

# Lines of the first chunk of `small`, and how it begins.
SMALL = {bitmaps: (2, [0x80, 0x80, 0x80, 0]), codes: (3, [0x46, 0, 0, 0])}


def small(slow: ModuleType) -> BankStrips:
    """64 x 256, with three weights of lane 0: of a pair that has both, and a lone one."""
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0, 0] = dense[8, 0] = dense[0, 1] = 1.0
    A, (lines, front) = slow.SLOW.assert_written(dense), SMALL[slow]
    assert slow.SLOW.lines_in(A, 0) == lines and chunk_bytes(A, 0)[:4].tolist() == front
    return A


def of_both(of_bitmaps: list, of_codes: list) -> list[tuple]:
    """Cases, each behind its format."""
    cases = [(bitmaps, one) for one in of_bitmaps] + [(codes, one) for one in of_codes]
    return [(slow, *(one if isinstance(one, tuple) else (one,))) for slow, one in cases]


OF_BITMAPS = [
    (bitmaps.BANKS, [32], BANK),
    (bitmaps.BANKS + 31, [255], BANK),
    (bitmaps.BANKS, [1, 1], BANK),
    (0, [0x80, 0, 0, 0], LINES_NEEDED),  # one value: a line too many
    (0, [0xF0, 0x80, 0x80, 0], LINES_NEEDED),  # six: a line missing
    (4, [0x80, 0x40], LINES_NEEDED),  # of its word 1
    (12, [0x80, 0, 0, 0], ZERO),  # of word 3, in a bank of its own
    (0, [0x80, 0x80, 0x80, 0x80], ZERO),
    (bitmaps.SLOW.value_at(0, 1), [0, 0], ZERO),
    (bitmaps.SLOW.value_at(0, 3), [1], GARBAGE),  # the half of a word that is not in use
    (bitmaps.SLOW.value_at(31, 0), [0, 1], GARBAGE),
    (bitmaps.SLOW.value_at(31, 3), [0, 1], GARBAGE),  # the last of the chunk
    (bitmaps.ZEROS, [1], GARBAGE),
    (bitmaps.LINES - 1, [1], GARBAGE),
]
OF_CODES = [
    (codes.BANKS, [32], BANK),
    (codes.BANKS + 31, [255], BANK),
    (codes.BANKS, [1, 1], BANK),
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
    (codes.SLOW.value_at(0, 2), [0, 0], ZERO),
    (codes.SLOW.value_at(0, 5), [1], GARBAGE),  # the half of a word that is not in use
    (codes.SLOW.value_at(8, 0), [1], GARBAGE),  # behind the banks
    (codes.SLOW.value_at(31, 1), [0, 1], GARBAGE),
    (codes.SLOW.value_at(1, 2), [1], GARBAGE),
    (codes.SLOW.value_at(31, 5), [0, 1], GARBAGE),  # the last of the chunk
]


@pytest.mark.parametrize(("slow", "at", "values", "message"), of_both(OF_BITMAPS, OF_CODES))
def test_damage_is_named(slow, at, values, message):
    A = small(slow)
    refused(A, message, data=damaged(A, at, values))


@pytest.mark.parametrize(("slow", "units"), of_both([8, 39, 41, 55, 57], [8, 48, 55, 57, 71, 73]))
def test_a_wrong_size_is_found(slow, units):
    A = small(slow)
    refused(A, SIZE, chunk_start=other_size(A, units))


@pytest.mark.parametrize(("slow", "lines"), [(bitmaps, 65), (codes, 66)])
def test_a_chunk_that_is_too_large_is_found(slow, lines):
    A = slow.SLOW.cls.encode(torch.ones(64, 256, dtype=torch.float16))
    refused(A, SIZE, chunk_start=other_size(A, (slow.LINES + lines * 128) // 16))


@pytest.mark.parametrize(("slow", "units"), of_both([40, 48, 64], [56, 64, 80]))
def test_a_size_of_other_lines_is_found(slow, units):
    A = small(slow)
    refused(A, LINES_NEEDED, chunk_start=other_size(A, units))


# Bytes of two problems, a part of a non-zero that is no value and a zero; then those of others,
# each found before the ones that are there.
IN_ORDER = [
    (
        bitmaps,
        [(bitmaps.ZEROS, [1]), (bitmaps.SLOW.value_at(0, 0), [0, 0])],
        [(0, 0xFF, LINES_NEEDED), (bitmaps.BANKS, 40, BANK)],
    ),
    (
        codes,
        [(codes.SLOW.value_at(31, 5), [1]), (codes.SLOW.value_at(0, 2), [0, 0])],
        [(1, 0x06, LINES_NEEDED), (2, 0x01, CODE), (codes.BANKS, 40, BANK)],
    ),
]


@pytest.mark.parametrize(("slow", "garbage_and_zero", "others"), IN_ORDER)
def test_the_first_problem_in_order_is_named(slow, garbage_and_zero, others):
    A = small(slow)
    data = A.arrays["data"].clone()
    for at, values in garbage_and_zero:
        data[at : at + len(values)] = torch.tensor(values)
    refused(A, ZERO, data=data)
    for at, byte, message in others:
        data[at] = byte
        refused(A, message, data=data)
