"""The Hopper kernel on the host: every compiled variant, its traces, its refusals."""

import ctypes
import functools
import itertools
from pathlib import Path

import pytest
import torch
from emulated import DTYPES, activations, machine_of, product, with_epilogue
from torch import Tensor

from lab_utils import encode, explain, spmm
from lab_utils.analysis.zero_row_24 import Streams, has_levels, piece_cols
from lab_utils.backends import cuda, emulator, hopper
from lab_utils.backends.launch import Epilogue
from lab_utils.backends.simt import Machine
from lab_utils.formats import ZeroRow24
from lab_utils.patterns import PATTERNS, random_sparse

kinds = pytest.mark.parametrize("streams", [one.name.lower() for one in Streams])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@kinds
def test_every_width_and_tail(streams, dtype) -> None:
    """N = 1 to 64 and in passes beyond; M and K that no tile divides; slices that end early."""
    for N, (M, K, cols) in itertools.product(
        (1, 8, 9, 16, 17, 33, 64, 70),
        ((65, 49, piece_cols(Streams.named(streams))), (130, 250, 144)),
    ):
        W = random_sparse(M, K, 0.6, dtype=dtype, seed=N, mean=0.5)
        product(ZeroRow24.encode(W, cols, streams), W, N)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_epilogues_come_before_rounding(relu, dtype) -> None:
    for N, (M, K) in itertools.product((1, 8, 16, 33, 70), ((65, 49), (130, 250))):
        W = random_sparse(M, K, 0.6, dtype=dtype, seed=N)
        for streams in ("pairs" if N > 8 else "packed", "nested"):
            with_epilogue(ZeroRow24.encode(W, 144, streams), W, N, relu)


def test_a_kernel_without_epilogue_says_so() -> None:
    W, B, C = random_sparse(64, 64, 0.6), activations(64, 8), torch.empty(64, 8).half()
    with pytest.raises(RuntimeError, match="lscd_cuda_spmm only rounds its sums; allowed: NO_EPI"):
        emulator.spmm(encode(W, "tca_bme"), B, C, epilogue=Epilogue(relu=True))


@kinds
@pytest.mark.parametrize("sparsity", [0.0, 0.02, 0.3, 0.7, 0.95, 1.0])
def test_every_sparsity(sparsity, streams) -> None:
    dtype = DTYPES[streams == "pairs"]
    W = random_sparse(100, 300, sparsity, dtype=dtype, mean=0.5)
    product(ZeroRow24.encode(W, streams=streams), W, 8)


@pytest.mark.parametrize("streams", ["pairs", "sixes", "nested"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_with_a_dense_tile(pattern, streams) -> None:
    W = random_sparse(200, 400, 0.7, pattern=pattern, mean=0.5)
    W[64:128, 48:200] = 1.5
    product(ZeroRow24.encode(W, streams=streams), W, 16, split_k=3)


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 1.0])
def test_middle_weights_in_level_1_and_in_lists(sparsity, levels) -> None:
    """Slices that end inside of a chunk of level 1: rows of B behind them are zeros."""
    for N, (M, K, cols), streams in itertools.product(
        (8, 16, 32, 64), ((70, 40, 48), (65, 250, 192)), ("packed", "pairs")
    ):
        W = random_sparse(M, K, sparsity, seed=N, mean=0.5)
        product(ZeroRow24.encode(W, cols, streams, levels=levels), W, N, split_k=2)


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_middle_weights_of_clustered_masks(pattern, levels) -> None:
    W = random_sparse(130, 300, 0.5, pattern=pattern, mean=0.5)
    W[64:128, 48:200] = 1.5
    for streams in ("packed", "pairs"):
        A = ZeroRow24.encode(W, 192, streams, levels=levels)
        product(A, W, 8, split_k=3)


def test_copies_of_two_chunks() -> None:
    """What `hopper.layout_of` chooses where chunks are small; shares with odd numbers of chunks."""
    W = random_sparse(300, 700, 0.95, mean=0.5)
    for streams, N, split_k in itertools.product(("pairs", "sixes"), (8, 16), (1, 2, 5)):
        A = ZeroRow24.encode(W, 336, streams)
        assert hopper.layout_of(A, N).copy == (1 if streams == "sixes" else 2)
        product(A, W, N, split_k)


def test_rings_of_any_length() -> None:
    """Slices so long that few copies fit, and so short that rings are as long as can be."""
    W = random_sparse(64, 8000, 0.0, mean=0.5)
    A = ZeroRow24.encode(W, slice_cols=8016)
    assert hopper.layout_of(A, 8).stages == 1
    product(A, W, 8)
    W = random_sparse(200, 480, 0.97, mean=0.5)
    A = ZeroRow24.encode(W)
    assert hopper.layout_of(A, 64).stages == hopper.MOST_STAGES
    product(A, W, 64)


