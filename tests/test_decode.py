"""Decoding into memory of the caller's: the whole matrix, or some of its rows."""

import numpy as np
import pytest
import torch
from matrices import VARIANTS, fitting, same_bits

from lab_utils.formats import FORMATS, encode
from lab_utils.patterns import random_sparse


@pytest.mark.parametrize("format", FORMATS)
def test_decodes_into_memory_that_is_given(format):
    dense = random_sparse(70, 90, 0.6)
    A, out = encode(fitting(dense, format), format), torch.full((70, 90), torch.nan).half()
    assert A.decode(out=out) is out and same_bits(out, A.decode())
    for wrong in (out.T, out.float(), out[:, ::2], out[1:], "x", out[0], out.to_sparse()):
        with pytest.raises(ValueError, match=r"out (is|has) .*; allowed: .*(70, 90|rows, K)"):
            A.decode(out=wrong)


@pytest.mark.parametrize("format", ["dense", "tca_bme"])
def test_does_not_decode_into_its_own_memory(format):
    A = encode(random_sparse(64, 64, 0.5), format)
    before, own = A.decode(), next(one for one in A.arrays.values() if one.dtype == A.dtype)
    storage = own.new_empty(0).set_(own.untyped_storage())
    out = storage.resize_(64 * 64).view(64, 64)
    for decode in (lambda: A.decode(out), lambda: A.decode_rows(0, out)):
        with pytest.raises(ValueError, match="out shares memory with A; allowed: memory of its"):
            decode()
    assert same_bits(A.decode(), before)


@pytest.mark.parametrize("format, options", VARIANTS)
def test_decodes_a_part_of_the_rows(format, options):
    dense = fitting(random_sparse(300, 210, 0.6), format)
    A = encode(dense, format, **options)
    block = A.ROW_BLOCK
    for first, rows in ((0, 300), (0, block), (block, 300 - block), (2 * block, 300 - 2 * block)):
        out = torch.full((rows, 210), torch.nan).to(dense.dtype)
        assert A.decode_rows(np.uint8(first) if first < 256 else first, out) is out
        assert same_bits(out, dense[first : first + rows].contiguous())
    wrong = [(0, 301), (300, 1), (-block, block), (0, 0), ("0", 300), (0.0, 300), (None, 300)]
    wrong += [(1, 299), (0, block + 1)] if block > 1 else []
    for first, rows in wrong:
        with pytest.raises(ValueError, match=f"first={first!r}, {rows} rows of 300; allowed: mult"):
            A.decode_rows(first, torch.empty(rows, 210, dtype=dense.dtype))
    for out in (torch.empty(300, 211, dtype=dense.dtype), "x", dense[0], dense.to_sparse()):
        with pytest.raises(ValueError, match=r"out (is|has) .*; allowed: "):
            A.decode_rows(0, out)


def test_two_storages_of_one_buffer_are_one_memory():
    buffer = np.zeros(3 * 64 * 64, np.float16)
    A = encode(random_sparse(64, 64, 0.5), "dense")
    name = next(iter(A.arrays))
    own = torch.from_numpy(buffer[4096:8192]).copy_(A.arrays[name])
    A.arrays[name] = own
    with pytest.raises(ValueError, match="out shares memory with A"):
        A.decode(torch.from_numpy(buffer[2048:6144]).view(64, 64))
    A.decode(torch.from_numpy(buffer[8192:]).view(64, 64))
