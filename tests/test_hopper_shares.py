"""Who multiplies which chunks in the Hopper kernel: equal shares, segments, teams that merge."""

from itertools import pairwise

import pytest
import torch

from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends import chunk_shares, hopper
from lab_utils.backends.chunk_shares import SHARE_OF_EXTRA, SHARE_OF_PIECE
from lab_utils.formats import ZeroRow24
from lab_utils.patterns import random_sparse


def costs_of(A: ZeroRow24) -> list[int]:
    """Of each chunk: its bytes and its pieces' instructions, of which extra ones have more."""
    sizes, first = A.arrays["chunk_start"].diff().tolist(), A.arrays["first_chunk"].tolist()
    found, rows = [], hopper.row_blocks_of(A)
    for block, (start, end) in enumerate(pairwise(first)):
        cols = min(A.slice_cols, A.shape[1] - block // rows * A.slice_cols)
        pieces = [1] * -(-cols // (72 if A.streams == Streams.NESTED else 48))
        if A.streams == Streams.SIXES:
            pieces = [2] * (len(pieces) // 2) + [1] * (len(pieces) % 2)
        fixed = len(pieces) + A.levels * -(-cols // 144)
        pieces += [1] * (end - start - len(pieces))
        beyond = SHARE_OF_EXTRA[A.streams]
        each = SHARE_OF_PIECE[A.streams]
        kinds = [each * n + beyond * (nth >= fixed) for nth, n in enumerate(pieces)]
        found += [16 * size + kind for size, kind in zip(sizes[start:end], kinds, strict=True)]
    return found


@pytest.mark.parametrize("workers", [1, 3, 16, 200])
@pytest.mark.parametrize(
    ("sparsity", "streams", "levels", "cols"),
    [(0.9, None, None, 336), (0.9, None, None, 384), (0.8, None, 0, 336), (0.5, None, 1, 336),
     (0.5, "nested", None, 360)],
)  # fmt: skip
def test_shares_are_everything_once_and_equal(workers, sparsity, streams, levels, cols) -> None:
    A = ZeroRow24.encode(random_sparse(1000, 900, sparsity), cols, streams, levels=levels)
    costs = torch.tensor(costs_of(A))
    assert torch.equal(chunk_shares._costs(A).diff(), costs)
    before = torch.nn.functional.pad(costs.cumsum(0), (1, 0))
    shares, segments = hopper.share_out(A, workers, copy=2)
    first, last, block, segment, *edges = shares.long().T[:7]
    starts, of_block = A.arrays["chunk_start"].long(), A.arrays["first_chunk"].long()
    assert first[0] == 0 and last[-1] == starts.numel() - 1 and torch.equal(first[1:], last[:-1])
    shared = (before[last] - before[first]).view(-1, workers)
    for i, edge in enumerate(edges):  # of the block and the next one
        assert torch.equal(edge, of_block[(block + i).clamp(max=of_block.numel() - 1)])
    copies = (first[:, None] + torch.arange(0, 16, 2)).minimum(last[:, None])
    assert torch.equal(shares[:, 8:].long(), starts[copies])
    assert int((shared - shared.double().mean(1, keepdim=True)).abs().max()) <= costs.max()
    written = []  # (segment, block) of each sum that the kernel writes
    for low, high, z, number in zip(first, last, block, segment, strict=True):
        touched = torch.searchsorted(of_block, torch.arange(low, high), right=True) - 1
        if high > low:
            assert touched[0] == z
            written += [(int(number) + i, int(t)) for i, t in enumerate(touched.unique())]
    assert [number for number, _ in written] == list(range(int(segments[-1])))
    for number, z in written:
        assert segments[z] <= number < segments[z + 1]
    assert len(written) <= hopper.slices_of(A) * (workers + hopper.row_blocks_of(A))


@pytest.mark.parametrize("workers", [16, 48, 320])
def test_workers_that_end_with_the_same_rows_merge(workers) -> None:
    """Segments of a block: one of each team that ends with it, and one of a worker that goes on."""
    A = ZeroRow24.encode(random_sparse(500, 900, 0.8), slice_cols=336)
    shares, segments = hopper.share_out(A, workers, merging=16)
    of_block = A.arrays["first_chunk"].long()
    block_of = lambda chunk: int(torch.searchsorted(of_block, chunk, right=True)) - 1  # noqa: E731
    written, teams = [], {}
    for w, share in enumerate(shares.long()):
        first, last, block, segment = share[:4].tolist()
        leader, span, rank, members = (int(share[7]) >> shift & 255 for shift in (0, 8, 16, 24))
        if first == last:
            assert members == 0 and (span == 0 or leader < w % 16 < leader + span - 1)
            continue
        ends_with = block_of(share[1] - 1)
        written += [(segment + i, block + i) for i in range(ends_with - block)]
        team = teams.setdefault((w // 16, ends_with), [])
        team.append(w % 16)
        assert (leader, rank) == (team[0], len(team) - 1)
        assert leader <= w % 16 < leader + span and len(team) <= members
        if rank == 0:
            written.append((segment + ends_with - block, ends_with))
        elif ends_with != block or segment != written[-1][0]:
            pytest.fail(f"worker {w} adds to segment {segment}, its team to {written[-1][0]}")
    assert [number for number, _ in written] == list(range(int(segments[-1])))
    for number, z in written:
        assert segments[z] <= number < segments[z + 1]
    assert any(len(team) > 1 for team in teams.values())


def test_shares_are_found_once() -> None:
    A = ZeroRow24.encode(random_sparse(100, 100, 0.5))
    again = ZeroRow24.of_valid(A.shape, A.dtype, A.arrays, A.constants)  # as an operator sees it
    assert hopper.share_out(A, 4).shares is hopper.share_out(again, 4).shares
    assert hopper.share_out(A.clone(), 4).shares is not hopper.share_out(A, 4).shares


def test_more_columns_than_a_grid_has_rows_for_are_refused() -> None:
    A = ZeroRow24.encode(random_sparse(64, 96, 0.5))
    layout = hopper.layout_of(A, hopper.MOST_COLUMNS)
    hopper.launch_of(A, hopper.MOST_COLUMNS, layout)
    with pytest.raises(ValueError, match="N=262141; allowed: 1 to 262140 where A is decoded in"):
        hopper.launch_of(A, hopper.MOST_COLUMNS + 1, layout)
