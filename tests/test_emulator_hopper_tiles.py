"""The kernel by tiles on the host: its products and traces."""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from emulated import DTYPES, activations, product, tiles_in_parts, total, with_epilogue
from torch import Tensor

from lab_utils import accuracy, encode, explain, spmm
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.backends import emulator, hopper_tiles, tile_shares
from lab_utils.backends.hopper_tiles import LANES, Layout, layout_of
from lab_utils.backends.launch import Launch
from lab_utils.backends.row_blocks import row_blocks_of
from lab_utils.backends.simt import apart
from lab_utils.backends.ways import forced
from lab_utils.formats import Lane24Strips
from lab_utils.patterns import random_sparse

WIDTHS = (1, 330, 400, 460, 530, 600, 700, 768, 1100)  # of all eight; the last in two passes


@pytest.fixture(autouse=True)
def tiles() -> Iterator[None]:
    with forced("tiles"), tiles_in_parts():
        yield


def of_pairs(A: Lane24Strips, W: Tensor, N: int, pairs: int) -> tuple[str, KernelTrace]:
    """A product by so many pairs, right in every element and the same when repeated.

    What `explain` says of its sums; its trace.
    """
    split_k = pairs / (row_blocks_of(A, 8) * layout_of(A, N, 1, None).passes)
    layout = layout_of(A, N, 1, split_k)
    assert layout.blocks == pairs
    B, results = activations(W.shape[1], N, W.dtype), []
    with emulator.recording() as traces:
        for _ in range(2):
            results.append(torch.empty(N, W.shape[0], dtype=W.dtype).T)
            emulator.spmm(A, B, results[-1], split_k)
    accuracy.check(results[0], W, B)
    assert torch.equal(*results)
    return hopper_tiles.choices(A, N, layout)["sums"], traces[0]


# --- products ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", WIDTHS)
def test_every_width_and_tail(N, dtype) -> None:
    """M and K that nothing divides; strips without rows; a thread block that has none to decode."""
    for M, K in ((33, 257), (200, 650)):
        W = random_sparse(M, K, 0.85, dtype=dtype, seed=N, mean=0.5)
        product(Lane24Strips.encode(W), W, N)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.8, 0.95, 1.0])
def test_every_sparsity(sparsity) -> None:
    """The densest have most of their entries behind what rings hold: far steps."""
    for dtype in DTYPES:
        W = random_sparse(130, 520, sparsity, dtype=dtype, mean=0.5)
        A = Lane24Strips.encode(W)
        assert (A.largest_chunk > A.largest_copy) == (sparsity < 0.8)
        product(A, W, 40, split_k=1.5)


@pytest.mark.parametrize("pattern", ["clustered", "row_skewed"])
def test_masks_with_a_dense_tile(pattern) -> None:
    """Chunks with far steps beside others without; groups full of entries."""
    W = random_sparse(300, 700, 0.9, pattern=pattern, mean=0.5)
    W[64:128, 48:200] = 1.5
    A = Lane24Strips.encode(W)
    assert A.largest_chunk > A.largest_copy
    product(A, W, 40, split_k=2)


@pytest.mark.parametrize(
    ("pairs", "slots", "ends"),
    [
        (1, 0, {"store"}),  # all of them, so that rings come around
        (2, 2, {"store", "store_part"}),  # a whole one each, and half of the third
        (3, 0, {"store"}),
        (5, 6, {"store_part"}),
        (9, 9, {"store_part"}),  # a round each
    ],
)
def test_row_blocks_are_whole_or_in_parts(pairs, slots, ends) -> None:
    """Three of three rounds each."""
    W = random_sparse(300, 700, 0.8, mean=0.5)
    sums, trace = of_pairs(Lane24Strips.encode(W), W, 100, pairs)
    partial = f"partial ones in {slots} slots; a kernel of its own adds them"
    assert sums == (partial if slots else "of each row block in one pair")
    added = ("add_parts<Lanes, __half, 160>",) * bool(slots)
    assert trace.kernels == ("hopper_tiles<Lanes, __half, 160>", *added)
    own = (p for p in trace.lines if p.kernel == trace.kernels[0])
    assert {p.function for p in own if Path(p.file).name == "hopper_tiles_sums.cuh"} == ends


