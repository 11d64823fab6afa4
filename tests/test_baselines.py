"""The baselines: what can be said of them anywhere, and their products on a GPU, every element."""

import ctypes
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from lab_utils import accuracy
from lab_utils.baselines import BASELINES, bandwidth, csr_simt, cublaslt, gemv, sparta, two_four
from lab_utils.baselines.base import check_activations, check_weights
from lab_utils.baselines.cublas import exact_sums
from lab_utils.baselines.fastest import fastest
from lab_utils.formats import encode
from lab_utils.patterns import random_sparse

DTYPES = [torch.float16, torch.bfloat16]
COLUMNS = [1, 3, 8, 16, 64, 130]
# Nothing divides anything, then what cuSPARSELt takes.
SHAPES = [(1, 1), (33, 77), (131, 200), (257, 1003), (64, 128), (1024, 1024)]
SPARSITIES = [0.0, 0.5, 0.9, 1.0]


def activations(K: int, N: int, dtype: torch.dtype) -> Tensor:
    """B [K, N] with a mean, its columns contiguous, on the GPU."""
    generator = torch.Generator().manual_seed(K + N)
    return torch.randn(N, K, generator=generator).add_(0.5).to(dtype).cuda().T


def judge(name: str, represented: Tensor, W: Tensor, B: Tensor) -> accuracy.Judge:
    """What C may be: of SparTA, the first part of the sum may have been rounded before."""
    expected = accuracy.Judge(represented, B)
    if name == "sparta":
        part = (sparta.split(W)[0].double() @ B.double()).abs()
        expected.allowed += 1.01 * accuracy.ROUNDING[W.dtype] * part
    return expected


def bound(name: str, M: int, K: int, N: int, sparsity: float, dtype: torch.dtype):
    """A bound baseline and its judge; None where the baseline says that it cannot."""
    W = random_sparse(M, K, sparsity, dtype=dtype, seed=M + N, mean=0.5).cuda()
    B = activations(K, N, dtype)
    baseline = BASELINES[name]
    if baseline.problem(W, N):
        return None
    operand = baseline.prepare(W)
    return baseline.bind(operand.clone(), B), judge(name, operand.represented(), W, B)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", COLUMNS)
@pytest.mark.parametrize("name", BASELINES)
def test_product_is_exact_to_rounding(name: str, N: int, dtype: torch.dtype) -> None:
    ran = 0
    for M, K in SHAPES:
        for sparsity in SPARSITIES:
            if made := bound(name, M, K, N, sparsity, dtype):
                run, expected = made
                for _ in range(2):
                    expected.check(run())
                ran += 1
    assert ran or name == "gemv"


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name, one in BASELINES.items() if one.capturable])
def test_launches_go_into_a_graph(name: str) -> None:
    run, expected = bound(name, 512, 1024, 1 if name == "gemv" else 16, 0.7, torch.float16)
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        C = run()
    C.fill_(torch.nan)
    graph.replay()
    expected.check(C)


@pytest.mark.gpu
def test_rows_of_very_different_length() -> None:
    W = random_sparse(300, 2000, 0.8, pattern="row_skewed", mean=0.5).cuda()
    W[7], W[8] = 1.5, 0.0
    for N in (1, 8, 24):
        B = activations(2000, N, W.dtype)
        baseline = BASELINES["csr_simt"]
        C = baseline.bind(baseline.prepare(W), B)()
        accuracy.check(C, W, B)


@pytest.mark.gpu
def test_bandwidth_reads_whole_buffers_only() -> None:
    buffer = torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
    bandwidth.read_all(buffer)
    bandwidth.read_all(buffer[:16])
    torch.cuda.synchronize()
    for wrong in (buffer[:17], buffer[1:17], buffer[::2], buffer.int(), buffer.cpu()):
        with pytest.raises(ValueError, match="buffer has .* allowed: contiguous uint8"):
            bandwidth.read_all(wrong)


@pytest.mark.gpu
def test_fastest_passes_over_what_fails() -> None:
    x = torch.ones(1 << 22, device="cuda")

    def broken() -> None:
        raise RuntimeError("no such algorithm")

    assert fastest([broken, lambda: [x.add_(1) for _ in range(20)], lambda: x[:8].add_(1)]) == 2
    with pytest.raises(RuntimeError, match="none of 1 candidates runs: 0: no such algorithm"):
        fastest([broken])


def test_dense_baselines_come_first() -> None:
    dense = [one.dense for one in BASELINES.values()]
    assert dense == sorted(dense, reverse=True)
    assert all(one.name == name for name, one in BASELINES.items())


