"""Tiled-CSL against an independent, slow encoder (Flash-LLM, 4.3), and what reordering is for."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from matrices import matrices, same_bits
from torch import Tensor

from lab_utils.formats import TiledCsl
from lab_utils.patterns import PATTERNS, random_sparse


def bank(word: int) -> int:
    location = word >> 16
    return location % 64 // 2 % 32  # the low 6 bits are the swizzled column


def slow_tile(tile: Tensor, reorder: bool) -> list[int]:
    """The words of one tile [128, 64] of int16 bits."""
    words = []
    for row in range(128):
        for col in range(64):
            if value := int(tile[row, col]) & 0xFFFF:
                words.append((row * 64 + (col ^ 8 * (row % 8))) << 16 | value)
    pads = -len(words) % 4
    for _ in range(pads):
        taken = {word >> 16 for word in words}
        sizes = [sum(bank(word) == b for word in words) for b in range(32)]
        emptiest = sizes.index(min(sizes))
        free = (x for x in range(8192) if x not in taken and bank(x << 16) == emptiest)
        words.append(next(free) << 16)
    return slow_reorder(words) if reorder else words


def slow_reorder(words: list[int]) -> list[int]:
    banks = [[word for word in words if bank(word) == b] for b in range(32)]
    vectors = len(words) // 4
    rounds, tail = divmod(vectors, 32)
    out = [0] * len(words)

    def fill(start: int, lanes: int) -> None:
        for step in range(4):
            for lane in range(lanes):
                fullest = max(range(32), key=lambda b: len(banks[b]))  # the lowest of equals
                out[start + 4 * lane + step] = banks[fullest].pop()

    fill(128 * rounds, tail)
    for r in range(rounds):
        fill(128 * r, 32)
    return out


def slow_encode(dense: Tensor, reorder: bool) -> tuple[list[int], list[int]]:
    M, K = dense.shape
    padded = torch.nn.functional.pad(dense.view(torch.int16), (0, -K % 64, 0, -M % 128))
    words, offsets = [], [0]
    for rows in padded.split(128):
        for tile in rows.split(64, dim=1):
            words += slow_tile(tile, reorder)
            offsets.append(len(words) // 4)
    return words, [*offsets, offsets[-1]]


@pytest.mark.parametrize("reorder", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (129, 70), (128, 64), (40, 200)])
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.8, 0.99])
def test_every_word_is_where_the_specification_puts_it(reorder, shape, sparsity):
    dense = random_sparse(*shape, sparsity, pattern="clustered", dtype=torch.bfloat16)
    A = TiledCsl.encode(dense, reorder=reorder)
    words, offsets = slow_encode(dense, reorder)
    assert A.arrays["words"].tolist() == words
    assert A.arrays["tile_offsets"].tolist() == offsets


@pytest.mark.parametrize("missing", range(9))
def test_a_nearly_full_tile_is_padded_at_its_few_zeros(missing):
    dense = torch.ones(128, 64, dtype=torch.float16)
    holes = torch.randperm(128 * 64, generator=torch.Generator().manual_seed(0))[:missing]
    dense.view(-1)[holes] = 0
    A = TiledCsl.encode(dense)
    assert A.arrays["words"].numel() == 8192 - missing // 4 * 4
    assert same_bits(A.decode(), dense)


@settings(max_examples=40, deadline=None)
@given(dense=matrices())
def test_both_orders_hold_the_same_words(dense):
    ordered = TiledCsl.encode(dense, reorder=False).arrays
    reordered = TiledCsl.encode(dense, reorder=True).arrays
    assert torch.equal(ordered["tile_offsets"], reordered["tile_offsets"])
    for start, end in pairwise((4 * ordered["tile_offsets"]).tolist()):
        tiles = [arrays["words"][start:end].sort().values for arrays in (ordered, reordered)]
        assert torch.equal(*tiles)


def store_cost(A: TiledCsl) -> tuple[int, int]:
    """Shared-memory wavefronts to scatter A's words, and how many there would be at best.

    Lanes of a warp that store to one bank in the same step wait for each other.
    """
    cost = best = 0
    for start, end in pairwise((4 * A.arrays["tile_offsets"][:-1]).tolist()):
        for group in A.arrays["words"][start:end].split(128):
            for step in range(4):
                banks = (group[step::4] >> 17) % 32
                cost += int(torch.bincount(banks).max())
                best += 1
    return cost, best


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sparsity", [0.5, 0.8])
def test_reordering_removes_nearly_all_bank_conflicts(pattern, sparsity):
    dense = random_sparse(256, 256, sparsity, pattern=pattern)
    before, best = store_cost(TiledCsl.encode(dense, reorder=False))
    after, _ = store_cost(TiledCsl.encode(dense, reorder=True))
    assert best <= after < before
    if pattern == "random":
        assert before > 2.5 * best and after < 1.5 * best


BAD_WORDS = {
    "far location": (lambda w: w.__setitem__(0, 8192 << 16 | 1), "tile 0 has a location out of"),
    "same location": (lambda w: w.__setitem__(0, int(w[1])), "tile 0 has the same location twice"),
    "zeros": (lambda w: w[:4].bitwise_and_(~0xFFFF), "tile 0 has more words of value 0"),
}


@pytest.mark.parametrize("case", BAD_WORDS)
def test_a_bad_word_is_named(case):
    damage, message = BAD_WORDS[case]
    A = TiledCsl.encode(random_sparse(128, 64, 0.5))
    damage(A.arrays["words"])
    with pytest.raises(ValueError, match=message):
        A.validate()


def test_a_weight_outside_of_the_matrix_is_found():
    A = TiledCsl.encode(torch.ones(1, 1, dtype=torch.float16))
    value = A.arrays["words"].bitwise_and_(0xFFFF)
    A.arrays["words"].copy_(value | torch.tensor([64, 0, 1, 2]) << 16)
    with pytest.raises(ValueError, match="tile 0 has a non-zero outside of the matrix"):
        A.validate()