def test_pairs_may_have_nothing(monkeypatch) -> None:
    """Where sums of parts would take longer."""
    monkeypatch.setattr(tile_shares, "COLS_OF_SUMS", 1000.0)
    W = random_sparse(310, 710, 0.8, mean=0.5)  # a shape of its own: shares are cached
    sums, trace = of_pairs(Lane24Strips.encode(W), W, 100, 5)
    assert sums == "of each row block in one pair; 2 pairs have one less"
    assert len(trace.kernels) == 1


def test_parts_may_begin_side_by_side(monkeypatch) -> None:
    """Of three row blocks and five pairs: two have the ends."""
    monkeypatch.setattr(tile_shares, "HELD_BYTES", 0)
    W = random_sparse(300, 2500, 0.8, mean=0.5)
    A = Lane24Strips.encode(W)
    sums, _ = of_pairs(A, W, 40, 5)
    shares = tile_shares.shares_of(3, A.rounds, 5, 2500, 160)
    assert sums.startswith(f"partial ones in {(shares.segments[:, -1] >= 0).sum()} slots")
    begins = shares.segments[shares.first_segment[:3], :3]
    assert torch.equal(begins[:, 0], torch.arange(3)) and not begins[:, 1].any()


def test_slots_are_as_long_as_the_kernel_takes_them(monkeypatch) -> None:
    """The last one ends where scratch memory does."""
    W, scratch = random_sparse(384, 700, 0.8, mean=0.5), {}

    def made(launch: Launch, new: Callable, own: Callable = Launch.scratch) -> dict:
        scratch.update(arrays := own(launch, new))
        return arrays

    monkeypatch.setattr(Launch, "scratch", made)
    of_pairs(Lane24Strips.encode(W), W, 320, 5)
    assert scratch["partial"].isfinite().all()


@pytest.mark.parametrize(("pairs", "slots"), [(3, 3), (5, 6)])
def test_row_blocks_of_several_passes_are_shared(pairs, slots) -> None:
    """Of four, two a pass: one in three parts, and others whole; or all in parts."""
    W = random_sparse(130, 700, 0.8, mean=0.5)
    sums, trace = of_pairs(Lane24Strips.encode(W), W, 800, pairs)
    assert sums.startswith(f"partial ones in {slots} slots") and len(trace.kernels) == 2


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_epilogues_come_before_rounding(relu, dtype) -> None:
    """In row blocks of one pair, and in those of several, whose sums are added up."""
    for (M, K), split_k in itertools.product(((65, 49), (230, 450)), (1, 1.5)):
        W = random_sparse(M, K, 0.9, dtype=dtype)
        with_epilogue(Lane24Strips.encode(W), W, 50, relu, split_k)


def test_activations_that_are_not_finite_stay_in_their_columns() -> None:
    """As in a dense product: zeros of A meet them as well."""
    W, B = random_sparse(64, 256, 0.9, mean=0.5), activations(256, 24).contiguous()
    B[7, 3] = torch.inf
    C = spmm(encode(W, "lane_24_strips"), B, backend="emulator")
    others = torch.arange(24) != 3
    accuracy.check(C[:, others], W, B[:, others])
    assert torch.equal(C[:, 3].isinf(), W[:, 7] != 0) and not C[:, 3].isfinite().any()


# --- launches by hand ---


