"""What bitmap_strips and coded_strips promise alike: bytes, against slow ones; damage; use."""

import numpy as np
import pytest
import torch
from bank_strips_slow import SlowFormat, bits_of, chunk_bytes, refused
from bitmap_strips_slow import SLOW as BITMAPS
from coded_strips_slow import SLOW as CODES
from hypothesis import given, settings
from matrices import ODD_BITS, matrices, same_bits

from lab_utils import accuracy, spmm
from lab_utils.formats.banks import BankStrips
from lab_utils.patterns import PATTERNS, random_sparse

formats = pytest.mark.parametrize("slow", [BITMAPS, CODES], ids=lambda slow: slow.cls.name)


@formats
@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (70, 400), (150, 31), (64, 256), (3, 513)])
def test_all_bytes_are_those_of_a_slow_encoder(slow: SlowFormat, shape, sparsity):
    slow.assert_written(random_sparse(*shape, sparsity))


@formats
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_with_a_dense_tile(slow: SlowFormat, pattern):
    dense = random_sparse(120, 500, 0.8, pattern=pattern, dtype=torch.bfloat16)
    dense[30:50, 200:303] = 1.5
    slow.assert_written(dense)


@formats
@settings(max_examples=40, deadline=None)
@given(dense=matrices())
def test_any_matrix(slow: SlowFormat, dense):
    slow.assert_written(dense)


@formats
def test_values_need_not_be_finite(slow: SlowFormat):
    dense = torch.zeros(20, 300, dtype=torch.float16)
    odd = torch.tensor([bits - (bits >> 15 << 16) for bits in ODD_BITS], dtype=torch.int16)
    dense.view(torch.int16)[3, 250:261] = dense.view(torch.int16)[19, :11] = odd
    slow.assert_written(dense)


@formats
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 1.0])
@pytest.mark.parametrize("shape", [(512, 9216), (330, 5000)])
def test_bytes_are_expected(slow: SlowFormat, sparsity, shape):
    A = slow.cls.encode(random_sparse(*shape, sparsity))
    exact = sparsity in (0, 1)
    expected = slow.cls.expected_nbytes(*shape, sparsity)
    assert A.nbytes == pytest.approx(expected, rel=1e-9 if exact else 0.01)


@formats
def test_other_permutations_of_banks_are_read(slow: SlowFormat):
    dense = random_sparse(64, 256, 0.9)
    A, bits = slow.cls.encode(dense), bits_of(dense)[:16]
    chunk = chunk_bytes(A, 0)
    other = slow.chunk(bits, np.random.default_rng(1).permutation(32).tolist())
    assert np.array_equal(slow.reading(chunk), bits)
    assert np.array_equal(slow.reading(other), bits) and not np.array_equal(other, chunk)
    starts = A.arrays["chunk_start"].clone()
    starts[1:] += (other.size - chunk.size) // 16
    data = torch.cat([torch.from_numpy(other), A.arrays["data"][chunk.size :]])
    geometry = torch.tensor([16 * int(starts.diff().max())], dtype=torch.int32)
    arrays = {"data": data, "chunk_start": starts, "geometry": geometry}
    B = slow.cls(A.shape, A.dtype, arrays)
    assert same_bits(B.decode(), dense) and B.nnz == A.nnz


@formats
def test_a_swap_of_two_banks_of_equals_is_sound(slow: SlowFormat):
    A = small(slow)
    data = A.arrays["data"].clone()
    swapped = data[slow.banks + 1 : slow.banks + 3].flip(0)
    data[slow.banks + 1 : slow.banks + 3] = swapped
    other = slow.cls(A.shape, A.dtype, {**A.arrays, "data": data})
    assert same_bits(other.decode(), A.decode())


@formats
def test_data_may_begin_anywhere_in_memory(slow: SlowFormat):
    dense = random_sparse(64, 256, 0.7)
    A = slow.cls.encode(dense)
    for offset in (1, 2):
        moved = torch.zeros(A.arrays["data"].numel() + offset, dtype=torch.uint8)[offset:]
        arrays = {**A.arrays, "data": moved.copy_(A.arrays["data"])}
        assert same_bits(slow.cls(A.shape, A.dtype, arrays).decode(), dense)


# --- damage


def small(slow: SlowFormat) -> BankStrips:
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0, 0] = dense[8, 0] = dense[0, 1] = 1.0  # three values of lane 0
    return slow.assert_written(dense)


@formats
@pytest.mark.parametrize("shape", [(100, 300), (128, 290), (80, 512)])
def test_a_weight_outside_of_the_matrix_is_found(slow: SlowFormat, shape):
    larger = slow.cls.encode(random_sparse(128, 300 if shape[1] < 301 else 512, 0.5))
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        slow.cls(shape, larger.dtype, larger.arrays)


@formats
def test_another_largest_chunk_is_found(slow: SlowFormat):
    A = small(slow)
    largest = chunk_bytes(A, 0).size
    for constant in (0, slow.lines, largest - 128, largest + 128):
        geometry = torch.tensor([constant], dtype=torch.int32)
        message = f"its largest chunk is {constant} bytes, and has {largest}"
        refused(A, message, geometry=geometry)


@formats
def test_chunks_that_do_not_follow_one_another_are_found(slow: SlowFormat):
    A = small(slow)
    starts = A.arrays["chunk_start"].clone()
    starts[2] = 0
    refused(A, "chunk_start does not ascend", chunk_start=starts)
    starts = A.arrays["chunk_start"].clone()
    starts[4] = 8
    refused(A, "chunk_start begins and ends with", chunk_start=starts)


# --- use


@formats
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("sparsity", [0.0, 0.6, 0.95])
def test_rounds_multiply_without_a_gpu(slow: SlowFormat, backend, sparsity, dtype):
    W = random_sparse(150, 700, sparsity, mean=0.5, dtype=dtype)
    B = torch.randn(700, 3).to(dtype)
    accuracy.check(spmm(slow.cls.encode(W), B, backend=backend), W, B)
