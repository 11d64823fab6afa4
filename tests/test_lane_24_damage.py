"""2:4 in strips, words for each lane: damage is found, and named."""

import pytest
import torch
from lane_24_slow import BANKS, STEPS, lines_and_steps, steps_of, words_of_banks
from lane_24_unused import UNUSED, damaged, of_row_0

from lab_utils.formats import Lane24Strips
from lab_utils.patterns import random_sparse


def sixteen_steps() -> Lane24Strips:
    """64x256; its first chunk has 23 lines, three fours and 4 far steps, the last one not full."""
    return Lane24Strips.encode(random_sparse(64, 256, 0.65, seed=21))


def refused(A: Lane24Strips, name: str, at: int, values: list[int], message: str) -> None:
    """Raise unless `values`, from element `at` of an array of A on, are found, and named."""
    array = A.arrays[name].clone()
    assert array[at : at + len(values)].tolist() != values
    array[at : at + len(values)] = torch.tensor(values).to(array.dtype)
    with pytest.raises(ValueError, match=f"invalid lane_24_strips encoding.*{message}"):
        Lane24Strips(A.shape, A.dtype, {**A.arrays, name: array})


SIZE = "chunk 0 has a size that its header does not state"
BANK = "chunk 0 has banks that are not each one lane's"
ENTRY = "chunk 0 has an entry that is out of place"
INDEX = "chunk 0 has a group whose indices do not say what it has"
HALF = "chunk 0 has a second half of a word that no group has begun"
GARBAGE = "chunk 0 has a non-zero that is no value"


def test_data_may_begin_anywhere_in_memory():
    A = sixteen_steps()
    for offset in (1, 2):
        moved = torch.zeros(A.arrays["data"].numel() + offset, dtype=torch.uint8)[offset:]
        arrays = {**A.arrays, "data": moved.copy_(A.arrays["data"])}
        assert Lane24Strips(A.shape, A.dtype, arrays).constants == A.constants


FOURS = STEPS + 12 * 40  # where their metadata begin, after twelve near steps
LINES = 1408
FAR = LINES + 23 * 128


@pytest.mark.parametrize(
    ("name", "at", "values", "message"),
    [
        ("geometry", 0, [128], "its largest copy is 128 bytes, and has "),
        ("chunk_start", 2, [0], "chunk_start does not ascend"),
        ("chunk_start", 4, [8], "chunk_start begins and ends with"),
        ("data", 768, [0], SIZE),  # lines begin elsewhere
        ("data", 770, [0xF0], SIZE),  # three steps more, one line less
        ("data", 770, [0x31], SIZE),  # a near step more
        ("data", 771, [255], SIZE),
        ("data", 772, [0, 0], SIZE),  # far steps without an offset
        ("data", BANKS, [32], BANK),
        ("data", BANKS, [0, 0], BANK),
        ("data", 512, [0, 0x80, 0, 0], HALF),
        ("data", 512, [0x80, 0x40, 0x80, 0x80], HALF),  # its word is full
        ("data", 512, [0x80, 0x40, 0, 0x80], HALF),  # two share it already
        ("data", 640 + 4 * 8, [0, 0x80, 0, 0], HALF),  # begun in step 0
        ("data", 512, [0xFF] * 4, "chunk 0 has more words in a bank than lines"),
        ("data", 770, [0x70], ENTRY),  # a step more, for which there is room
        ("data", 770, [0x24], ENTRY),  # two fours, where there is room for three
        ("data", 770, [0x0C], ENTRY),  # none, but metadata of three
        ("data", FOURS, [0xFF], ENTRY),
        ("data", FOURS + 95, [0xFF], ENTRY),
        ("data", STEPS, [0, 0], ENTRY),  # a value of +0
        ("data", STEPS + 4, [0, 0], ENTRY),  # not in use, in front of some that are
        ("data", STEPS + 4, [3, 0], ENTRY),  # two rows
        ("data", FAR + 3 * 40 + 26, [1], ENTRY),  # a value of an entry that is not in use
        ("data", FAR + 3 * 40 + 39, [0xFF], ENTRY),  # its column
        ("data", 0, [0x77], INDEX),
        ("data", 0, [0x22], INDEX),  # of two groups without weights
        ("data", LINES, [0, 0, 0, 0], r"chunk 0 stores a \+0"),
        ("data", LINES - 1, [1], GARBAGE),
        ("data", FAR + 4 * 40, [1], GARBAGE),  # behind far steps
        ("data", FAR + 2 * 128 - 1, [1], GARBAGE),
    ],
)
def test_damage_is_named(name, at, values, message):
    A = sixteen_steps()
    assert lines_and_steps(A, 0) == (23, 16)
    refused(A, name, at, values, message)


def test_entries_of_a_four_stand_in_the_order_of_their_rows():
    A = sixteen_steps()
    step = A.arrays["data"][STEPS : STEPS + 40]
    exchanged = step.clone()  # the second and the third one: places 1 and 4
    for a, b, size in ((2, 16, 2), (6, 20, 2), (33, 36, 1)):  # values, rows, columns
        exchanged[a : a + size], exchanged[b : b + size] = step[b : b + size], step[a : a + size]
    refused(A, "data", STEPS, exchanged.tolist(), ENTRY)


@pytest.mark.parametrize(("groups", "damage"), UNUSED)
def test_entries_that_are_not_in_use_say_what_they_are(groups, damage):
    A = of_row_0(groups)
    rows = A.arrays["data"][STEPS + 120 :][:32].view(torch.int16).view(4, 2, 2)[:, 1]
    assert steps_of(A, 0) == (4, 0, 0) and rows.bool().all() == rows.bool().any() == (groups > 9)
    with pytest.raises(ValueError, match=ENTRY):
        Lane24Strips(A.shape, A.dtype, damaged(A, damage))


def test_a_wrong_size_is_found():
    A = sixteen_steps()
    units = int(A.arrays["chunk_start"][1])
    for wrong in (8, 49, units - 8, units - 1, units + 1, units + 8):
        starts = A.arrays["chunk_start"].clone()
        starts[1] = wrong
        arrays = {**A.arrays, "chunk_start": starts}
        with pytest.raises(ValueError, match=SIZE):
            Lane24Strips(A.shape, A.dtype, arrays)


def test_a_group_without_a_word_has_a_nibble_of_its_own():
    A = Lane24Strips.encode(torch.zeros(64, 256, dtype=torch.float16))
    for nibbles in (0x27, 0x72, 0x44):
        refused(A, "data", 5, [nibbles], INDEX)


def test_a_line_behind_the_words_of_a_bank_is_zero():
    A = sixteen_steps()
    bank, words = next(item for item in words_of_banks(A, 0).items() if item[1] < 23)
    refused(A, "data", LINES + 128 * words + 4 * bank, [1], GARBAGE)


@pytest.mark.parametrize("shape", [(100, 300), (128, 290), (80, 512)])
def test_a_weight_outside_of_the_matrix_is_found(shape):
    larger = Lane24Strips.encode(random_sparse(128, 300 if shape[1] < 301 else 512, 0.5))
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        Lane24Strips(shape, larger.dtype, larger.arrays)


def test_a_weight_that_is_stored_twice_is_found():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[:, :2] = dense[0, 2:4] = 1
    A = Lane24Strips.encode(dense)
    columns = A.arrays["data"][STEPS + 32 : STEPS + 40]
    assert columns.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]  # entries; the word has columns 2 and 3
    for column in (0, 2):
        refused(A, "data", STEPS + 33, [column], "it stores a weight twice")
