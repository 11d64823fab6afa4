"""The ladder: every rung is right, and counts say of each idea what it claims."""

import math

import pytest
import torch
from torch import Tensor

from lab_utils import accuracy, ladder
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.ladder import RUNGS, launch
from lab_utils.ladder.rungs import KERNELS_IN_ORDER, SOURCES
from lab_utils.patterns import random_sparse

rungs = pytest.mark.parametrize("rung", RUNGS)
dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
# Nothing divides by a tile; single rows and columns; two blocks of columns.
SHAPES = [(1, 1, 1), (1, 8, 8), (64, 64, 3), (130, 200, 9), (129, 330, 17), (300, 65, 16)]


def operands(M: int, K: int, N: int, sparsity: float, dtype=torch.float16) -> tuple[Tensor, Tensor]:
    """W [M, K] and B [K, N], whose columns are contiguous."""
    generator = torch.Generator().manual_seed(N)
    B = torch.randn(N, K, generator=generator).add_(0.5).to(dtype).T
    return random_sparse(M, K, sparsity, dtype=dtype, seed=M, mean=0.5), B


@dtypes
@rungs
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9, 1.0])
def test_every_rung_is_exact_to_rounding(rung: str, sparsity: float, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        W, B = operands(*shape, sparsity, dtype)
        accuracy.check(ladder.run(rung, W, B, backend="emulator"), W, B)


@pytest.mark.gpu
@dtypes
@rungs
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9, 1.0])
def test_every_rung_is_right_on_a_gpu(rung: str, sparsity: float, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        W, B = operands(*shape, sparsity, dtype)
        accuracy.check(ladder.run(rung, W.cuda(), B.cuda()).cpu(), W, B)


def test_shares_of_any_length_give_the_same_product() -> None:
    W, B = operands(300, 400, 16, 0.5)
    A = ladder.encode("tiled_csl_7_shares", W)
    for split_k in (1, 1 / 3, 2, 2.5, 7):
        C, trace = ladder.emulate(A, B, split_k=split_k)
        accuracy.check(C, W, B)
        assert len(trace.kernels) == (1 if split_k in (1, 1 / 3) else 2)


@pytest.fixture(scope="module")
def traces() -> dict[str, KernelTrace]:
    """What each rung does on 256 x 512 x 16, half zeros: 16 tiles of 128 x 64."""
    W, B = operands(256, 512, 16, 0.5)
    return {name: ladder.emulate(ladder.encode(name, W), B)[1] for name in RUNGS}


def wavefronts(trace: KernelTrace, *operations: str) -> int:
    operations = operations or ("shared_load", "shared_store", "ldmatrix", "cp_async")
    return sum(trace.total(operation).wavefronts for operation in operations)


def test_a_rung_launches_the_kernel_of_its_file(traces) -> None:
    for name, trace in traces.items():
        assert trace.kernels[0] == f"{RUNGS[name].kernel}<__half>"
    assert set(KERNELS_IN_ORDER) == {path.stem for path in SOURCES.glob("t*.cu")}
    assert all(f" {rung.kernel}(const __grid_const" in rung.excerpt for rung in RUNGS.values())


def test_every_rung_multiplies_the_same(traces) -> None:
    assert {t.total("mma").requests for t in traces.values()} == {16 * 32 * 2}
    assert all(t.total("ldmatrix").wavefronts == t.total("ldmatrix").least_wavefronts
               for t in traces.values())  # fmt: skip


def test_words_in_registers_need_not_pass_shared_memory(traces) -> None:
    buffered, held = traces["tiled_csl_2_sparse"], traces["tiled_csl_3_registers"]
    words = 256 * 512 // 2 * 4 // 128  # wavefronts of them, once
    assert wavefronts(buffered, "shared_load") >= words and not wavefronts(held, "shared_load")
    assert wavefronts(buffered, "cp_async") - wavefronts(held, "cp_async") >= words
    assert wavefronts(buffered, "shared_store") == wavefronts(held, "shared_store")


def test_overlap_is_no_less_work(traces) -> None:
    """Only a clock tells these rungs apart; the double buffer saves a barrier."""
    one, other, double = (traces[f"tiled_csl_{name}"] for name in
                          ("3_registers", "4_zeroing", "5_double_buffer"))  # fmt: skip
    assert wavefronts(one) == wavefronts(other) == wavefronts(double)
    assert one.total("barrier") == other.total("barrier")
    assert double.total("barrier").requests == 2 * 4 * 16 < one.total("barrier").requests
    bitmaps = (traces["tca_bme_2_running_count"], traces["tca_bme_3_pipeline"])
    assert wavefronts(bitmaps[0]) == wavefronts(bitmaps[1])


@pytest.mark.parametrize("pattern", ["random", "clustered", "row_skewed"])
def test_reordered_words_scatter_with_hardly_a_conflict(pattern: str) -> None:
    W, B = random_sparse(256, 256, 0.5, pattern=pattern), operands(1, 256, 16, 0.5)[1]
    before, after = (
        ladder.emulate(ladder.encode(f"tiled_csl_{name}", W), B)[1].total("shared_store")
        for name in ("5_double_buffer", "6_reordered")
    )
    assert (before.lanes, before.requests) == (after.lanes, after.requests)
    least = after.least_wavefronts
    assert after.wavefronts - least < (before.wavefronts - least) / 4


def test_shares_pay_with_partial_sums(traces) -> None:
    rows, shared = traces["tiled_csl_6_reordered"], traces["tiled_csl_7_shares"]
    assert wavefronts(rows) == wavefronts(shared)
    assert shared.kernels[1] == "add_partials<__half>"
    assert shared.total("global_store").sectors > rows.total("global_store").sectors


def test_a_running_count_counts_each_bitmap_once(traces) -> None:
    """17 popcounts of a lane for an average 8 x 8 tile become two."""
    tiles = 256 * 512 // 64
    one, other = (traces[f"tca_bme_{name}"] for name in ("1_two_popcounts", "2_running_count"))
    assert one.total("popcount").requests == 17 * tiles
    assert other.total("popcount").requests == 2 * tiles
    assert wavefronts(other, "shared_load") < wavefronts(one, "shared_load") / 6


def test_refusals() -> None:
    W, B = operands(64, 64, 8, 0.5)
    with pytest.raises(ValueError, match="rung='dense': unknown; allowed: tiled_csl_1_dense, "):
        ladder.encode("dense", W)
    with pytest.raises(ValueError, match="backend='cpu'; allowed: cuda, emulator"):
        ladder.run("tca_bme_3_pipeline", W, B, backend="cpu")
    with pytest.raises(ValueError, match=r"B has shape \(63, 8\)"):
        ladder.run("tca_bme_3_pipeline", W, B[:63], backend="emulator")
    for watch in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=f"watch={watch}: allowed: None, or the number"):
            ladder.emulate(ladder.encode("tca_bme_3_pipeline", W), B, watch=watch)
    with pytest.raises(ValueError, match="A is on cpu, B on cpu; allowed: both on cuda"):
        ladder.run("tca_bme_3_pipeline", W, B)
    for rung in ("tiled_csl_7_shares", "tca_bme_3_pipeline"):
        A = ladder.encode(rung, W)
        for split_k in (-3, 0, math.nan, math.inf):
            with pytest.raises(ValueError, match=f"split_k={split_k}: allowed: a number above 0"):
                ladder.emulate(A, B, split_k=split_k)