def test_wide_products_fit_by_narrower_blocks() -> None:
    A = ZeroRow24.encode(random_sparse(64, 4800, 0.5), slice_cols=2400)
    widths = {N: hopper.layout_of(A, N).block_n for N in (1, 8, 9, 32, 64, 512)}
    assert widths == {1: 8, 8: 8, 9: 16, 32: 16, 64: 16, 512: 16}
    for N in widths:
        layout = hopper.layout_of(A, N)
        assert layout.stages >= 2 and layout.shared_bytes <= hopper.SHARED_BYTES
    A = ZeroRow24.encode(random_sparse(64, 20000, 0.5), slice_cols=20016)
    with pytest.raises(
        RuntimeError, match="slices of 20016 columns and chunks of .* smaller slice_cols"
    ):
        spmm(A, activations(20000, 8), backend="emulator")


def test_a_trace_counts_what_the_layout_promises() -> None:
    W = random_sparse(256, 480, 0.6)
    A = ZeroRow24.encode(W, streams="packed", levels=0)
    with emulator.recording() as traces:
        spmm(A, activations(480, 16), backend="emulator")
    trace, chunks = traces[0], hopper.chunks_of(A)
    product, sums = trace.kernels  # of packed streams, kind 0
    assert product == "hopper_mma<__half, 16, (Kind)0, 1>" and sums == "add_segments<__half, 16, 2>"
    assert trace.total("bmma").requests == 8 * chunks
    assert trace.total("mma_sp").requests == 4 * 2 * 2 * chunks  # tiles, steps, eights of columns
    copied = trace.total("bulk_copy")
    assert copied.sectors == copied.least_sectors == A.arrays["data"].nbytes / 32
    assert copied.wavefronts == sum(
        -(-size // 8) for size in A.arrays["chunk_start"].diff().tolist()
    )
    gathers = [p for p in trace.lines if p.function == "gather"]
    assert sum(trace.lines[p].requests for p in gathers) == 2 * 4 * 8 * chunks
    places = {(p.function, p.operation) for p in trace.lines}
    assert {("smem2tc", "ldmatrix"), ("smem2tc_listed", "ldmatrix"), ("ld_sparse", "bulk_copy"),
            ("transpose", "stmatrix"), ("extract", "bmma")} <= places  # fmt: skip
    regular = [
        trace.lines[p] for p in trace.lines if (p.function, p.operation) == ("smem2tc", "ldmatrix")
    ]
    assert sum(r.wavefronts for r in regular) == 4 * sum(r.requests for r in regular)


@pytest.mark.parametrize("N", [8, 16, 32, 64])
def test_rows_of_level_1_meet_in_no_bank(N) -> None:
    A = ZeroRow24.encode(random_sparse(64, 480, 0.7), levels=1)
    with emulator.recording() as traces:
        spmm(A, activations(480, N), backend="emulator")
    loads = [
        counts for place, counts in traces[0].lines.items()
        if (place.function, place.operation) == ("smem2tc", "ldmatrix")
    ]  # fmt: skip
    assert sum(one.requests for one in loads) == (10 + 4) * 2 * N // 8
    assert all(one.wavefronts == 4 * one.requests for one in loads)


def test_explain_names_slices_and_shares() -> None:
    A = ZeroRow24.encode(random_sparse(256, 480, 0.9), slice_cols=240)
    plan = explain(A, activations(480, 100), backend="emulator")
    assert plan.kernel == "zero_row_24_mma"
    assert plan.choices["slices"].startswith("2 of K, 240 columns each (as A was encoded)")
    assert plan.choices["columns"] == "2 x 64 of C; A is read 2 times"
    assert "chunks each: equal costs" in plan.choices["shares"]
    assert "row of zeros" in plan.choices["values"]


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_weights_that_are_not_finite_are_refused(value) -> None:
    W = random_sparse(64, 96, 0.5)
    W[3, 5] = value
    A, B = encode(W, "zero_row_24"), activations(96, 8)
    for call in (spmm, explain):
        with pytest.raises(ValueError, match="infinite or NaN weight, .* encode A as tca_bme"):
            call(A, B, backend="emulator")


def test_activations_that_are_not_finite_stay_in_their_products() -> None:
    """An infinity in B meets the weights of its row only, never a slot that is not in use."""
    W, B = random_sparse(64, 96, 0.8), activations(96, 8).contiguous()
    B[7, 3] = torch.inf
    C = spmm(encode(W, "zero_row_24"), B, backend="emulator")
    assert torch.equal(~C.isfinite(), (W[:, 7] != 0)[:, None] & (torch.arange(8) == 3))


# --- what the kernel needs of the GPU ---


@pytest.fixture
def h200(monkeypatch) -> None:
    """What backend cuda asks of the GPU; its plan is made, but nothing can be launched."""
    monkeypatch.setattr(cuda, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(cuda, "format_problem", lambda *_: None)
    monkeypatch.setattr(cuda, "_failed_selections", lambda *_: 0)


def test_the_plan_for_a_gpu_fills_it(h200) -> None:
    A = ZeroRow24.encode(random_sparse(1000, 9216, 0.7), slice_cols=2304)
    plan = cuda.plan(A, activations(9216, 16))
    assert plan.choices["blocks"].startswith("132 of 512 threads, ")
    assert plan.choices["slices"].startswith("4 of K, 2304 columns each")
    assert "2112 warps" in plan.choices["shares"]
    launch = hopper.launch_of(A, 16, cuda._layout(A, 16, None))
    again = hopper.launch_of(A, 16, cuda._layout(A, 16, plan.split_k))  # as lab anatomy asks for
    assert (launch.problem.blocks_per_slice, launch.problem.warps) == (33, 16)
    assert again.problem.blocks_per_slice == 33
    assert launch.sums == (1, 4 * (33 * 16 + 16), 16, 64)
    used = 16 * launch.problem.stages * launch.problem.stage_bytes
    assert launch.problem.stages > 1 and used + 2304 * 32 + 1024 <= hopper.SHARED_BYTES


def test_weights_are_refused_before_a_gpu_is_asked(h200) -> None:
    W = random_sparse(64, 96, 0.5)
    W[0, 0] = torch.inf
    with pytest.raises(ValueError, match="infinite or NaN weight"):
        cuda.plan(encode(W, "zero_row_24"), activations(96, 8))


def selections(machine: Machine) -> Tensor:
    """What the self-test finds: wrong elements of fp16, steps 0 and 1, and of bf16."""
    wrong = torch.full((hopper.PROBES,), -1, dtype=torch.int32)
    machine.run("lscd_cuda_select", ctypes.c_void_p(wrong.data_ptr()), None, read={},
                written={"wrong": wrong})  # fmt: skip
    return wrong


def test_the_self_test_passes_where_metadata_selects() -> None:
    assert not selections(emulator.machine()).any()


def test_the_self_test_notices_other_tensor_cores(tmp_path: Path) -> None:
    """In every dtype and step, where metadata does more than select."""
    machine = machine_of("other_tensor_core", tmp_path)
    assert bool(selections(machine).view(4, -1).ne(0).any(1).all())


@pytest.fixture(scope="module")
def promised(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A GPU whose tensor cores select by no other metadata than PTX promises."""
    return machine_of("documented", tmp_path_factory.mktemp("documented"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@kinds
def test_documented_metadata_is_enough(streams, dtype, promised, monkeypatch) -> None:
    """Groups without values, lone values in both slots, level 1 and lists; in passes."""
    monkeypatch.setattr(emulator, "machine", lambda: promised)
    few = functools.partial(hopper.layout_of, documented=True)
    monkeypatch.setattr(hopper, "layout_of", few)
    for sparsity, (N, levels) in itertools.product((0.0, 0.6, 0.95, 1.0), ((1, 0), (20, 1))):
        W = random_sparse(130, 250, sparsity, dtype=dtype, seed=N, mean=0.5)
        level = levels if has_levels(Streams.named(streams)) else None
        A = ZeroRow24.encode(W, 144, streams, levels=level)
        product(A, W, N, split_k=2)


@kinds
def test_other_metadata_is_in_use_by_default(streams, promised, monkeypatch) -> None:
    monkeypatch.setattr(emulator, "machine", lambda: promised)
    A = ZeroRow24.encode(random_sparse(64, 96, 0.8), streams=streams)
    assert bool(spmm(A, activations(96, 8), backend="emulator").isnan().any())


def test_gpus_that_select_otherwise_get_the_documented_kernel(h200, monkeypatch) -> None:
    monkeypatch.setattr(cuda, "_failed_selections", lambda *_: 3)
    A = ZeroRow24.encode(random_sparse(130, 480, 0.7))
    with cuda.forced("fused"):
        plan = cuda.plan(A, activations(480, 16))
    assert plan.choices["columns"] == "2 x 8 of C; A is read 2 times"
    assert plan.choices["values"].endswith("; only metadata that PTX promises to select")
    assert hopper.launch_of(A, 16, cuda._layout(A, 16, None)).problem.documented == 1


def test_other_gpus_are_refused_by_name(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA A100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    device = torch.device("cuda", 0)
    assert cuda.format_problem("tca_bme", device) is None
    told = cuda.format_problem("zero_row_24", device)
    assert told.startswith(
        "zero_row_24 needs sm_90 (H100, H200); NVIDIA A100 is sm_80: encode A as"
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(cuda, "_failed_selections", lambda *_: 5)
    assert cuda.format_problem("zero_row_24", device) is None
