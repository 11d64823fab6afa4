"""Bitmaps or codes, and a stream for each lane, in the wgmma kernel and by tiles, on the host."""

import itertools

import pytest
import torch
from emulated import DTYPES, activations, product

from lab_utils import accuracy, spmm
from lab_utils.backends import emulator, hopper_wgmma
from lab_utils.backends.row_blocks import share_out
from lab_utils.backends.strip_layouts import Layout
from lab_utils.backends.ways import FUSED, TILES, forced
from lab_utils.formats import BitmapStrips, CodedStrips
from lab_utils.formats.chunks import START_BYTES
from lab_utils.patterns import random_sparse

WIDTHS = (1, 9, 17, 25, 33, 41, 49, 64, 70, 100, 130, 170, 200, 256, 300)
formats = pytest.mark.parametrize("cls", [BitmapStrips, CodedStrips])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@formats
def test_every_width_and_tail(cls, dtype) -> None:
    """All blocks, and passes, of few and many rounds; M and K that no chunk divides."""
    for N, (M, K) in itertools.product(WIDTHS, ((65, 257), (40, 2100))):
        W = random_sparse(M, K, 0.7, dtype=dtype, seed=N, mean=0.5)
        product(cls.encode(W), W, N)


@pytest.mark.parametrize("way", [FUSED, TILES])
@pytest.mark.parametrize("sparsity", [0.0, 0.02, 0.3, 0.6, 0.95, 1.0])
@formats
def test_every_sparsity(cls, sparsity, way) -> None:
    """Of the densest, counts of values run as far as they can in each word of bits."""
    for dtype in DTYPES:
        W = random_sparse(100, 500, sparsity, dtype=dtype, mean=0.5)
        with forced(way):
            product(cls.encode(W), W, 32 if way == FUSED else 300)


@pytest.mark.parametrize("way", [FUSED, TILES])
@formats
def test_lanes_with_all_their_weights_and_with_none(cls, way) -> None:
    """Each value of a lane in the other half of its word, too: an odd number before it."""
    W = random_sparse(64, 512, 0.0, mean=0.5)
    W[1::2] = 0
    W[::16, 0], W[32:, 128:] = 0, 0
    with forced(way):
        product(cls.encode(W), W, 32 if way == FUSED else 300)


