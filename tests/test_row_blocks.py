"""Who multiplies what of a matrix in strips (backends/row_blocks.py)."""

import itertools
import statistics

import pytest
import torch

from lab_utils.backends import row_blocks
from lab_utils.formats import ZeroRow24Strips
from lab_utils.patterns import random_sparse


def segments_of(shares: row_blocks.Shares) -> list[list[list[int]]]:
    """Of each thread block: row block, first and last round, slot."""
    segments, ends = shares.segments.tolist(), shares.first_segment.tolist()
    return [segments[first:end] for first, end in itertools.pairwise(ends)]


@pytest.mark.parametrize(
    "blocks, owned", [(1, 0), (3, 1), (4, 0), (7, 1), (12, 1), (13, 0), (132, 0)]
)
def test_shares_are_everything_once_and_equal(blocks, owned) -> None:
    W = random_sparse(1100, 900, 0.8)
    W[:300] = random_sparse(300, 900, 0.3)  # five row blocks, of which one is three times as dense
    A = ZeroRow24Strips.encode(W)
    rows, rounds = row_blocks.row_blocks_of(A, 16), A.rounds
    sizes = 16 * A.arrays["chunk_start"].long().diff() + row_blocks.SHARE_OF_CHUNK
    none = int(row_blocks.SHARE_OF_NO_STRIP * sizes.double().mean())
    missing = (0, 0, 0, -A.strips % 16)
    padded = torch.nn.functional.pad(sizes.view(A.strips, rounds), missing, value=none)
    costs = padded.view(rows, 16, rounds).sum(1)
    costs[:, 0] += int(row_blocks.SHARE_OF_SEGMENT * costs.double().mean())
    blocks = min(blocks, rows * rounds)
    shares, slots, owners = row_blocks.share_out(A, blocks, 16)
    assert owners == bool(owned)
    done, shared_by, slots_of = torch.zeros(rows, rounds), torch.zeros(blocks), {}
    for block, mine in enumerate(segments_of(shares)):
        for row, first, last, slot in mine:
            assert first < last and (slot == -1) == (last - first == rounds)
            done[row, first:last] += 1
            shared_by[block] += costs[row, first:last].sum()
            slots_of.setdefault(row, []).extend([slot] * (slot >= 0))
    assert bool((done == 1).all())
    assert float((shared_by - shared_by.mean()).abs().max()) <= int(costs.max()) + int(
        costs.sum(1).max() * (blocks < rows)
    )
    summed = {row: list(range(first, last)) for row, first, last, _ in shares.shared.tolist()}
    assert summed == {row: sorted(found) for row, found in slots_of.items() if found}
    assert sorted(itertools.chain(*summed.values())) == list(range(slots))


@pytest.mark.parametrize("M, blocks", [(1100, 6), (1100, 12), (2000, 5), (4096, 17)])
def test_owners_wait_for_earlier_thread_blocks(M, blocks) -> None:
    """An owner comes to its row block last; others, which come to it first, stand before it."""
    A = ZeroRow24Strips.encode(random_sparse(M, 1900, 0.8))
    shares, _, owners = row_blocks.share_out(A, blocks, 16)
    assert owners
    owner_of, parts_of = {}, {}
    for block, mine in enumerate(segments_of(shares)):
        for i, (row, first, _, slot) in enumerate(mine):
            if slot < -1:
                assert first == 0 and i == len(mine) - 1
                assert shares.shared[-2 - slot, 0] == row
                owner_of[row] = block
            if slot >= 0:
                assert first > 0 and i == 0
                parts_of.setdefault(row, []).append(block)
    assert owner_of.keys() == parts_of.keys() == set(shares.shared[:, 0].tolist())
    assert all(max(parts_of[row]) < owner for row, owner in owner_of.items())


def test_who_is_awaited_ends_before_others(monkeypatch) -> None:
    """Seven equal row blocks for eleven thread blocks: of some, one has a part from the middle."""
    A = ZeroRow24Strips.encode(random_sparse(7 * 256, 192 * 40, 0.8))
    means = []
    for rounds in (0.0, 4.0):
        monkeypatch.setattr(row_blocks, "SHARE_OF_AWAITED", rounds)
        shares, owners = row_blocks._share_out(A, 11, 16)
        counts = [sum(last - first for _, first, last, _ in own) for own in segments_of(shares)]
        awaited = [own[-1][3] >= 0 for own in segments_of(shares)]
        assert owners and 0 < sum(awaited) < 11
        kinds = ([n for n, it in zip(counts, awaited, strict=True) if it == one] for one in (0, 1))
        others, mine = map(statistics.mean, kinds)
        means.append(others - mine)
    assert 3 <= means[1] - means[0] <= 5


def test_a_row_block_with_few_strips_takes_nearly_as_long_as_others() -> None:
    """Rounds of thread blocks with 12 warps, the last of which meet a row block of four strips."""
    A = ZeroRow24Strips.encode(random_sparse(448, 4800, 0.8))
    assert A.strips == 2 * 12 + 4
    shares = row_blocks.share_out(A, 8, 12).shares
    of_blocks = [sum(last - first for _, first, last, _ in mine) for mine in segments_of(shares)]
    assert max(of_blocks) <= 1.4 * min(of_blocks)


def test_whole_row_blocks_come_first() -> None:
    """12 equal row blocks for 11 thread blocks: only one is shared."""
    owner = row_blocks._whole_row_blocks([8] * 12, 11)
    assert owner.tolist() == [*range(11), -1]
    assert row_blocks._whole_row_blocks([30, 1, 1, 1], 3).tolist() == [-1, 0, 0, 0]


def test_shares_are_found_once() -> None:
    A = ZeroRow24Strips.encode(random_sparse(100, 100, 0.5))
    again = ZeroRow24Strips.of_valid(A.shape, A.dtype, A.arrays, A.constants)
    found = row_blocks.share_out(A, 2, 16)
    assert row_blocks.share_out(again, 2, 16) is found
    assert row_blocks.share_out(A.clone(), 2, 16) is not found