def launched(
    A: Lane24Strips, B: Tensor, layout: Layout, canvas: Tensor, first: int, pitch: int
) -> KernelTrace:
    """Multiply into a canvas: C begins at element `first`, its columns are `pitch` apart."""
    launch = hopper_tiles.launch_of(A, B.shape[1], layout, apart)
    columns = apart(B.T.contiguous())
    scratch = launch.scratch(lambda shape: apart(torch.full(shape, torch.nan)))
    launch.problem.B, launch.problem.ldb = columns.data_ptr(), columns.stride(0)
    launch.problem.C = canvas.data_ptr() + canvas.element_size() * first
    launch.problem.ldc = pitch
    return emulator.machine().run(
        *launch.call, ctypes.byref(launch.problem), None,
        read=launch.arrays | {"B": columns}, written={"C": canvas, **scratch}, awaited=("B",),
    )  # fmt: skip


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize(
    ("M", "first", "pitch"),
    [(100, 0, 102), (100, 2, 102), (100, 1, 102), (100, 0, 101), (99, 0, 102)],
)
def test_words_are_stored_where_c_allows_that(M, first, pitch, pairs) -> None:
    """Of two rows: where M and the pitch are even, and C begins with one; nothing else is."""
    W, B = random_sparse(M, 512, 0.9, mean=0.5), activations(512, 21)
    A, canvas = Lane24Strips.encode(W), apart(torch.full((2500,), 7.0).half())
    trace = launched(A, B, layout_of(A, 21, 1, pairs), canvas, first, pitch)
    C = canvas[first:].as_strided((M, 21), (1, pitch))
    accuracy.check(C.clone(), W, B)
    C.fill_(7)
    assert bool((canvas == 7).all())
    words = total(trace, "hopper_tiles_sums.cuh", "store", "global_store")
    assert words.lanes == (M * 21 // 2 if M % 2 + first % 2 + pitch % 2 == 0 else 0)


@pytest.mark.parametrize(
    "changed", [{"stage_bytes": 10512}, {"stage_bytes": 0}, {"block_n": 128}, {"block_n": 160}]
)
def test_a_layout_that_the_kernel_does_not_have_is_refused(changed, monkeypatch) -> None:
    """Chunks too large or none, columns, and so few tiles of A."""
    if block_n := changed.get("block_n"):
        monkeypatch.setitem(hopper_tiles.WIDTHS[LANES], block_n, hopper_tiles.Width(3, 4, 76))
    W, B = random_sparse(64, 256, 0.9), activations(256, 24)
    A, canvas = Lane24Strips.encode(W), apart(torch.zeros(24 * 64).half())
    layout = layout_of(A, 24, 1, 1)
    if (stage_bytes := changed.pop("stage_bytes", None)) is not None:
        changed = {"rings": layout.rings._replace(stage_bytes=stage_bytes)}
    layout = replace(layout, **changed)
    with pytest.raises(RuntimeError, match="lscd_cuda_tiles_lanes failed with cudaError_t 1"):
        launched(A, B, layout, canvas, 0, 64)


@pytest.mark.parametrize("call", [spmm, explain])
def test_formats_without_tiles_are_refused(call) -> None:
    A, B = encode(random_sparse(64, 96, 0.5), "zero_row_24_strips"), activations(96, 24)
    told = "way='tiles': zero_row_24_strips has none; allowed: fused, decoded"
    with pytest.raises(ValueError, match=told):
        call(A, B, backend="emulator")


# --- what a trace counts ---


def test_a_trace_counts_what_the_layout_promises() -> None:
    """Weights of each pass and row block are decoded once; no bank is met twice in that."""
    A = Lane24Strips.encode(random_sparse(200, 600, 0.9))
    with emulator.recording(split_k=2) as traces:
        spmm(A, activations(600, 800), backend="emulator")
    trace, passes, row_blocks = traces[0], 2, 2
    assert trace.kernels == ("hopper_tiles<Lanes, __half, 224>", "add_parts<Lanes, __half, 224>")
    decoder, steps = "hopper_tiles_lanes.cuh", passes * row_blocks * A.rounds * 4
    chunks = total(trace, "hopper_tiles_chunks.cuh", "fetch", "bulk_copy")
    assert chunks.lanes == passes * A.strips * A.rounds
    assert chunks.sectors * 32 == passes * A.arrays["data"].numel()
    sent = total(trace, "hopper_tiles_strip.cuh", "send", "bulk_copy")
    assert (sent.lanes, sent.wavefronts) == (8 * steps, 8 * steps * 16)  # 2048 bytes each
    tiles = total(trace, "hopper_tiles_product.cuh", "fetch", "bulk_copy")
    assert (tiles.lanes, tiles.sectors) == (2 * steps, 2 * steps * 200 * 128 // 32)
    assert trace.total("wgmma").requests == 2 * 8 * 4 * steps
    words = total(trace, decoder, "extract", "shared_load")
    assert words.requests == 4 * 2 * 8 * steps  # all lanes, with a weight or without
    assert words.lanes == 32 * words.requests and words.wavefronts == words.requests
    stores = total(trace, decoder, "put_groups", "shared_store")
    assert stores.requests == 8 * steps * 8 and stores.wavefronts == 2 * stores.requests
