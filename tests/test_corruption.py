"""A damaged encoding raises ValueError, or is the whole encoding of another matrix: no crash."""

import copy
import math
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import VARIANTS, encodings, fitting, flipped, same_bits
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

from lab_utils import spmm
from lab_utils.formats import FORMATS, Csr, Dense, SparseMatrix, encode
from lab_utils.formats.base import WEIGHT
from lab_utils.patterns import random_sparse

INDEXED = [variant for variant in VARIANTS if variant[0] != "dense"]


def with_array(A: SparseMatrix, name: str, array: torch.Tensor) -> SparseMatrix:
    return type(A)(A.shape, A.dtype, {**A.arrays, name: array})


def draw_flip(data: st.DataObject, A: SparseMatrix, names: list[str]) -> SparseMatrix:
    """A with one bit flipped in one of its arrays; raises what its constructor raises."""
    name = data.draw(st.sampled_from([n for n in names if A.arrays[n].numel()]))
    bit = data.draw(st.integers(0, 8 * A.arrays[name].nbytes - 1))
    return with_array(A, name, flipped(A.arrays[name], bit))


def index_arrays(A: SparseMatrix) -> list[str]:
    return [name for name, dtype in A.ARRAYS.items() if dtype is not WEIGHT]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_flip_in_an_index_of_tca_bme_is_found(data):
    A = data.draw(encodings("tca_bme"))
    with pytest.raises(ValueError, match="invalid tca_bme encoding"):
        draw_flip(data, A, index_arrays(A))


# In these formats an index can move to another free place, and an offset between two tiles or rows
# whose lists still increase: a whole encoding, of another matrix. Only `load` can tell.
@pytest.mark.parametrize("format, options", INDEXED)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_flip_in_an_index_is_found_or_leaves_a_whole_encoding(format, options, data):
    A = data.draw(encodings(format, **options))
    try:
        B = draw_flip(data, A, index_arrays(A))
    except ValueError as error:
        assert "invalid" in str(error)
    else:
        assert_whole(B)


def assert_whole(A: SparseMatrix) -> None:
    """`A` is what encoding its matrix gives.

    Only words of Tiled-CSL may stand in any order, columns of zero-row 2:4's extra chunks, and its
    streams and entries in many places, as words and entries of lane 2:4.
    """
    again = encode(A.decode(), A.name)
    assert same_bits(again.decode(), A.decode())
    assert A.nnz == int((A.decode().view(torch.int16) != 0).sum())
    if A.name not in ("tiled_csl", "zero_row_24", "zero_row_24_strips", "lane_24_strips"):
        for name, array in again.arrays.items():
            assert torch.equal(A.arrays[name].view(torch.uint8), array.view(torch.uint8))


