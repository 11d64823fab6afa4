"""What warps of the wgmma kernel begin with, beside a walk through everything that they have."""

import itertools

import pytest
import torch

from lab_utils.backends import row_blocks, warp_starts
from lab_utils.backends.warp_starts import ANY_BYTES
from lab_utils.formats import ZeroRow24Strips
from lab_utils.patterns import random_sparse


def rounds_of(segments: list, first: int, end: int, strip_of, A: ZeroRow24Strips) -> list:
    """(segment, at, last) of each round; `strip_of(row block)` is None for tiles of B'."""
    found = []
    for segment in range(first, end):
        row, begin, last, _ = segments[segment]
        strip = strip_of(row)
        if strip is not None and strip >= A.strips:
            continue
        before = 0 if strip is None else strip * A.rounds
        found += [(segment, before + at, before + last) for at in range(begin, last)]
    return [*found, *itertools.repeat((end, 0, 0), 20)]


@pytest.mark.parametrize(
    "warps, shared, tiles, of_round",
    [
        (16, 0, 2, 1),
        (16, ANY_BYTES, 6, 1),
        (16, ANY_BYTES, 4, 1),
        (12, ANY_BYTES, 2, 1),
        (12, 0, 4, 4),
        (8, ANY_BYTES, 3, 4),
        (16, 3900, 4, 1),
    ],
)
@pytest.mark.parametrize("blocks", [1, 7, 22, 60])
def test_a_record_is_what_a_walk_meets(blocks, warps, shared, tiles, of_round) -> None:
    """Also of the last row block, of which A has some strips, and with more blocks than rounds.

    3900 bytes are enough for some two chunks, and not for others.
    """
    A = ZeroRow24Strips.encode(random_sparse(850, 900, 0.8))
    shares = row_blocks.share_out(A, blocks, warps).shares
    records = warp_starts.starts_of(A, blocks, warps, shared, tiles, of_round)
    data, segments = A.arrays["chunk_start"].tolist(), shares.segments.tolist()
    seen = set()
    assert records.shape == (blocks, warps, 32) and records.dtype == torch.int32
    for block, warp in itertools.product(range(blocks), range(warps)):
        first, end = shares.first_segment[block : block + 2].tolist()
        chunks = rounds_of(segments, first, end, lambda row, w=warp: row * warps + w, A)
        quartered = [(row, a * of_round, b * of_round, slot) for row, a, b, slot in segments]
        tile = rounds_of(quartered, first, end, lambda _: None, A)
        copies = [(data[at], data[at + 1]) if last else (0, 0) for _, at, last in chunks]
        found = records[block, warp].tolist()
        stages = 1 + (16 * sum(stop - start for start, stop in copies[:2]) <= shared)
        seen.add(stages)
        assert found[:stages] == [start for start, _ in copies[:stages]]
        assert found[2 : 2 + stages] == [stop for _, stop in copies[:stages]]
        assert not any(found[stages:2] + found[2 + stages : 4])
        assert tuple(found[4:7]) == chunks[stages]
        assert tuple(found[7:9]) == copies[stages]
        if warp < tiles:
            assert tuple(found[9:12]) == tile[warp]
            assert tuple(found[12:15]) == tile[warp + tiles]
        assert found[15:17] == [first, end]
        if first < end:
            row, begin, last, slot = segments[first]
            assert found[17:20] == [row, last - begin, slot]
    assert shared != 3900 or blocks > 7 or seen == {1, 2}


def test_records_are_found_once() -> None:
    A = ZeroRow24Strips.encode(random_sparse(100, 100, 0.5))
    found = warp_starts.starts_of(A, 1, 16, ANY_BYTES, 4)
    assert warp_starts.starts_of(A, 1, 16, ANY_BYTES, 4) is found
    assert not torch.equal(warp_starts.starts_of(A, 1, 16, 0, 4), found)
