"""2:4 in strips, a word for each lane: damage is found, and named."""

import numpy as np
import pytest
import torch
from lane_24_slow import HEADER, PRESENT, STEPS, chunk_bytes, lines_and_steps

from lab_utils.formats import Lane24Strips
from lab_utils.patterns import random_sparse


def eleven_steps() -> Lane24Strips:
    """64x256; its first chunk has 27 lines, 7 near and 4 far steps, the last one not full."""
    return Lane24Strips.encode(random_sparse(64, 256, 0.7))


def refused(A: Lane24Strips, name: str, at: int, values: list[int], message: str) -> None:
    """Raise unless `values`, from element `at` of an array of A on, are found, and named."""
    array = A.arrays[name].clone()
    assert array[at : at + len(values)].tolist() != values
    array[at : at + len(values)] = torch.tensor(values).to(array.dtype)
    with pytest.raises(ValueError, match=f"invalid lane_24_strips encoding.*{message}"):
        Lane24Strips(A.shape, A.dtype, {**A.arrays, name: array})


SIZE = "chunk 0 has a size that its header does not state"
ENTRY = "chunk 0 has an entry that is out of place"
ORDER = "chunk 0 has a group whose two values are not in ascending order"
GARBAGE = "chunk 0 has a non-zero that is no value"


def test_data_may_begin_anywhere_in_memory():
    A = eleven_steps()
    for offset in (1, 2):
        moved = torch.zeros(A.arrays["data"].numel() + offset, dtype=torch.uint8)[offset:]
        arrays = {**A.arrays, "data": moved.copy_(A.arrays["data"])}
        assert Lane24Strips(A.shape, A.dtype, arrays).constants == A.constants


LINES = 1024  # where they begin after seven near steps
FAR = LINES + 27 * 128


@pytest.mark.parametrize(
    ("name", "at", "values", "message"),
    [
        ("geometry", 0, [128], "its largest copy is 128 bytes, and has "),
        ("chunk_start", 2, [0], "chunk_start does not ascend"),
        ("chunk_start", 4, [8], "chunk_start begins and ends with"),
        ("data", 640, [0x80], SIZE),  # lines begin elsewhere
        ("data", 642, [14], SIZE),  # three steps more, one line less
        ("data", 643, [255], SIZE),
        ("data", 644, [0, 0], SIZE),  # far steps without an offset
        ("data", 512, [0xFF] * 4, "chunk 0 has more words in a lane than lines"),
        ("data", 642, [12], ENTRY),  # a step more, for which there is room
        ("data", 656, [0, 0], ENTRY),  # a value of +0
        ("data", 656 + 16, [0, 0], ENTRY),  # not in use, in front of some that are
        ("data", 656 + 16, [3, 0], ENTRY),  # two rows
        ("data", 656 + 33, [1], ENTRY),  # a column of another chunk
        ("data", FAR + 3 * 48 + 14, [1], ENTRY),  # a value of an entry that is not in use
        ("data", FAR + 3 * 48 + 46, [0xFF], ENTRY),  # its column
        ("data", 0, [0x00], ORDER),
        ("data", 0, [0x11], ORDER),
        ("data", LINES, [0, 0, 0, 0], r"chunk 0 stores a \+0"),
        ("data", 648, [1], GARBAGE),
        ("data", 655, [1], GARBAGE),
        ("data", LINES - 1, [1], GARBAGE),
        ("data", FAR + 4 * 48, [1], GARBAGE),  # behind far steps
        ("data", FAR + 2 * 128 - 1, [1], GARBAGE),
    ],
)
def test_damage_is_named(name, at, values, message):
    A = eleven_steps()
    assert lines_and_steps(A, 0) == (27, 11)
    refused(A, name, at, values, message)


def test_a_wrong_size_is_found():
    A = eleven_steps()
    units = int(A.arrays["chunk_start"][1])
    for wrong in (8, 41, units - 8, units - 1, units + 1, units + 8):
        starts = A.arrays["chunk_start"].clone()
        starts[1] = wrong
        arrays = {**A.arrays, "chunk_start": starts}
        with pytest.raises(ValueError, match=SIZE):
            Lane24Strips(A.shape, A.dtype, arrays)


def test_a_group_without_a_word_has_the_first_two_indices():
    A = Lane24Strips.encode(torch.zeros(64, 256, dtype=torch.float16))
    for nibbles in (0x48, 0x84, 0xE4):
        refused(A, "data", 5, [nibbles], ORDER)


def test_a_line_behind_the_words_of_a_lane_is_zero():
    A = eleven_steps()
    data = chunk_bytes(A, 0)
    lane = next(i for i in range(32) if words_of(data, i) < 27)
    refused(A, "data", LINES + 128 * words_of(data, lane) + 4 * lane, [1], GARBAGE)


def words_of(chunk: np.ndarray, lane: int) -> int:
    return int(chunk[PRESENT:HEADER].view(np.uint32)[lane]).bit_count()


@pytest.mark.parametrize("shape", [(100, 300), (128, 290), (80, 512)])
def test_a_weight_outside_of_the_matrix_is_found(shape):
    larger = Lane24Strips.encode(random_sparse(128, 300 if shape[1] < 301 else 512, 0.5))
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        Lane24Strips(shape, larger.dtype, larger.arrays)


def test_a_weight_that_is_stored_twice_is_found():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[:, :2] = dense[0, 2:4] = 1
    A = Lane24Strips.encode(dense)
    step = A.arrays["data"][STEPS : STEPS + 48].view(torch.int16).view(3, 8)
    assert step[2].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]  # entries; the word has columns 2 and 3
    for column in (0, 2):
        refused(A, "data", STEPS + 34, [column], "it stores a weight twice")
