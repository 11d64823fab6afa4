"""Who multiplies what by tiles: everything once, in equal shares, in each of three ways."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_utils.backends import tile_shares
from lab_utils.backends.row_blocks import Shares
from lab_utils.backends.tile_shares import shares_of


def segments_of(shares: Shares) -> list[list[list[int]]]:
    """Of each pair: row block, first and last round, slot."""
    segments, ends = shares.segments.tolist(), shares.first_segment.tolist()
    return [segments[first:end] for first, end in itertools.pairwise(ends)]


def parts_of(shares: Shares) -> list[list[list[int]]]:
    """Those of row blocks that several pairs have."""
    return [[one for one in own if one[-1] >= 0] for own in segments_of(shares)]


# Columns of A and of a thread block for which each way is taken, of many pairs.
WAYS = {"whole": (1, 384), "in a row": (9000, 160), "side by side": (1 << 20, 384)}


@given(
    st.sampled_from(list(WAYS)), st.integers(1, 120), st.integers(1, 12), st.integers(1, 150)
)  # fmt: skip
def test_shares_are_everything_once(way, rows, rounds, pairs) -> None:
    """Parts of row blocks have slots side by side, in order, and come first."""
    pairs = min(pairs, rows * rounds)
    shares = shares_of(rows, rounds, pairs, *WAYS[way])
    done, parts = torch.zeros(rows, rounds), {}
    for own in segments_of(shares):
        stored = [slot >= 0 for *_, slot in own]
        assert stored == sorted(stored, reverse=True)
        for row, first, last, slot in own:
            done[row, first:last] += 1
            assert first < last and (slot == -1) == (last - first == rounds)
            if slot >= 0:
                parts.setdefault(row, []).append((first, slot))
    assert bool((done == 1).all())
    assert shares.first_segment[-1] == len(shares.segments)
    assert len(shares.first_segment) == pairs + 1
    slots = {row: [slot for _, slot in sorted(own)] for row, own in parts.items()}
    found = {row: list(range(first, last)) for row, first, last, _ in shares.shared.tolist()}
    assert found == slots and len(shares.shared) == len(slots)
    stored = sorted(itertools.chain(*slots.values()))
    assert stored == list(range(len(stored))) and len(stored) <= pairs + rows % pairs


@given(st.integers(1, 120), st.integers(1, 12), st.integers(1, 150))
def test_shares_in_a_row_are_equal(rows, rounds, pairs) -> None:
    pairs = min(pairs, rows * rounds)
    parts = tile_shares._in_a_row(rows % pairs, rounds, pairs)
    lengths = torch.zeros(pairs, dtype=torch.long).index_add(0, parts[3], parts[2] - parts[1])
    assert int(lengths.max() - lengths.min()) <= 1


@given(st.integers(2, 150), st.integers(1, 150), st.integers(1, 200), st.integers(0, 6))
def test_shares_side_by_side_cost_the_same(pairs, left, rounds, cost) -> None:
    """But for rounding, and one more part for each of those that have the ends."""
    left = 1 + left % (pairs - 1)
    row, first, last, pair = tile_shares._side_by_side(left, rounds, pairs, cost)
    takes = torch.zeros(pairs, dtype=torch.long).index_add(0, pair, last - first + cost)
    assert takes.max() <= left * (rounds + cost) / pairs + cost + 2
    begins = pair < left
    assert torch.equal(row[begins], pair[begins]) and not first[begins].any()


def test_pairs_have_neighbours_at_the_same_time() -> None:
    """Of 13 row blocks, 3 in parts: then whole ones, side by side."""
    found = segments_of(shares_of(13, 4, 5, *WAYS["in a row"]))
    whole = [[row for row, *_, slot in own if slot < 0] for own in found]
    assert whole == [[3, 8], [4, 9], [5, 10], [6, 11], [7, 12]]


@pytest.mark.parametrize(
    ("way", "parts"),
    [
        ("whole", [[]] * 6),
        ("in a row", [[(0, 0, 5)], [(0, 5, 6), (1, 0, 4)], [(1, 4, 6), (2, 0, 3)],
                      [(2, 3, 6), (3, 0, 2)], [(3, 2, 6), (4, 0, 1)], [(4, 1, 6)]]),
        ("side by side", [*([(row, 0, 5)] for row in range(5)), [(row, 5, 6) for row in range(5)]]),
    ],
)  # fmt: skip
def test_there_are_three_ways_of_having_parts(way, parts) -> None:
    """As the module draws them."""
    found = parts_of(shares_of(5, 6, 6, *WAYS[way]))
    assert [[tuple(one[:3]) for one in own] for own in found] == parts


@pytest.mark.parametrize(
    ("M", "K", "N", "way"),
    [
        (7168, 7168, 384, "in a row"), (7168, 7168, 448, "whole"), (8192, 8192, 320, "whole"),
        (7168, 28672, 384, "in a row"), (7168, 28672, 448, "side by side"),
        (7168, 28672, 768, "side by side"), (6400, 12800, 768, "in a row"),
        (4096, 28672, 768, "in a row"), (21504, 28672, 768, "in a row"), (8448, 8192, 512, "whole"),
    ],
)  # fmt: skip
def test_which_way_is_taken(M, K, N, way) -> None:
    """On an H200, whose 66 pairs have 256 columns of A a round.

    Pairs idle where few do; parts are side by side of more than half as many row blocks as pairs,
    with nothing else, where B is large; and cost as much as 1024 columns of A.
    """
    rows, rounds, pairs = M // 128, K // 256, 66
    whole, left = divmod(rows, pairs)
    own = torch.arange(left)
    expected = {
        "whole": torch.stack([own, 0 * own, 0 * own + rounds, own]),
        "in a row": tile_shares._in_a_row(left, rounds, pairs),
        "side by side": tile_shares._side_by_side(left, rounds, pairs, 4) if left else None,
    }[way]
    found = tile_shares._parts_of(left, rounds, pairs, K, N // 2, others=whole > 0)
    assert torch.equal(found, expected)