def test_results_are_looked_at_before_anything_else(monkeypatch) -> None:
    W, B = operands(64, 64, 8, 0.5)
    monkeypatch.setattr(launch, "_check", lambda *operands: None)  # which wants a GPU
    A, C = ladder.encode("tca_bme_3_pipeline", W), torch.empty(8, 64).half().T
    for wrong in (C[:32], C.float(), torch.empty(64, 8).half(), C.to("meta")):
        with pytest.raises(
            ValueError, match=r"C is .*; allowed: torch.float16 \(64, 8\) on cpu, st"
        ):
            ladder.spmm(A, B, wrong)


@pytest.mark.parametrize("backend", ["cuda", "emulator"])
def test_operands_are_looked_at_before_anything_else(backend: str) -> None:
    W, B = operands(64, 64, 8, 0.5)
    for wrong in (B[:, 0], B[None], B.float()):
        with pytest.raises(ValueError, match=r"B has shape .*; allowed: \[64, N\], torch.float16"):
            ladder.run("tca_bme_3_pipeline", W, wrong, backend)
    with pytest.raises(ValueError, match=r"B is a list; allowed: a tensor \[64, N\]"):
        ladder.run("tca_bme_3_pipeline", W, B.tolist(), backend)


def test_kernels_in_the_emulator_begin_among_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they do not write shows in C, and so does padding that they read."""
    found: dict[str, Tensor] = {}

    class Idle:
        library = launch.machine().library

        def run(self, *_: object, read: dict, written: dict, watch: None) -> None:
            found.update(read | written)

    monkeypatch.setattr(launch, "machine", Idle)
    W, B = operands(65, 65, 9, 0.5)
    C, _ = ladder.emulate(ladder.encode("tiled_csl_7_shares", W), B)
    assert C.isnan().all() and found["partial"].numel() and found["partial"].isnan().all()
    assert torch.equal(found["B"], B.T) and found["B"].stride() == (72, 1)
    assert found["B"].as_strided((9, 7), (72, 1), found["B"].storage_offset() + 65).isnan().all()


def test_every_rung_says_what_it_is() -> None:
    for name, rung in RUNGS.items():
        assert rung.name == name and rung.title and rung.idea
        assert rung.ladder in name and rung.source.startswith("// Rung")