@pytest.mark.parametrize("format", ["csr", "tca_bme", "2:4", "sparta"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_flip_in_the_values_is_found_or_leaves_a_whole_encoding(format, data):
    A = data.draw(encodings(format).filter(lambda A: A.nnz))
    try:
        B = draw_flip(data, A, [name for name in A.ARRAYS if name not in index_arrays(A)])
    except ValueError as error:
        assert "invalid" in str(error)
    else:
        assert_whole(B)
        assert B.nnz == A.nnz or format in ("2:4", "sparta")  # which hold zeros of their own


@pytest.mark.parametrize("format", ["csr", "tca_bme"])
def test_a_stored_zero_is_found(format):
    A = encode(random_sparse(30, 30, 0.5), format)
    A.arrays["values"][7] = 0.0
    with pytest.raises(ValueError, match=r"stores a \+0"):
        A.validate()


@pytest.mark.parametrize("format, options", VARIANTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_truncated_or_lengthened_array_is_found(format, options, data):
    A = data.draw(encodings(format, **options))
    name = data.draw(st.sampled_from(list(A.arrays)))
    array = A.arrays[name]
    length = data.draw(st.integers(0, array.numel() + 9).filter(lambda n: n != array.numel()))
    longer = torch.cat([array, torch.zeros(9, dtype=array.dtype)])
    with pytest.raises(ValueError, match="invalid"):
        with_array(A, name, longer[:length].clone())


@pytest.mark.parametrize("format, options", INDEXED)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_indices_never_crash(format, options, data):
    A = data.draw(encodings(format, **options))
    name = data.draw(st.sampled_from(index_arrays(A)))
    seed, small = data.draw(st.integers(0, 2**31)), data.draw(st.booleans())
    size, generator = A.arrays[name].nbytes, torch.Generator().manual_seed(seed)
    noise = torch.randint(4 if small else 256, (size,), generator=generator, dtype=torch.uint8)
    try:
        with_array(A, name, noise.view(A.arrays[name].dtype)).decode()
    except ValueError as error:
        assert "invalid" in str(error)


@pytest.mark.parametrize("format, options", INDEXED)
def test_a_write_after_encoding_is_found_before_the_next_use(format, options, tmp_path):
    A = encode(fitting(random_sparse(80, 80, 0.6), format), format, **options)
    offsets = A.arrays[index_arrays(A)[-1 if format == "tiled_csl" else 0]]
    # Of lane 2:4 nibbles of no group; of bitmap strips six places of a lane, not three; of coded
    # strips second halves of no word; of nested chunks, whose codes all are some, a start.
    at = 768 if options.get("streams") == "nested" else 0
    offsets[at] = -1 if offsets.dtype != torch.uint8 else 0x77
    for use in (A.decode, A.ensure_valid, A.validate, lambda: A.save(tmp_path / "a")):
        with pytest.raises(ValueError, match="invalid"):
            use()
    assert not list(tmp_path.iterdir())


def test_a_replaced_array_is_found():
    A = encode(random_sparse(8, 8, 0.5), "csr")
    A.arrays["col_idx"] = A.arrays["col_idx"] + 8
    with pytest.raises(ValueError, match="row 0 has a col_idx out of"):
        A.decode()


def test_another_shape_or_dtype_is_found():
    A = encode(random_sparse(8, 8, 0.5), "csr")
    A.shape = (10**6, 8)
    with pytest.raises(ValueError, match="'row_ptr' has 9 elements, needs 1000001"):
        A.decode()
    A.shape, A.dtype = (8, 8), torch.bfloat16
    with pytest.raises(ValueError, match="must be 1-D, contiguous, torch.bfloat16"):
        A.decode()


def test_an_array_more_or_less_is_found():
    A = encode(random_sparse(8, 8, 0.5), "csr")
    A.arrays["more"] = torch.zeros(1)
    with pytest.raises(ValueError, match="arrays .*'more'.*, needs"):
        A.decode()
    del A.arrays["more"], A.arrays["values"]
    with pytest.raises(ValueError, match="arrays .*, needs .*'values'"):
        A.decode()


def test_an_array_that_lies_elsewhere_is_found():
    A = encode(random_sparse(8, 8, 0.5), "csr")
    A.arrays["col_idx"].data = A.arrays["col_idx"] + 8  # torch does not count it as a write
    with pytest.raises(ValueError, match="row 0 has a col_idx out of"):
        A.decode()


def test_memory_that_is_gone_is_found():
    A = encode(random_sparse(8, 8, 0.5), "csr")
    A.arrays["values"].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="array 'values' is a Tensor without memory; allowed: "):
        A.decode()


WITHOUT_MEMORY = {
    "fake": lambda: FakeTensorMode().from_tensor(torch.ones(8, 8).half()),
    "wrapped": lambda: TwoTensor(torch.ones(8, 8).half(), torch.ones(8, 8).half()),
    "zeros that are nowhere": lambda: torch._efficientzerotensor(8, 8, dtype=torch.float16),
}


@pytest.mark.parametrize("case", WITHOUT_MEMORY)
def test_weights_without_memory_are_refused(case):
    with pytest.raises(ValueError, match="dense is a .* without memory; allowed: a tensor with va"):
        encode(WITHOUT_MEMORY[case](), "csr")


def test_a_copy_of_an_older_version_is_checked_anew():
    """Its state has what was validated, in whatever form that was."""
    A = encode(random_sparse(8, 8, 0.5), "csr")
    again = Csr.__new__(Csr)
    again.__setstate__({**vars(A), "_validated": ("form", "of old")})
    assert again.validated is None and not hasattr(again, "_validated")
    assert torch.equal(again.decode(), A.decode())


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda A: pickle.loads(pickle.dumps(A))]
)
def test_copies_are_checked_anew(copied):
    """An array may come to the address and the number of writes of another one."""
    A = encode(random_sparse(8, 8, 0.5), "csr")
    with torch.inference_mode():
        again = copied(A)
    assert again.validated is None
    assert torch.equal(again.decode(), A.decode())