@pytest.mark.parametrize("way", [FUSED, TILES])
def test_all_codes_of_a_pair_behind_all_others(way) -> None:
    """Lone weights of either column, that begin a word and that end one; pairs with both."""
    M, K, N = 32, 512, 32 if way == FUSED else 300
    pair = torch.randint(4, (M, K // 2), generator=torch.Generator().manual_seed(3))
    has = torch.stack([pair & 1, pair >> 1], 2).reshape(M, K).bool()
    W = torch.where(has, random_sparse(M, K, 0.0, mean=0.5), 0)
    with forced(way):
        product(CodedStrips.encode(W), W, N)


@pytest.mark.parametrize(("cls", "more"), [(BitmapStrips, 2), (CodedStrips, 0)])
def test_a_trace_counts_what_the_layout_promises(cls, more) -> None:
    """A load for each register, of bitmaps one at either half's end: none meets a bank twice."""
    A = cls.encode(random_sparse(512, 1280, 0.6))
    with emulator.recording(split_k=3) as traces:
        spmm(A, activations(1280, 64), backend="emulator")
    trace, chunks = traces[0], A.strips * A.rounds
    assert trace.total("bmma").requests == trace.total("wgmma_sp").requests == 0
    assert trace.total("wgmma").requests == 16 * chunks
    places = [p for p in trace.lines if (p.function, p.operation) == ("load", "shared_load")]
    words = [trace.lines[place] for place in places]
    requests = sum(w.requests for w in words)
    assert sum(w.wavefronts for w in words) == requests == (64 + more) * chunks
    assert sum(w.lanes for w in words) == 32 * requests


@pytest.mark.parametrize("way", [FUSED, TILES])
@formats
def test_weights_that_are_not_finite_are_multiplied(cls, way) -> None:
    """As a dense product has it: in their rows alone."""
    W, B = random_sparse(64, 300, 0.6, mean=0.5), activations(300, 24)
    W[3, 5], W[17, 299] = torch.inf, torch.nan
    with forced(way):
        C = spmm(cls.encode(W), B, backend="emulator")
    finite = torch.ones(64, dtype=torch.bool)
    finite[[3, 17]] = False
    accuracy.check(C[finite], W[finite], B)
    assert not C[~finite].isfinite().any()


@formats
def test_quarters_of_a_round_come_around(cls) -> None:
    """B of blocks with more than 128 columns: many rounds, a row block's last strips missing."""
    W = random_sparse(330, 2500, 0.5, mean=0.5)
    A = cls.encode(W)
    cases = ((150, 12, 1.5), (180, 12, 4), (220, 8, 1), (250, 8, 2.5), (400, 8, 1.5))
    for N, warps, split_k in cases:
        layout = hopper_wgmma.layout_of(A, N, 1, split_k)
        assert (layout.warps, layout.tile_slots, layout.tiles_of_round) == (warps, 4, 4)
        with forced(FUSED):
            product(A, W, N, split_k)


@pytest.mark.parametrize(
    ("sparsity", "N", "width", "slots"),
    [(0.5, 300, 320, 3), (0.8, 340, 352, 4), (0.4, 380, 384, 3), (0.8, 570, 288, 4)],
)
def test_quarters_in_a_ring_of_three_or_four(sparsity, N, width, slots) -> None:
    """Of blocks with more than 256 columns, two products side by side, whose rings need room."""
    W = random_sparse(330, 1500, sparsity, mean=0.5)
    A = BitmapStrips.encode(W)
    for split_k in (1, 1.5):
        layout = hopper_wgmma.layout_of(A, N, 1, split_k)
        assert (layout.block_n, layout.warps, layout.tiles_of_round) == (width, 8, 4)
        assert (layout.tile_slots, layout.chunks) == (slots, 2)
        with forced(FUSED):
            product(A, W, N, split_k)


# Weights of each round of 256 columns that are not zero.
DENSITIES = (0.95, 0.1, 0.5, 0.5, 0.2, 0.9, 0.9, 0.3, 0.6, 0.6)


@pytest.mark.parametrize(("N", "width"), [(64, 64), (90, 96), (110, 112), (190, 192), (380, 384)])
@formats
def test_two_chunks_share_a_ring_if_they_fit(cls, N, width) -> None:
    """Some of those that follow each other do, and others are copied one after another."""
    W = random_sparse(200, 256 * len(DENSITIES), 0.0, mean=0.5)
    for part, density in zip(W.split(256, dim=1), DENSITIES, strict=True):
        part[torch.rand(part.shape, generator=torch.Generator().manual_seed(N)) > density] = 0
    A = cls.encode(W)
    for split_k in (1, 1.5, 2.5):
        layout = hopper_wgmma.layout_of(A, N, 1, split_k)
        bytes = START_BYTES * A.arrays["chunk_start"].diff()[: A.rounds]  # of the first strip
        fit = bytes[1:] + bytes[:-1] <= layout.ring_bytes
        assert layout.block_n == width and fit.any() and not fit.all()
        with forced(FUSED):
            product(A, W, N, split_k)


def test_owners_take_away_flags_of_more_parts_than_there_are_warps() -> None:
    W = random_sparse(4600, 300, 0.6, mean=0.5)
    A = BitmapStrips.encode(W)
    layout = hopper_wgmma.layout_of(A, 8, 1, 2)
    plan = share_out(A, layout.blocks, layout.warps)
    assert plan.owners and plan.slots > layout.warps == 16
    product(A, W, 8, 2)


ROOM = "; 12 warps: rings of 16 have room for {} of its chunks, not 2"


def blocks_of(A: BitmapStrips, N: int, layout: Layout) -> str:
    """What a plan says of thread blocks."""
    return hopper_wgmma.choices(A, N, layout)["blocks"]


def test_few_warps_where_only_their_rings_have_room_for_two_copies() -> None:
    W = random_sparse(330, 2500, 0.31, mean=0.5)
    A = BitmapStrips.encode(W)
    for N, split_k in ((60, 1.5), (64, 4)):
        layout = hopper_wgmma.layout_of(A, N, 1, split_k)
        assert (layout.block_n, layout.warps, layout.chunks) == (64, 12, 2)
        assert blocks_of(A, N, layout).endswith(ROOM.format("1.86"))
        with forced(FUSED):
            product(A, W, N, split_k)
    for N, width in ((12, 16), (24, 32), (40, 48)):
        layout = hopper_wgmma.layout_of(A, N, 1, 2)
        assert (layout.block_n, layout.warps) == (width, 12)
        assert blocks_of(A, N, layout).endswith(ROOM.format(1))
        with forced(FUSED):
            product(A, W, N, 2)


def test_plans_say_why_blocks_have_few_warps() -> None:
    A = BitmapStrips.encode(random_sparse(2048, 4096, 0.45, mean=0.5))
    for N, multiprocessors, why in (
        (8, 132, "; 12 warps: fewer than 8 rounds of 16 for each multiprocessor"),
        (8, 4, "; 12 warps: memory binds, not decoding"),
    ):
        layout = hopper_wgmma.layout_of(A, N, multiprocessors, None)
        assert layout.warps == 12 and blocks_of(A, N, layout).endswith(why)
    layout = hopper_wgmma.layout_of(A, 32, 4, None)
    assert layout.warps == 16 and "warps" not in blocks_of(A, 32, layout)
