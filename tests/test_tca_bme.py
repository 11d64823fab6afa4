"""TCA-BME against an independent, slow encoder (SpInfer, section 4)."""

import pytest
import torch
from torch import Tensor

from lab_utils.formats import TcaBme
from lab_utils.patterns import random_sparse


def slow_encode(dense: Tensor) -> dict[str, list[int]]:
    M, K = dense.shape
    padded = torch.nn.functional.pad(dense.view(torch.int16), (0, -K % 64, 0, -M % 64))
    out = {name: [] for name in TcaBme.ARRAYS}
    most = 0
    for rows in padded.split(64):
        for group in rows.split(64, dim=1):
            out["gt_offset"].append(len(out["values"]))
            most = max(most, slow_group(group, out))
            out["values"] += [0] * (-len(out["values"]) % 8)
    out["gt_offset"].append(len(out["values"]))
    out["max_nnz"].append((most + 63) // 64 * 64)
    return out


def slow_group(group: Tensor, out: dict[str, list[int]]) -> int:
    """Append one GroupTile [64, 64] of int16 bits; returns its non-zeros."""
    start = len(out["values"])
    for strip in group.split(16):
        out["strip_offset"].append(len(out["values"]) - start)
        for tile in strip.split(16, dim=1):
            for right in (0, 8):  # TL, BL, TR, BR: column-major
                for lower in (0, 8):
                    slow_bitmap(tile[lower : lower + 8, right : right + 8], out)
    return len(out["values"]) - start


def slow_bitmap(tile: Tensor, out: dict[str, list[int]]) -> None:
    values = tile.flatten().tolist()
    bitmap = sum(1 << i for i, value in enumerate(values) if value)
    out["bitmap"].append(bitmap - (1 << 64) * (bitmap >> 63))  # stored as int64
    out["values"] += [value for value in values if value]


@pytest.mark.parametrize("shape", [(1, 1), (64, 64), (65, 130), (200, 31)])
@pytest.mark.parametrize("sparsity", [0.0, 0.4, 0.9, 1.0])
def test_every_element_is_where_the_specification_puts_it(shape, sparsity):
    dense = random_sparse(*shape, sparsity, pattern="row_skewed")
    A = TcaBme.encode(dense)
    for name, expected in slow_encode(dense).items():
        array = A.arrays[name]
        found = array.view(torch.int16) if name == "values" else array
        assert found.tolist() == expected, name


def test_a_bit_outside_of_the_matrix_is_found():
    A = TcaBme.encode(random_sparse(60, 70, 0.5))
    B = TcaBme.encode(random_sparse(64, 70, 0.5))  # has weights in rows 60 to 63
    with pytest.raises(ValueError, match="GroupTile 0 has bitmap bits outside of the matrix"):
        TcaBme(A.shape, A.dtype, B.arrays)


def test_a_weight_in_the_padding_is_found():
    A = TcaBme.encode(torch.ones(1, 1, dtype=torch.float16))
    A.arrays["values"][1] = 2.0
    with pytest.raises(ValueError, match="GroupTile 0 has a non-zero in the padding"):
        A.decode()


@pytest.mark.parametrize("name", ["gt_offset", "strip_offset", "max_nnz"])
def test_an_offset_that_does_not_match_is_named(name):
    A = TcaBme.encode(random_sparse(64, 64, 0.5))
    A.arrays[name] += 8
    with pytest.raises(ValueError, match=f"{name} does not match the bitmaps"):
        A.decode()