def test_problems_name_what_is_allowed() -> None:
    W = torch.zeros(100, 256, dtype=torch.float16)
    assert BASELINES["gemv"].problem(W, 8) == "N=8: gemv multiplies one column"
    for name in ("two_four", "sparta"):
        assert "M=100, K=256: torch's 2:4 takes multiples of" in BASELINES[name].problem(W, 8)
    if not torch.cuda.is_available():
        reasons = {baseline.problem(W[:64].contiguous(), 1) for baseline in BASELINES.values()}
        assert reasons == {"torch sees no CUDA device"}


def test_wrong_operands_are_refused() -> None:
    with pytest.raises(ValueError, match=r"W has shape \(4, 4\), torch.float32, on cpu"):
        check_weights(torch.zeros(4, 4))
    operand = BASELINES["cublas_mm"]
    with pytest.raises(ValueError, match="allowed: a contiguous"):
        operand.prepare(torch.zeros(4, 4, dtype=torch.float16))


@pytest.mark.gpu
def test_wrong_activations_are_refused() -> None:
    operand = BASELINES["cublas_mm"].prepare(torch.zeros(4, 8, dtype=torch.float16, device="cuda"))
    for B in (torch.zeros(7, 2), torch.zeros(8, 2).cuda(), torch.zeros(8, 2).half().cuda()):
        with pytest.raises(ValueError, match=r"allowed: (\[8, N\]|contiguous columns)"):
            check_activations(operand, B)


@pytest.fixture
def inexact() -> Iterator[object]:
    """Torch's settings, with 16-bit sums allowed."""
    allowed = torch.backends.cuda.matmul
    before = {name: getattr(allowed, name) for name in exact_sums.NAMES}
    for name in before:
        setattr(allowed, name, True)
    yield allowed
    for name, value in before.items():
        setattr(allowed, name, value)


def test_torch_may_round_partial_sums_again_afterwards(inexact) -> None:
    entered, left = threading.Event(), threading.Event()

    def other_thread() -> None:
        with exact_sums:
            entered.set()
            left.wait()

    thread = threading.Thread(target=other_thread)
    with exact_sums:
        thread.start()
        entered.wait()
    assert [getattr(inexact, name) for name in exact_sums.NAMES] == [False] * 3
    left.set()
    thread.join()
    assert [getattr(inexact, name) for name in exact_sums.NAMES] == [True] * 3


def test_structs_are_those_of_the_libraries() -> None:
    sizes = {cublaslt.Algorithm: 64, cublaslt.Proposal: 96, csr_simt.Product: 96}
    assert {struct: ctypes.sizeof(struct) for struct in sizes} == sizes


def test_row_swizzle_puts_long_rows_first() -> None:
    counts = torch.tensor([3, 9, 0, 9, 4])
    assert csr_simt.row_order(counts).tolist() == [1, 3, 4, 0, 2]


@pytest.mark.parametrize("sparsity", [0.0, 0.6, 1.0])
def test_csr_arrays_are_the_formats(sparsity: float) -> None:
    W = random_sparse(37, 53, sparsity)
    W[3, 5] = -0.0
    made, expected = csr_simt.arrays(W), encode(W, "csr").arrays
    for name, array in expected.items():
        assert torch.equal(made[name][: array.numel()], array), name
        assert name == "row_ptr" or made[name].numel() % csr_simt.PER_LANE == 0 < made[name].numel()


def test_sparta_splits_like_the_format() -> None:
    W = random_sparse(37, 64, 0.4)
    first, rest = sparta.split(W)
    assert torch.equal(first, encode(W, "sparta").two_four.decode())
    assert torch.equal(rest, encode(W, "sparta").csr.decode())


def test_two_largest_of_four() -> None:
    W = torch.tensor([[1.0, -3.0, 2.0, -0.5, 4.0, 4.0, -4.0, 0.0]]).half()
    assert two_four.largest_two(W).tolist() == [[0.0, -3.0, 2.0, 0.0, 4.0, 4.0, 0.0, 0.0]]
    many = random_sparse(50, 400, 0.2, seed=3)
    kept = two_four.largest_two(many).view(50, -1, 4)
    sizes = many.abs().view(50, -1, 4)
    assert int((kept != 0).sum(2).max()) == 2
    assert torch.equal(kept.abs().sum(2), sizes.topk(2, dim=2).values.sum(2))


@pytest.mark.parametrize(("K", "warps"), [(64, 1), (4096, 2), (7168, 4), (12288, 8), (49152, 8)])
def test_warps_share_rows_that_are_long_enough(K: int, warps: int) -> None:
    assert gemv.warps_per_row(K) == warps
