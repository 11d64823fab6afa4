"""The wgmma kernel on the host: every compiled variant, its traces, its refusals.

What is of lane_24_strips alone stands in test_emulator_hopper_lanes.py.
"""

import ctypes
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from emulated import DTYPES, activations, machine_of, product, with_epilogue
from torch import Tensor

from lab_utils import accuracy, encode, explain, spmm
from lab_utils.backends import cuda, emulator, hopper_wgmma, strip_layouts
from lab_utils.backends.launch import Launch
from lab_utils.backends.simt import Machine
from lab_utils.formats import BitmapStrips, Lane24Strips, ZeroRow24Strips
from lab_utils.patterns import PATTERNS, random_sparse

WIDTHS = (1, 17, 25, 33, 41, 49, 64, 70, 90, 100, 120, 130, 170)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("levels", [0, 1])
def test_every_width_and_tail(levels, dtype) -> None:
    """All blocks, and passes; M and K that no chunk divides; last strips without rows."""
    for N, (M, K) in itertools.product(WIDTHS, ((65, 193), (200, 800))):
        W = random_sparse(M, K, 0.6, dtype=dtype, seed=N, mean=0.5)
        product(ZeroRow24Strips.encode(W, levels=levels), W, N)


@pytest.mark.parametrize("sparsity", [0.0, 0.02, 0.3, 0.7, 0.95, 1.0])
def test_every_sparsity(sparsity) -> None:
    for levels, dtype in zip((0, 1), DTYPES, strict=True):
        W = random_sparse(100, 500, sparsity, dtype=dtype, mean=0.5)
        product(ZeroRow24Strips.encode(W, levels=levels), W, 32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("format, sparsity", [(ZeroRow24Strips, 0.6), (Lane24Strips, 0.9)])
def test_epilogues_come_before_rounding(format, sparsity, relu, dtype) -> None:
    """In row blocks of one thread block, and in those of several, whose sums are added up."""
    for N, (M, K), split_k in itertools.product((24, 150), ((65, 49), (330, 450)), (1, 1.5)):
        W = random_sparse(M, K, sparsity, dtype=dtype, seed=N)
        with_epilogue(format.encode(W), W, N, relu, split_k)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("format, sparsity", [(ZeroRow24Strips, 0.7), (Lane24Strips, 0.9)])
def test_masks_with_a_dense_tile(format, sparsity, pattern) -> None:
    W = random_sparse(300, 700, sparsity, pattern=pattern, mean=0.5)
    W[64:128, 48:200] = 1.5
    product(format.encode(W), W, 40, split_k=3)


@pytest.mark.parametrize(
    "format, K, cases",
    [
        (ZeroRow24Strips, 2500, ((0.0, 64, 1, 2), (0.5, 24, 2, 6))),
        (Lane24Strips, 2900, ((0.6, 64, 2, 2), (0.0, 64, 1, 4), (0.97, 56, 2, 5))),
    ],
)
def test_rings_and_tiles_come_around(format, K, cases) -> None:
    """Refilled many times, with as few stages and tiles as there can be; segments of all kinds."""
    for sparsity, N, stages, tiles in cases:
        W = random_sparse(300, K, sparsity, mean=0.5)
        A = format.encode(W)
        layout = hopper_wgmma.layout_of(A, N, 1, None)
        assert (layout.stages, layout.tile_slots) == (stages, tiles)
        for split_k in (1.5, 4):
            product(A, W, N, split_k)


def test_stages_that_begin_anywhere_in_a_line() -> None:
    """Where only they leave room for two of the largest chunks in a wide block's rings."""
    W = random_sparse(250, 1000, 0.33, mean=0.5)
    A = ZeroRow24Strips.encode(W)
    layout = hopper_wgmma.layout_of(A, 120, 1, None)
    assert 4096 < A.largest_chunk <= layout.stage_bytes == 4176
    assert (layout.block_n, layout.stages) == (128, 2)
    product(A, W, 120, split_k=1.5)


@pytest.mark.parametrize("levels", [0, 1])
def test_a_trace_counts_what_the_layout_promises(levels) -> None:
    A = ZeroRow24Strips.encode(random_sparse(512, 960, 0.6), levels=levels)
    with emulator.recording(split_k=3) as traces:
        spmm(A, activations(960, 64), backend="emulator")
    trace, chunks = traces[0], A.strips * A.rounds
    assert trace.kernels == (
        "expand_dense<ZeroRowStrips, 64>", "hopper_wgmma<ZeroRowStrips, __half, 64, 16>",
        "add_slots<__half, 64, 16>",
    )  # fmt: skip
    assert trace.total("bmma").requests == trace.total("wgmma_sp").requests == 8 * chunks
    copies = [(p.function, trace.lines[p]) for p in trace.lines if p.operation == "bulk_copy"]
    assert sum(copy.lanes for name, copy in copies if name == "ld_sparse") == chunks
    tiles = sum(copy.sectors for name, copy in copies if name == "ld_dense")
    assert tiles == 2 * A.rounds * 256 * 128 / 32  # once for each row block
    gathers = [p for p in trace.lines if p.function == "gather"]
    assert sum(trace.lines[p].requests for p in gathers) == 32 * chunks
    entries = [p for p in trace.lines if (p.function, p.operation) == ("add_to", "ldmatrix")]
    reads = [trace.lines[p] for p in entries]
    assert sum(r.wavefronts for r in reads) == 4 * sum(r.requests for r in reads) > 0
    assert trace.total("mma").requests == 4 * sum(r.requests for r in reads)


def test_explain_names_the_blocks_and_the_format_for_few_columns() -> None:
    A = ZeroRow24Strips.encode(random_sparse(600, 480, 0.9))
    plan = explain(A, activations(480, 190), backend="emulator")
    assert plan.kernel == "zero_row_24_strips_wgmma"
    assert plan.choices["columns"] == "2 x 96 of C, side by side, each of which reads A"
    assert plan.choices["shares"].startswith("4 row blocks of 192, 3 rounds each: 3.0 rounds")
    assert plan.choices["values"].endswith("entries of their chunks")
    few = explain(A, activations(480, 16), backend="emulator").choices["columns"]
    assert few == "24 of C at once; for 16 columns and fewer, zero_row_24 is the format"


@pytest.mark.parametrize(
    "split_k, told",
    [
        (1, "of each row block in one thread block"),
        (2, "partial ones in 1 slots; the owner of a row block"),
        (3, "partial ones in 3 slots; a kernel of its own"),
    ],
)
def test_explain_says_who_adds_partial_sums(split_k, told) -> None:
    A = ZeroRow24Strips.encode(random_sparse(256, 576, 0.9))
    with emulator.recording(split_k=split_k) as traces:
        plan = explain(A, activations(576, 64), backend="emulator")
        spmm(A, activations(576, 64), backend="emulator")
    assert plan.choices["sums"].startswith(told)
    assert any(name.startswith("add_slots") for name in traces[0].kernels) == (split_k == 3)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_weights_that_are_not_finite_are_refused(value) -> None:
    W = random_sparse(64, 96, 0.5)
    W[3, 5] = value
    A, B = encode(W, "zero_row_24_strips"), activations(96, 24)
    for call in (spmm, explain):
        with pytest.raises(ValueError, match="zero_row_24_strips cannot multiply; encode A as tca"):
            call(A, B, backend="emulator")


def test_activations_that_are_not_finite_stay_in_their_products() -> None:
    """An infinity in B meets the weights of its row, never a slot that is not in use."""
    W, B = random_sparse(64, 96, 0.5, pattern="two_four"), activations(96, 24).contiguous()
    W[:, 2::3] = 0  # no group has three weights
    B[7, 3] = torch.inf
    C = spmm(encode(W, "zero_row_24_strips"), B, backend="emulator")
    assert torch.equal(~C.isfinite(), (W[:, 7] != 0)[:, None] & (torch.arange(24) == 3))


@pytest.mark.parametrize("format", [ZeroRow24Strips, Lane24Strips, BitmapStrips])
def test_flags_may_be_anything_before(monkeypatch, format) -> None:
    """Nobody clears them: who has waited for one takes it away, so that launches leave none."""
    W, B = random_sparse(700, 900, 0.8, mean=0.5), activations(900, 40)
    memory: dict[tuple, Tensor] = {}

    def scratch(launch: Launch, new: Callable, own: Callable = Launch.scratch) -> dict:
        return own(launch, lambda shape: memory.setdefault(shape, new(shape).fill_(1)))

    monkeypatch.setattr(Launch, "scratch", scratch)
    A = format.encode(W)
    with emulator.recording(split_k=1.5) as traces:
        C, again, third = (spmm(A, B, backend="emulator") for _ in range(3))
    kernels = {trace.kernels[-1].split("<")[0] for trace in traces}
    assert kernels == {"hopper_wgmma"}  # the owners of row blocks add their sums
    accuracy.check(C, W, B)
    assert torch.equal(C, again) and torch.equal(C, third)


# --- what the kernel needs of the GPU ---


@pytest.fixture
def h200(monkeypatch) -> None:
    """What backend cuda asks of the GPU; its plan is made, but nothing can be launched."""
    monkeypatch.setattr(cuda, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(cuda, "format_problem", lambda *_: None)


def test_the_plan_for_a_gpu_fills_it(h200) -> None:
    A = ZeroRow24Strips.encode(random_sparse(3000, 2304, 0.7))
    with cuda.forced("fused"):
        plan = cuda.plan(A, activations(2304, 64))
    assert plan.choices["blocks"].startswith("132 of 512 threads, ")
    assert plan.split_k == 132 / 12
    launch = hopper_wgmma.launch_of(A, 64, cuda._layout(A, 64, None))
    again = hopper_wgmma.launch_of(A, 64, cuda._layout(A, 64, plan.split_k))  # as lab anatomy
    assert launch.problem.blocks == again.problem.blocks == 132
    assert launch.sums == (1, launch.problem.slots, 64 * 256 + 2 * 16)  # a flag a warp, too
    assert launch.more == {"tiles": (1, 16, 256, 32)}
    rings = 16 * launch.problem.stages * launch.problem.stage_bytes
    tiles = launch.problem.tile_slots * 256 * 128
    assert rings + tiles + strip_layouts.HEAD_BYTES <= strip_layouts.SHARED_BYTES


@pytest.mark.parametrize(
    "N, width, passes", [(64, 64, 1), (128, 128, 1), (300, 160, 2), (2048, 160, 13)]
)
def test_passes_stand_side_by_side(h200, N: int, width: int, passes: int) -> None:
    A = ZeroRow24Strips.encode(random_sparse(3000, 2304, 0.7))
    layout = cuda._layout(A, N, None)
    assert (layout.block_n, layout.passes, layout.blocks) == (width, passes, 132 // passes)
    blocks = hopper_wgmma.choices(A, N, layout)["blocks"]
    side_by_side = f"{passes} x " if passes > 1 else ""
    assert blocks.startswith(f"{side_by_side}{132 // passes} of {32 * layout.warps} threads, ")


def test_more_passes_than_multiprocessors_have_a_thread_block_each() -> None:
    A = ZeroRow24Strips.encode(random_sparse(64, 192, 0.7))
    assert hopper_wgmma.layout_of(A, 1000, 4, None).blocks == 1


def selections(machine: Machine) -> Tensor:
    """What the self-test finds: wrong elements by width, then fp16 and bf16, steps 0 and 1."""
    wrong = torch.full((hopper_wgmma.PROBES,), -1, dtype=torch.int32)
    machine.run("lscd_cuda_wgmma_select", ctypes.c_void_p(wrong.data_ptr()), None, read={},
                written={"wrong": wrong})  # fmt: skip
    return wrong


def test_the_self_test_passes_where_metadata_selects() -> None:
    assert not selections(emulator.machine()).any()


def test_the_self_test_notices_other_tensor_cores(tmp_path: Path) -> None:
    """In every width, dtype and step, where metadata does more than select."""
    machine = machine_of("other_warpgroup", tmp_path)
    widths = len(strip_layouts.ALL_WIDTHS[strip_layouts.FORMAT])
    assert bool(selections(machine).view(widths * 4, -1).ne(0).any(1).all())


def test_other_gpus_are_refused_by_name(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA A100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    device = torch.device("cuda", 0)
    told = cuda.format_problem("zero_row_24_strips", device)
    assert told.startswith("zero_row_24_strips needs sm_90 (H100, H200); NVIDIA A100 is sm_80: ")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(cuda, "_failed_selections", lambda *_: 5)
    for format in ("zero_row_24_strips", "lane_24_strips"):
        told = cuda.format_problem(format, device)
        assert "needs wgmma.sp as its self-test wants it; on NVIDIA A100, 5 of 1408 results" in told


@pytest.mark.parametrize("format", ["bitmap_strips", "coded_strips"])
def test_products_of_dense_registers_select_nothing(monkeypatch, format: str) -> None:
    """So no self-test is run for them, which the first product in a CUDA graph could not."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))

    def tested(format: str, device: torch.device) -> int:
        raise AssertionError(f"{format} needs no self-test")

    monkeypatch.setattr(cuda, "_failed_selections", tested)
    assert cuda.format_problem(format, torch.device("cuda", 0)) is None