@pytest.mark.parametrize("first", [[0], None])
def test_a_first_array_that_is_no_tensor_is_found(first):
    """Though its device is asked for before anything else."""
    A = encode(random_sparse(8, 8, 0.5), "csr")
    name = next(iter(A.arrays))
    A.arrays[name] = first
    with pytest.raises(ValueError, match=f"array '{name}' is a {type(first).__name__}; allowed"):
        spmm(A, torch.zeros(8, 1).half())
    A.arrays.clear()
    with pytest.raises(ValueError, match=r"arrays \[\], needs \['"):
        spmm(A, torch.zeros(8, 1).half())


def test_what_is_no_tensor_is_found():
    A = encode(random_sparse(8, 8, 0.5), "csr")
    A.arrays["values"] = A.arrays["values"].tolist()
    with pytest.raises(ValueError, match="array 'values' is a list; allowed: torch.Tensor"):
        A.decode()


BAD_ARRAYS = {
    "missing": ({}, r"arrays \[\], needs \['values'\]"),
    "unknown": ({"values": torch.zeros(4).half(), "x": torch.zeros(1)}, "'x'"),
    "dtype": ({"values": torch.zeros(4)}, "torch.float16; it has .*torch.float32"),
    "rank": ({"values": torch.zeros(2, 2).half()}, r"shape \(2, 2\)"),
    "strides": ({"values": torch.zeros(8).half()[::2]}, r"strides \(2,\)"),
    "numpy": ({"values": np.zeros(4, np.float16)}, "allowed: torch.Tensor"),
    "sparse": ({"values": torch.zeros(4).half().to_sparse()}, "allowed: torch.Tensor"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_the_constructor_names_what_is_wrong_with_an_array(case):
    arrays, message = BAD_ARRAYS[case]
    with pytest.raises(ValueError, match=message):
        Dense((2, 2), torch.float16, arrays)


@pytest.mark.parametrize(
    "shape",
    [(2.5, 2), ("2", 2), (2.0, 2), (2, True), (2, 2, 1), (4,), (2, None), None, 4, math.inf, "22"],
)
def test_the_constructor_refuses_shapes_that_are_not_two_integers(shape):
    said = re.escape(f"shape is {shape!r}; allowed: [M, K], two integers")
    for format in ("dense", "coded_strips"):
        A = encode(torch.ones(2, 2, dtype=torch.float16), format)
        with pytest.raises(ValueError, match=f"^{said}$"):
            type(A)(shape, A.dtype, A.arrays)


@pytest.mark.parametrize("shape", [[2, 2], torch.Size([2, 2]), (np.int16(2), np.uint8(2))])
def test_the_constructor_makes_shapes_of_python_ints(shape):
    A = encode(torch.ones(2, 2, dtype=torch.float16), "dense")
    made = type(A)(shape, A.dtype, A.arrays)
    assert made.shape == (2, 2) and [type(made.shape), *map(type, made.shape)] == [tuple, int, int]


@pytest.mark.parametrize("shape, dtype", [((0, 4), torch.float16), ((2, 2), torch.float32)])
def test_the_constructor_refuses_empty_shapes_and_other_dtypes(shape, dtype):
    with pytest.raises(ValueError, match=r"at least 1|float32; allowed"):
        Dense(shape, dtype, {"values": torch.zeros(4, dtype=dtype)})


def test_arrays_of_another_device_are_refused():
    values = torch.zeros(4, dtype=torch.float16, device="meta")
    with pytest.raises(ValueError, match="array 'values' is on meta; allowed: cpu, cuda"):
        Dense((2, 2), torch.float16, {"values": values})
    A = encode(torch.eye(2).half(), "csr").to("meta")
    with pytest.raises(RuntimeError, match="arrays are on meta; encoders run on: cpu, cuda"):
        A.decode()


def test_every_format_is_covered():
    assert {name for name, _ in INDEXED} == FORMATS.keys() - {"dense"}
