"""GPU encoder of bitmap_strips in the emulator: the CPU's bytes, and what it says of damage."""

import pytest
import torch
from emulated_encode import check, outcome
from torch import Tensor

from lab_utils.formats import SparseMatrix, encode
from lab_utils.patterns import random_sparse

BITMAPS = "bitmap_strips"


def test_bitmaps_of_several_chunks(on_gpu):
    dense = random_sparse(40, 605, 0.6, pattern="row_skewed", seed=1)
    dense[16:32, 256:512] = 1.5  # as many lines as there can be
    dense[:8, :256] = 0
    dense[3, :256] = 2.5  # four lanes with all values of two halves
    check(on_gpu, dense, BITMAPS, {})


# Offset in the first chunk, what is written there, and the number of what a check says of it.
BITMAPS_DAMAGE = [
    (512, [32], 2),  # banks
    (512, [0, 0], 2),
    (0, [255] * 16, 3),  # bits of lane 0
    (640, [0, 0], 5),  # the first value of bank 0
    (544, [1], 6),  # before lines
    (639, [1], 6),
]


def bitmaps_said(on_gpu, A: SparseMatrix, problem: int, **arrays: Tensor) -> None:
    arrays = {**A.arrays, **arrays}
    said = on_gpu(outcome, A, arrays)
    assert f"chunk 0 {A.PROBLEMS[problem]}" in said and said == outcome(A, arrays)


@pytest.mark.parametrize("at, written, problem", BITMAPS_DAMAGE)
def test_damage_of_bitmaps_is_named(on_gpu, at, written, problem):
    A = encode(random_sparse(64, 256, 0.7), BITMAPS)
    data = A.arrays["data"].clone()
    data[at : at + len(written)] = torch.tensor(written, dtype=torch.uint8)
    bitmaps_said(on_gpu, A, problem, data=data)


@pytest.mark.parametrize("units, problem", [(-1, 1), (1, 1), (8, 3), (-8, 3)])
def test_bitmaps_of_another_size_are_found(on_gpu, units, problem):
    A = encode(random_sparse(64, 256, 0.7), BITMAPS)
    starts = A.arrays["chunk_start"].clone()
    starts[1] += units
    bitmaps_said(on_gpu, A, problem, chunk_start=starts)


def test_bitmaps_values_without_a_place_are_found(on_gpu):
    whole = encode(random_sparse(16, 64, 0.5), BITMAPS)
    for shape in ((15, 64), (16, 63)):
        A = encode(torch.zeros(shape, dtype=torch.float16), BITMAPS)
        bitmaps_said(on_gpu, A, 4, **whole.arrays)


def test_bitmaps_halves_that_are_no_value_are_found(on_gpu):
    """Behind the last value of each bank that has room in the last line."""
    A = encode(random_sparse(64, 256, 0.8), BITMAPS)
    end = 16 * int(A.arrays["chunk_start"][1])
    last = A.arrays["data"][end - 128 : end].view(torch.int16)
    assert (last == 0).any()
    for half in (last == 0).nonzero().flatten().tolist():
        data = A.arrays["data"].clone()
        data[end - 128 + 2 * half] = 1
        bitmaps_said(on_gpu, A, 6, data=data)
