"""Zero-row 2:4 in strips: what damage of an encoding is called."""

import pytest
import torch

from lab_utils.formats import ZeroRow24Strips
from lab_utils.patterns import random_sparse


def refused(A: ZeroRow24Strips, name: str, at: int, value: int, message: str) -> None:
    """Raise unless `value` in an array of A is found, and named."""
    array = A.arrays[name].clone()
    array[at] = value
    with pytest.raises(ValueError, match=f"invalid zero_row_24_strips encoding.*{message}"):
        ZeroRow24Strips(A.shape, A.dtype, {**A.arrays, name: array})


ENTRY = "chunk 0 has an entry that is out of place"


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("geometry", 0, 2, "levels is 2; allowed: 0, 1"),
        ("geometry", 0, 1, "array 'chunk_start' has 17 elements, needs 25"),
        ("geometry", 1, 64, "its largest chunk is 64 bytes, and has "),
        ("geometry", 2, 1, "nonfinite is 1, its values say 0"),
        ("chunk_start", 1, 1 << 20, "chunk_start does not ascend"),
        ("chunk_start", -1, 0, "chunk_start begins and ends with"),
        ("data", 513, 0xFF, "chunk 0 has a size that its starts do not state"),
        ("data", 512, 0, "chunk 0 has a start outside of its values"),
        ("data", 0, 0, "chunk 0 has a group whose two values are not in ascending order"),
        ("data", 0, 0x22, "chunk 0 has a group whose two values are not in ascending order"),
        ("data", 576 + 2, 1, ENTRY),  # a row of B' of another place
        ("data", 576 + 3, 16, ENTRY),  # a row below the strip
        ("data", 576 + 12, 1, ENTRY),  # a value for a row of zeros
        ("data", 45812, 1, "chunk 13 has a stream that leaves it"),
        ("data", 36512, 77, "chunk 10 has two values in one place"),
        ("data", 29248, 61, "chunk 8 stores a \\+0"),
    ],
)
def test_damage_is_named(name, at, value, message):
    A = ZeroRow24Strips.encode(random_sparse(100, 200, 0.3), levels=0, reach=-1)
    refused(A, name, at, value, message)


def test_a_weight_outside_of_the_matrix_is_found():
    larger = ZeroRow24Strips.encode(random_sparse(128, 200, 0.5))
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        ZeroRow24Strips((100, 200), larger.dtype, larger.arrays)


def test_a_weight_that_is_stored_twice_is_found():
    A = ZeroRow24Strips.encode(torch.ones(1, 3, dtype=torch.float16), levels=0)
    assert A.arrays["data"][576:580].tolist() == [0, 0x3C, 0, 0]  # column 0 of row 0
    step = 576 + 4
    array = A.arrays["data"].clone()
    array[step : step + 4] = torch.tensor([0, 0x3C, 1, 0])  # column 1 as well
    with pytest.raises(ValueError, match="it stores a weight twice"):
        ZeroRow24Strips(A.shape, A.dtype, {**A.arrays, "data": array})


def test_what_a_free_slot_could_read_is_zero():
    A = ZeroRow24Strips.encode(random_sparse(100, 200, 0.9))
    end = 16 * int(A.arrays["chunk_start"][1])
    refused(A, "data", end - 1, 0x7C, "chunk 0 has a non-zero that is no value")
