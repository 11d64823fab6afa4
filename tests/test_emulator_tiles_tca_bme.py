"""The kernel by tiles on the host, with TCA-BME: its products and traces."""

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from emulated import DTYPES, activations, product, tiles_in_parts, total, with_epilogue

from lab_utils import accuracy, spmm
from lab_utils.backends import emulator, hopper_tiles
from lab_utils.backends.hopper_tiles import layout_of
from lab_utils.backends.simt import apart
from lab_utils.backends.ways import forced
from lab_utils.formats import TcaBme
from lab_utils.patterns import random_sparse

WIDTHS = (1, 330, 400, 460, 530, 600, 700, 768, 1100)  # of all seven; the last ones in two passes


@pytest.fixture(autouse=True)
def tiles() -> Iterator[None]:
    with forced("tiles"), tiles_in_parts():
        yield


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", WIDTHS)
def test_every_width_and_tail(N, dtype) -> None:
    """No GroupTile, where a thread block has no rows."""
    for M, K in ((33, 257), (200, 650)):
        W = random_sparse(M, K, 0.6, dtype=dtype, seed=N, mean=0.5)
        product(TcaBme.encode(W), W, N)


@pytest.mark.parametrize("sparsity", [0.0, 0.05, 0.3, 0.5, 0.95, 1.0])
def test_every_sparsity(sparsity) -> None:
    """Full TCTiles, whose counts do not fit a byte; GroupTiles without values."""
    for dtype in DTYPES:
        W = random_sparse(130, 520, sparsity, dtype=dtype, mean=0.5)
        product(TcaBme.encode(W), W, 40, split_k=1.5)


@pytest.mark.parametrize("pattern", ["clustered", "row_skewed"])
def test_masks_with_a_dense_tile(pattern) -> None:
    W = random_sparse(300, 700, 0.9, pattern=pattern, mean=0.5)
    W[64:128, 48:200] = 1.5
    product(TcaBme.encode(W), W, 40, split_k=2)


def test_every_mask_of_a_row() -> None:
    """All 256, at odd and at even places of their values."""
    bits = torch.arange(256).view(1, 16, 16, 1) >> torch.arange(8) & 1
    for first in (0, 1):
        W = torch.zeros(64, 256)
        W[:16, :128] = bits[0].reshape(16, 128)
        W[:16, 128:] = bits[0].flip(0).reshape(16, 128)
        W *= torch.randn(64, 256, generator=torch.Generator().manual_seed(first)).abs() + 0.1
        W[0, 0] = first
        product(TcaBme.encode(W.half()), W.half(), 8)


@pytest.mark.parametrize("pairs", [1, 2, 3, 5])
def test_row_blocks_are_whole_or_in_parts(pairs) -> None:
    """Rings come around; warps begin with any round of a segment."""
    W = random_sparse(300, 1500, 0.5, mean=0.5)
    A, B, results = TcaBme.encode(W), activations(1500, 100), []
    split_k = pairs / 3
    assert layout_of(A, 100, 1, split_k).blocks == pairs
    for _ in range(2):
        results.append(torch.empty(100, 300, dtype=W.dtype).T)
        emulator.spmm(A, B, results[-1], split_k)
    accuracy.check(results[0], W, B)
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_epilogues_come_before_rounding(relu, dtype) -> None:
    for (M, K), split_k in itertools.product(((65, 49), (230, 450)), (1, 1.5)):
        W = random_sparse(M, K, 0.6, dtype=dtype)
        with_epilogue(TcaBme.encode(W), W, 50, relu, split_k)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_weights_that_are_not_finite_stay_in_their_rows(value) -> None:
    """Also in a place that has had other GroupTiles before."""
    W = random_sparse(384, 520, 0.5, mean=0.5)
    W[5, 110] = value  # of round 1, the pair's first row block
    A, C = TcaBme.encode(W), torch.empty(24, 384).half().T
    layout = layout_of(A, 24, 1, 1 / 3)
    assert (layout.blocks, layout.stages, A.rounds) == (1, 8, 9)
    emulator.spmm(A, activations(520, 24), C, 1 / 3)
    others = torch.arange(384) != 5
    assert C[others].isfinite().all() and not C[5].isfinite().any()


@pytest.mark.parametrize(
    "changed",
    [{"stages": 4}, {"stages": 7}, {"stages": 10}, {"stage_bytes": 528}, {"stage_bytes": 4008}],
)
def test_a_layout_that_the_kernel_does_not_have_is_refused(changed) -> None:
    """Rings too short or too long; places without room, or that copies cannot begin at."""
    A, B = TcaBme.encode(random_sparse(64, 256, 0.9)), activations(256, 24).T.contiguous()
    layout, canvas = layout_of(A, 24, 1, 1), torch.zeros(24, 64).half()
    if stage_bytes := changed.get("stage_bytes"):
        changed = {"rings": layout.rings._replace(stage_bytes=stage_bytes)}
    launch = hopper_tiles.launch_of(A, 24, replace(layout, **changed), apart)
    scratch = launch.scratch(lambda shape: apart(torch.zeros(shape)))
    launch.problem.B, launch.problem.ldb = B.data_ptr(), 256
    launch.problem.C, launch.problem.ldc = canvas.data_ptr(), 64
    with pytest.raises(RuntimeError, match="lscd_cuda_tiles_tca_bme failed with cudaError_t 1"):
        emulator.machine().run(
            *launch.call, ctypes.byref(launch.problem), None,
            read=launch.arrays | {"B": B}, written={"C": canvas, **scratch}, awaited=("B",),
        )  # fmt: skip


# --- what a trace counts ---


def test_a_trace_counts_what_the_layout_promises() -> None:
    """GroupTiles come in once for each pass; no bank is met twice by what is stored."""
    A = TcaBme.encode(random_sparse(200, 600, 0.5))
    with emulator.recording(split_k=2) as traces:
        spmm(A, activations(600, 800), backend="emulator")
    trace, passes, row_blocks = traces[0], 2, 2
    assert trace.kernels == (
        "hopper_tiles<TcaBme, __half, 224>",
        "add_parts<TcaBme, __half, 224>",
    )
    copies = total(trace, "hopper_tiles_groups.cuh", "copy", "bulk_copy")
    assert copies.lanes == passes * 4 * A.rounds * 3  # of four rows of GroupTiles
    read = sum(A.arrays[name].nbytes for name in ("bitmap", "values", "strip_offset"))
    assert passes * read <= copies.sectors * 32 <= passes * read + 64 * copies.lanes
    steps = passes * row_blocks * A.rounds
    sent = total(trace, "hopper_tiles_strip.cuh", "send", "bulk_copy")
    assert (sent.lanes, sent.wavefronts) == (8 * steps, 8 * steps * 16)
    stores = total(trace, "hopper_tiles_tca_bme.cuh", "put", "shared_store")
    assert stores.requests == 8 * steps * 4 and stores.wavefronts == 4 * stores.requests
    masks = total(trace, "hopper_tiles_tca_bme.cuh", "load", "shared_load")
    assert masks.wavefronts == masks.requests
