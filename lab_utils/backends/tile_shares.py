"""Who multiplies what of a matrix by tiles: equal shares for pairs of thread blocks, or nearly.

All rounds take the same time, whatever A has but far steps of lane_24_strips. So a pair has as many
whole row blocks as any other; of those that are left, fewer than pairs, most have a part, first of
all::

    13 row blocks of 4 rounds, 5 pairs     pair 0   0 0   | 3  8    parts first, of 3 row blocks;
                                           pair 1   0 0   | 4  9    then whole ones: what pairs do
                                           pair 2   1 1 1 | 5 10    at the same time lies together,
                                           ...                      in A and, of passes, in B

There are three ways of having parts, of 5 row blocks for 6 pairs, whose rounds are 0 to 5::

    whole          pairs 0 to 4 have a row block each, pair 5 nothing: no sums of parts, which take
                   longer than a few more rounds
    in a row       pair 0: 0-4 of row block 0    pair 1: 5 of it, 0-3 of row block 1    ...
    side by side   pairs 0 to 4: 0-4 of a row block each    pair 5: 5 of all, five parts
                   most pairs meet the same of B at the same time: where the L2 does not hold B,
                   and there is nothing but parts
"""

import functools

import torch
from torch import Tensor

from lab_utils.analysis.compression import VALUE_BYTES
from lab_utils.backends.crossover import HELD_BYTES
from lab_utils.backends.row_blocks import Shares

# What sums of parts take, stored and added: for each part that a pair has in the mean, as long as
# products with so many columns of A for each column of C that a thread block has (an H200).
COLS_OF_SUMS = 3.0
COLS_OF_PART = 1024  # as many take as long as to store sums, for a pair with many parts


@functools.cache  # the matrices of a model have few shapes
def shares_of(rows: int, rounds: int, pairs: int, K: int, block_n: int) -> Shares:
    """Who multiplies what of so many row blocks, those of all passes; on the host.

    `rounds` of a row block, for all K columns of A; `block_n` columns of C for each thread block.
    """
    whole, left = divmod(rows, pairs)
    row, first, last, pair = _parts_of(left, rounds, pairs, K, block_n, others=whole > 0)
    stored = (last - first) < rounds
    slot = torch.where(stored, stored.cumsum(0) - 1, -1)
    own = torch.arange(whole * pairs)
    others = torch.stack([left + own, 0 * own, 0 * own + rounds, 0 * own - 1], 1)
    whose, order = torch.cat([pair, own % pairs]).sort(stable=True)
    segments = torch.cat([torch.stack([row, first, last, slot], 1), others])[order]
    begins = torch.searchsorted(whose, torch.arange(pairs + 1))
    shared, counts = row[stored].unique(return_counts=True)
    ends = counts.cumsum(0)
    return Shares(segments, begins, torch.stack([shared, ends - counts, ends, 0 * shared], 1))


def _parts_of(left: int, rounds: int, pairs: int, K: int, block_n: int, others: bool) -> Tensor:
    """Of fewer row blocks than pairs: row block, first and last round of each part, and its pair.

    int64 [4, parts], by row block and round. `others`: whether pairs have whole row blocks, too,
    which take most of the time then.
    """
    if not left or K * (pairs - left) <= COLS_OF_SUMS * block_n * (pairs + left):
        own = torch.arange(left)
        return torch.stack([own, 0 * own, 0 * own + rounds, own])
    large = K * 2 * block_n * VALUE_BYTES > HELD_BYTES
    if large and not others and 2 * left > pairs:
        return _side_by_side(left, rounds, pairs, COLS_OF_PART * rounds // K)
    return _in_a_row(left, rounds, pairs)


def _in_a_row(left: int, rounds: int, pairs: int) -> Tensor:
    cuts = torch.arange(pairs + 1) * left * rounds // pairs
    edges = torch.cat([cuts, torch.arange(left + 1) * rounds]).unique()
    first, last = edges[:-1], edges[1:]
    row, pair = first // rounds, torch.searchsorted(cuts, first, right=True) - 1
    return torch.stack([row, first - row * rounds, last - row * rounds, pair])


def _side_by_side(left: int, rounds: int, pairs: int, cost: int) -> Tensor:
    """`cost`: of a part, in rounds."""
    row = torch.arange(left)
    done = (torch.arange(left + 1) * left * (rounds + cost) // pairs).diff().clamp(max=rounds)
    begins = torch.stack([row, 0 * row, done, row])
    # The others have the ends, one behind the other, each longer by what it costs.
    ends = torch.nn.functional.pad((rounds + cost - done).cumsum(0), (1, 0))
    others = torch.arange(pairs - left + 1) * ends[-1] // (pairs - left)
    edges = torch.cat([others, ends]).unique()
    first, last = edges[:-1], edges[1:]
    row, pair = (torch.searchsorted(of, first, right=True) - 1 for of in (ends, others))
    moved = done[row] - ends[row]
    parts = torch.stack([row, first + moved, last + moved, left + pair])
    parts = torch.cat([begins, parts], 1)
    parts[1:3].clamp_(max=rounds)
    parts = parts[:, parts[1] < parts[2]]
    return parts[:, (parts[0] * rounds + parts[1]).argsort()]
