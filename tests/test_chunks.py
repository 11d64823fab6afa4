"""What formats of chunks share: sizes of chunks, and numbers of a launch by their names."""

import pytest
import torch

from lab_utils.formats import BitmapStrips, CodedStrips, Lane24Strips, ZeroRow24, ZeroRow24Strips
from lab_utils.formats.chunks import START_BYTES, Chunks
from lab_utils.patterns import random_sparse

formats = pytest.mark.parametrize(
    "cls", [ZeroRow24, ZeroRow24Strips, Lane24Strips, BitmapStrips, CodedStrips]
)


def test_a_format_of_chunks_says_how_large_they_are() -> None:
    given = {name: lambda self: None for name in Chunks.__abstractmethods__ - {"largest_chunk"}}
    with pytest.raises(TypeError, match="abstract.*largest_chunk"):
        type("Silent", (Chunks,), given).of_valid((1, 1), torch.float16, {})


@formats
def test_the_largest_chunk_is_that_of_the_encoding(cls: type[Chunks]) -> None:
    A = cls.encode(random_sparse(130, 500, 0.6))
    assert A.largest_chunk == START_BYTES * int(A.arrays["chunk_start"].diff().max())
    assert 0 < A.largest_copy <= A.largest_chunk


@formats
def test_constants_have_names(cls: type[Chunks]) -> None:
    A = cls.encode(random_sparse(130, 500, 0.6))
    read = cls(A.shape, A.dtype, A.arrays)
    given = cls.of_valid(A.shape, A.dtype, A.arrays, list(A.constants))  # as an operator sees it
    assert A.geometry == read.geometry == given.geometry == A.constants
    named = A.geometry._asdict()
    assert named == {name: getattr(A, name) for name in named}
    assert list(named.values()) == A.arrays["geometry"].tolist()


@formats
def test_names_follow_arrays_that_are_changed_in_place(cls: type[Chunks]) -> None:
    A, other = (cls.encode(random_sparse(64, 192, sparsity)) for sparsity in (0.9, 0.0))
    assert A.geometry != other.geometry
    A.arrays = other.clone().arrays
    A.ensure_valid()
    assert A.geometry == other.geometry


@formats
def test_nobody_counts_where_damaged_offsets_say(cls: type[Chunks]) -> None:
    A = cls.encode(random_sparse(64, 1200, 0.5))
    A.arrays["chunk_start"][1] = 2**30
    for count in (lambda: A.nnz, lambda: A.sparsity, lambda: repr(A)):
        with pytest.raises(ValueError, match="chunk_start does not ascend"):
            count()
