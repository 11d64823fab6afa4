"""GPU encoders of bitmap_strips and coded_strips in the emulator: the CPU's bytes, and what they
say of damage."""

import pytest
import torch
from emulated_encode import check, outcome
from torch import Tensor

from lab_utils.formats import SparseMatrix, encode
from lab_utils.patterns import random_sparse

BITMAPS, CODES = "bitmap_strips", "coded_strips"
MOST_BYTES = {BITMAPS: 640 + 64 * 128, CODES: 768 + 65 * 128}  # of a chunk

formats = pytest.mark.parametrize("format", MOST_BYTES)


@formats
def test_several_chunks(on_gpu, format):
    dense = random_sparse(40, 605, 0.6, pattern="row_skewed", seed=1)
    dense[16:32, 256:512] = 1.5  # as many lines as there can be
    dense[:8, :256] = 0
    dense[3, :256] = 2.5  # four lanes with all values of two halves
    assert check(on_gpu, dense, format, {}).largest_chunk == MOST_BYTES[format]


def test_weights_that_wait_for_others_in_their_words(on_gpu):
    """First, second, no and both weights of pairs in any order: a row's neighbours are a pair."""
    has = torch.randint(4, (64, 256), generator=torch.Generator().manual_seed(0))
    dense = torch.stack([has & 1, has & 2], 2).view(64, 512).half()
    check(on_gpu, dense, CODES, {})
    check(on_gpu, dense * (torch.arange(512) % 2), CODES, {})  # at most one of each pair


# Offset in the first chunk, what is written there, and the number of what a check says of it.
DAMAGE = {
    BITMAPS: [
        (512, [32], 2),  # banks
        (512, [0, 0], 2),
        (0, [255] * 16, 3),  # bits of lane 0
        (640, [0, 0], 5),  # the first value of bank 0
        (544, [1], 6),  # before lines
        (639, [1], 6),
    ],
    CODES: [
        (768, [32], 2),  # banks
        (768, [0, 0], 2),
        (0, [119] * 16, 7),  # weights of lane 0 in words that none has begun
        (12, [17], 7),  # a code that there is not, in its second half
        (767, [255], 7),
        (0, [102] * 4 + [238] * 8, 3),  # both weights of all pairs of lane 0's first half
        (800, [0, 0], 5),  # the first value of bank 8, and of bank 0
        (896, [0, 0], 5),
    ],
}


def said_of(on_gpu, A: SparseMatrix, problem: int, **arrays: Tensor) -> None:
    """Raise unless both find that problem in the first chunk of A with these arrays instead."""
    arrays = {**A.arrays, **arrays}
    said = on_gpu(outcome, A, arrays)
    assert f"chunk 0 {A.PROBLEMS[problem]}" in said and said == outcome(A, arrays)


@pytest.mark.parametrize(
    "format, at, written, problem", [(name, *one) for name in DAMAGE for one in DAMAGE[name]]
)
def test_damage_is_named(on_gpu, format, at, written, problem):
    A = encode(random_sparse(64, 256, 0.7), format)
    data = A.arrays["data"].clone()
    data[at : at + len(written)] = torch.tensor(written, dtype=torch.uint8)
    said_of(on_gpu, A, problem, data=data)


@formats
@pytest.mark.parametrize("units, problem", [(-1, 1), (1, 1), (8, 3), (-8, 3)])
def test_another_size_is_found(on_gpu, format, units, problem):
    A = encode(random_sparse(64, 256, 0.7), format)
    starts = A.arrays["chunk_start"].clone()
    starts[1] += units
    said_of(on_gpu, A, problem, chunk_start=starts)


@formats
@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_a_size_that_no_chunk_has_is_found(on_gpu, format, sparsity):
    """A line less than chunks without weights have, or one more than those with all have."""
    A = encode(random_sparse(64, 256, sparsity), format)
    starts = A.arrays["chunk_start"].clone()
    starts[1] += -8 if sparsity == 1 else 8
    said_of(on_gpu, A, 1, chunk_start=starts)


@formats
def test_values_without_a_place_are_found(on_gpu, format):
    whole = encode(random_sparse(16, 64, 0.5), format)
    for shape in ((15, 64), (16, 63)):
        A = encode(torch.zeros(shape, dtype=torch.float16), format)
        said_of(on_gpu, A, 4, **whole.arrays)


@formats
def test_halves_that_are_no_value_are_found(on_gpu, format):
    """Behind the last value of each bank that has room in the last line."""
    A = encode(random_sparse(64, 256, 0.8), format)
    end = 16 * int(A.arrays["chunk_start"][1])
    last = A.arrays["data"][end - 128 : end].view(torch.int16)
    assert (last == 0).any()
    for half in (last == 0).nonzero().flatten().tolist():
        data = A.arrays["data"].clone()
        data[end - 128 + 2 * half] = 1
        said_of(on_gpu, A, 6, data=data)


def test_codes_that_weights_do_not_have_are_found(on_gpu):
    """Any bit of any code may differ, which is found unless other weights have such codes."""
    A, said = encode(random_sparse(64, 256, 0.5), CODES), set()
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        at = int(torch.randint(768, (), generator=generator))
        data = A.arrays["data"].clone()
        data[at] ^= 1 << int(torch.randint(8, (), generator=generator))
        arrays = {**A.arrays, "data": data}
        expected = outcome(A, arrays)
        assert on_gpu(outcome, A, arrays) == expected
        said.add(expected)
    assert any(A.PROBLEMS[7] in one for one in said) and len(said) > 1
