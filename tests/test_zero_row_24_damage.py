"""Zero-row 2:4: what damage of an encoding is called."""

import pytest
import torch
from torch import Tensor

from lab_utils.formats import ZeroRow24
from lab_utils.patterns import random_sparse


def encoded(sparsity: float = 0.5, **options) -> ZeroRow24:
    return ZeroRow24.encode(random_sparse(100, 200, sparsity), slice_cols=96, **options)


def damaged(A: ZeroRow24, name: str, at: int, value: int) -> dict[str, Tensor]:
    arrays = {**A.arrays, name: A.arrays[name].clone()}
    arrays[name][at] = value
    return arrays


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("geometry", 0, 50, "slice_cols is 50; allowed: multiples of 48 up to 240"),
        ("geometry", 0, 288, "slice_cols is 288"),
        ("geometry", 1, 2, "levels is 2; allowed: 0, 1"),
        ("geometry", 1, 0, "chunk 2 has a start outside of its values"),
        ("geometry", 2, 4, r"streams is 4; allowed: 0 \(packed\), 1 \(pairs\), 2 \(sixes\), 3"),
        ("geometry", 2, 3, "slice_cols is 96; allowed: multiples of 72 up to 216"),
        ("geometry", 2, 2, "levels is 1; allowed of sixes: 0"),
        ("geometry", 3, 64, "its largest chunk is 64 bytes, and has "),
        ("geometry", 4, 1, "nonfinite is 1, its values say 0"),
        ("first_chunk", 0, 1, r"first_chunk begins and ends with \[1, "),
        ("first_chunk", 1, 0, "first_chunk does not ascend"),
        ("first_chunk", 1, 1, "a block has too few chunks"),
        ("chunk_start", 1, 1 << 20, "chunk_start does not ascend"),
        ("chunk_start", -1, 0, "chunk_start begins and ends with"),
        ("data", 391, 0, "chunk 0 has a size that its starts do not state"),
        ("data", 384, 0, "chunk 0 has a start outside of its values"),
        ("data", 0, 0, "chunk 0 has a group whose two values are not in ascending order"),
    ],
)
def test_damage_is_named(name, at, value, message):
    A = encoded(streams="packed", levels=1)
    with pytest.raises(ValueError, match=f"invalid zero_row_24 encoding.*{message}"):
        ZeroRow24(A.shape, A.dtype, damaged(A, name, at, value))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(6944, 211, "lists a column outside of its slice"), (371, 32, "has a stream that leaves"),
     (0, 65, "has two values in one place"), (338, 20, r"stores a \+0")],
)  # fmt: skip
def test_damage_of_extra_chunks_and_streams_is_named(at, value, message):
    options = {"slice_cols": 96, "streams": "packed", "levels": 0, "reach": -1}
    A = ZeroRow24.encode(random_sparse(100, 200, 0.5), **options)
    with pytest.raises(ValueError, match=f"invalid zero_row_24 encoding.*chunk .*{message}"):
        ZeroRow24(A.shape, A.dtype, damaged(A, "data", at, value))


def test_a_weight_outside_of_the_matrix_is_found():
    A, larger = encoded(), ZeroRow24.encode(random_sparse(128, 200, 0.5), slice_cols=96)
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        ZeroRow24(A.shape, A.dtype, larger.arrays)


def test_a_weight_that_is_stored_twice_is_found():
    A = ZeroRow24.encode(torch.ones(1, 3, dtype=torch.float16), streams="packed", levels=0)
    data = A.arrays["data"].clone()
    lists = A.arrays["chunk_start"][1] * 16 + 448
    assert data[lists : lists + 2].tolist() == [1, 0]  # the extra chunk holds column 1
    data[lists] = 0
    with pytest.raises(ValueError, match="it stores a weight twice"):
        ZeroRow24(A.shape, A.dtype, {**A.arrays, "data": data})


def test_a_chunk_of_sixes_that_ends_too_early_is_found():
    """Of one piece and without a weight: a kernel reads where a second piece would be."""
    A = ZeroRow24.encode(torch.zeros(1, 48, dtype=torch.float16), streams="sixes")
    data = A.arrays["data"]
    assert data.numel() == A.largest_chunk == 704
    short = data[:480].clone()
    short[384:448].view(torch.int16)[:] = 448 | torch.tensor([3, 3, 0, 0]).repeat(8) << 14
    arrays = {**A.arrays, "data": short, "chunk_start": torch.tensor([0, 30], dtype=torch.int32)}
    arrays["geometry"] = torch.tensor([48, 0, 2, 480, 0], dtype=torch.int32)
    with pytest.raises(ValueError, match="chunk 0 has a size that its starts do not state, or"):
        ZeroRow24(A.shape, A.dtype, arrays)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (768, 0, "chunk 0 has a start outside of its values"),
        (768 + 7, 0, "chunk 0 has a size that its starts do not state"),
        (833, 0, r"chunk 0 stores a \+0"),
        (2, 0, "chunk 0 has a group .*, or one that sends a weight where"),
    ],
)
def test_damage_of_nested_chunks_is_named(at, value, message):
    ones = random_sparse(100, 200, 0.5).ne(0).half()
    A = ZeroRow24.encode(ones, 144, "nested", -1)
    with pytest.raises(ValueError, match=message):
        ZeroRow24(A.shape, A.dtype, damaged(A, "data", at, value))


def with_code(A: ZeroRow24, chunk: int, order: int, code: int) -> dict[str, Tensor]:
    """A's arrays with another code for a group of tile 0's first stream."""
    data, begin = A.arrays["data"].clone(), 16 * int(A.arrays["chunk_start"][chunk])
    lane = order // 8 if order < 32 else 32 + order // 8 - 4
    planes = data[begin + 16 * lane :][:16].view(torch.int32)
    for bit in range(4):
        planes[bit] &= ~(1 << 4 * (order % 8))
        planes[bit] |= (code >> bit & 1) << 4 * (order % 8)
    return {**A.arrays, "data": data}


def test_weights_sent_to_no_place_are_found():
    """Of three groups of one of level 1's, of which one has not three weights; of extra chunks."""
    dense = torch.zeros(64, 72, dtype=torch.float16)
    dense[:2, :15] = 1
    A = ZeroRow24.encode(dense, streams="nested", reach=-1)
    for chunk, order, code in ((0, 0, 1), (0, 16, 1), (0, 32, 1), (1, 0, 1)):
        with pytest.raises(ValueError, match=f"chunk {chunk} has .* sends a weight where level 1"):
            ZeroRow24(A.shape, A.dtype, with_code(A, chunk, order, code))


def test_lists_read_as_values_are_found():
    A = encoded(levels=0)
    geometry = A.arrays["geometry"].clone()
    geometry[1] = 1  # extra chunks become those of level 1
    with pytest.raises(ValueError, match="has a non-zero that is no value"):
        ZeroRow24(A.shape, A.dtype, {**A.arrays, "geometry": geometry})


def test_what_a_free_slot_could_read_is_zero():
    A = encoded(0.9)
    data = A.arrays["data"].clone()
    data[16 * int(A.arrays["chunk_start"][1]) - 1] = 0x7C  # infinity, behind the last stream
    with pytest.raises(ValueError, match="chunk 0 has a non-zero that is no value"):
        ZeroRow24(A.shape, A.dtype, {**A.arrays, "data": data})
