"""The end of the Hopper kernel: who adds up what warps have of the same rows, waiting where."""

import pytest
import torch
from emulated import activations
from torch import Tensor

from lab_utils import accuracy
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends import emulator, hopper
from lab_utils.formats import ZeroRow24
from lab_utils.patterns import random_sparse

SM_BYTES, OF_EACH_BLOCK = 228 * 1024, 1024  # shared memory, and what CUDA has of it
WAITING = {8: 2, 16: 1}  # blocks of add_segments beside one of the product, by its columns
KINDS = ["packed", "sixes", "nested"]


def bounds_bytes(slices: int) -> int:
    """Of a block of add_segments."""
    return -(-slices * 8 // 128) * 128


def launched(A: ZeroRow24, B: Tensor, blocks: int) -> tuple[Tensor, KernelTrace]:
    """A · B by so many thread blocks for each slice, and the trace."""
    N, rows = B.shape[1], -(-A.shape[0] // 64)
    C = torch.empty(N, A.shape[0], dtype=B.dtype).T
    warps = hopper.layout_of(A, N).warps * hopper.slices_of(A) * blocks
    with emulator.recording() as traces:
        emulator.spmm(A, B, C, warps / rows)
    return C, traces[0]


@pytest.mark.parametrize(("columns", "beside", "slices"), [(8, 2, 64), (16, 1, 128), (16, 2, 64)])
def test_what_the_product_leaves_is_enough(columns, beside, slices) -> None:
    """Whatever its layout: on an SM stand its block and those that wait, with so many slices."""
    product = OF_EACH_BLOCK + hopper.SHARED_BYTES - hopper.SUMS_BYTES[beside]
    waiting = beside * (OF_EACH_BLOCK + bounds_bytes(slices))
    assert product + waiting <= SM_BYTES < product + waiting + 1024
    for stage in range(128, 8192, 128):
        layout = hopper.Layout(columns, Streams.NESTED, 2304, 1, stage, beside)
        assert layout.stages == 0 or OF_EACH_BLOCK + layout.shared_bytes <= product


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("N", [1, 8, 16, 32])
def test_the_product_asks_for_memory_beside_it(N, kind) -> None:
    """For as much as those that wait need: CUDA would give it no more than its own blocks take."""
    A = ZeroRow24.encode(random_sparse(64, 2880, 0.8), 1440, kind)
    _, trace = launched(A, activations(2880, N), 1)
    layout = hopper.layout_of(A, N)
    need = OF_EACH_BLOCK + layout.shared_bytes
    waiting = WAITING.get(layout.block_n, 0)
    if kind in ("sixes", "nested") and waiting:
        waiting = 2
    need += waiting * (OF_EACH_BLOCK + bounds_bytes(2))
    percent = -(-100 * need // SM_BYTES) if waiting else 0
    assert trace.carveouts == (percent, 0)


@pytest.mark.parametrize("M", [450, 512])
@pytest.mark.parametrize(
    ("N", "blocks", "threads"),
    [(8, 1, 2), (8, 2, 1), (7, 3, 1), (8, 4, 2), (16, 7, 2), (15, 8, 1), (16, 15, 1), (16, 16, 2)],
)
def test_one_thread_adds_where_blocks_of_two_would_not_wait(N, blocks, threads, M) -> None:
    W = random_sparse(M, 400, 0.6, mean=0.5)
    A, B = ZeroRow24.encode(W, slice_cols=240), activations(400, N)
    C, trace = launched(A, B, blocks)
    accuracy.check(C, W, B)
    assert trace.kernels[1] == f"add_segments<__half, {8 if N <= 8 else 16}, {threads}>"


def test_one_thread_or_two_give_the_same_bits() -> None:
    """Of sums that cancel, so that nothing but what was rounded in some order is left."""
    W = random_sparse(512, 960, 0.3, mean=0.5)
    W[:, 480:] = -W[:, :480]
    A = ZeroRow24.encode(W, slice_cols=240)
    half = activations(480, 8) * 50
    B = torch.cat([half, half]).T.contiguous().T
    (C, by_one), (few, by_two) = (launched(A, B[:, :N], 1) for N in (8, 4))
    assert [trace.kernels[1][-2] for trace in (by_one, by_two)] == ["1", "2"]
    assert few.count_nonzero() > 100
    assert torch.equal(C[:, :4], few)


def test_more_slices_than_can_be_added_are_refused() -> None:
    A = ZeroRow24.encode(random_sparse(1, 48 * (hopper.MOST_SLICES + 1), 0.9), slice_cols=48)
    with pytest.raises(ValueError, match="A has 6145 slices of 48 columns; allowed: 6144, by a l"):
        launched(A, activations(A.shape[1], 1), 1)
