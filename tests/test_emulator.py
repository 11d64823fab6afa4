"""The SpMM kernels on the host: results, traces, and what an operator must do."""

import math

import pytest
import torch
from gpu_formats import MULTIPLIED
from odd_values import with_odd_values
from torch import Tensor

from lab_utils import accuracy, encode, explain, sparse_linear, spmm
from lab_utils.backends import cuda, emulator
from lab_utils.backends import published as kernels
from lab_utils.patterns import PATTERNS, random_sparse

formats = pytest.mark.parametrize("format", emulator.formats)
published = pytest.mark.parametrize("format", kernels.ARRAYS)
dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
# Nothing divides by a tile; single rows and columns; every width of block; two of the widest.
SHAPES = [(1, 1, 1), (1, 8, 8), (64, 64, 3), (130, 200, 9), (129, 130, 17), (70, 136, 65),
          (40, 330, 130)]  # fmt: skip


def activations(K: int, N: int, dtype: torch.dtype = torch.float16, seed: int = 1) -> Tensor:
    """B [K, N] with a mean, its columns contiguous."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, K, generator=generator).add_(0.5).to(dtype).T


@dtypes
@formats
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9, 1.0])
def test_product_is_exact_to_rounding(format: str, sparsity: float, dtype: torch.dtype) -> None:
    for seed, (M, K, N) in enumerate(SHAPES):
        W = random_sparse(M, K, sparsity, dtype=dtype, seed=seed, mean=0.5)
        A, B = encode(W, format), activations(K, N, dtype, seed)
        for split_k in (1, 3) if sparsity == 0.5 else (1,):
            with emulator.recording(split_k=split_k):
                C = spmm(A, B, backend="emulator")
            accuracy.check(C, W, B)


@dtypes
@formats
def test_sums_of_integers_have_the_bits_of_any_order(format: str, dtype: torch.dtype) -> None:
    """Where no sum is rounded, a GPU's tensor cores must give the same bits."""
    generator = torch.Generator().manual_seed(0)
    W, B = (torch.randint(-3, 4, shape, generator=generator) for shape in ((150, 200), (200, 24)))
    expected = (W @ B).clamp(-256, 256)
    C = spmm(encode(W.to(dtype), format), B.to(dtype), backend="emulator")
    assert torch.equal(C.clamp(-256, 256).long(), expected)


@pytest.mark.gpu
@dtypes
@pytest.mark.parametrize("format", MULTIPLIED)
def test_a_gpu_gives_the_same_bits(format: str, dtype: torch.dtype) -> None:
    """Sums of integers are exact on both; split in the same parts, so are infinities and NaN."""
    W = random_sparse(300, 500, 0.5, dtype=dtype).sign() * 3
    if format in kernels.ARRAYS:
        W[7, 5], W[8, 9] = torch.inf, torch.nan
    B, A = activations(500, 20, dtype).sign(), encode(W, format)
    for split_k in (1, 3):
        C = torch.empty(20, 300, dtype=dtype, device="cuda").T
        cuda.spmm(A.to("cuda"), B.cuda(), C, split_k=split_k)
        with emulator.recording(split_k=split_k):
            expected = spmm(A, B, backend="emulator")
        torch.testing.assert_close(C.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@formats
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(format: str, pattern: str) -> None:
    W = random_sparse(200, 200, 0.6, pattern=pattern, mean=0.5)
    W[:128, 64:128] = 1.5  # a dense tile
    B = activations(200, 10)
    accuracy.check(spmm(encode(W, format), B, backend="emulator"), W, B)


@dtypes
@pytest.mark.parametrize("sm90", [True, False])
@pytest.mark.parametrize("sparsity", [0.6, 0.9])
def test_gpus_without_wgmma_have_a_kernel_for_64_columns(
    monkeypatch, sparsity: float, sm90: bool, dtype: torch.dtype
) -> None:
    W, B = random_sparse(140, 330, sparsity, dtype=dtype, mean=0.5), activations(330, 50, dtype)
    W[:128, 64:128] = 1.5  # a dense tile
    A = encode(W, "tiled_csl")
    monkeypatch.setattr(kernels, "is_hopper", lambda _: sm90)
    with emulator.recording(split_k=3) as traces:
        accuracy.check(spmm(A, B, backend="emulator"), W, B)
    assert (traces[0].total("mma").requests == 0) == sm90


@dtypes
@formats
def test_odd_values(format: str, dtype: torch.dtype) -> None:
    """Infinities, NaN, subnormals and -0 as weights do what they do in a dense product."""
    W = with_odd_values(random_sparse(48, 80, 0.7, dtype=dtype), format)
    B = activations(80, 3, dtype)
    accuracy.check(spmm(encode(W, format), B, backend="emulator"), W, B)


@formats
def test_results_round_like_torch(format: str) -> None:
    """Powers of two times one weight: every exponent, overflow and subnormals of C; ties."""
    for dtype in (torch.float16, torch.bfloat16):
        W = (2.0 ** torch.arange(-24, 16)).to(dtype)[:, None]
        B = torch.tensor([[1.0, 1.5, 1 + 2**-7, -3.0, 7.9375, 1 + 2**-6]]).to(dtype)
        C = spmm(encode(W, format), B, backend="emulator")
        assert torch.equal(C, (W.double() @ B.double()).to(dtype))


@formats
def test_strides_of_operands_and_result(format: str) -> None:
    W = random_sparse(100, 90, 0.5)
    A, wide = encode(W, format), activations(180, 40)
    for B in (wide[:90, :10], wide[::2, 3:33:3], wide[:90, :1].expand(90, 10), wide[1:91, :7]):
        canvas = torch.full((100, 3 * B.shape[1]), 7.0, dtype=W.dtype)
        accuracy.check(spmm(A, B, out=canvas[:, ::3], backend="emulator"), W, B)
        assert bool((canvas[:, 1::3] == 7).all()) and bool((canvas[:, 2::3] == 7).all())


@formats
def test_threads_change_neither_a_bit_nor_a_count(format: str) -> None:
    A, B = encode(random_sparse(300, 300, 0.5), format), activations(300, 20)
    before = torch.get_num_threads()
    try:
        with emulator.recording(split_k=2) as traces:
            results = []
            for threads in (1, 2, 5):
                torch.set_num_threads(threads)
                results.append(spmm(A, B, backend="emulator"))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results)
    assert all(traces[0] == other for other in traces)


@published
def test_a_trace_of_both_kernels(format: str) -> None:
    """256 x 512 x 16 at 50 %: the shape of the comparison with a profiler."""
    W, B = random_sparse(256, 512, 0.5, seed=0), activations(512, 16)
    A = encode(W, format)
    with emulator.recording(watch=1) as traces:
        accuracy.check(spmm(A, B, backend="emulator"), W, B)
    (trace,) = traces
    assert [kernel.split("<")[0] for kernel in trace.kernels] == [format]
    assert trace.total("mma").requests == (256 // 16) * (512 // 16) * (16 // 8)
    reads = sum(trace.total(op).sectors for op in ("cp_async", "global_load"))
    assert 32 * reads >= A.nbytes + B.nbytes
    assert trace.total("wait").requests > 0 and trace.total("commit").requests > 0
    written = trace.total("global_store")
    assert written.lanes == 256 * 16 and written.least_sectors == 256 * 16 * 2 // 32
    dense = [p for p in trace.lines if p.file == "kernels/common/dense.cuh"]
    assert {p.operation for p in dense} == {"cp_async", "ldmatrix"}
    for counts in (trace.lines[place] for place in dense):  # the swizzle leaves no conflict
        assert counts.wavefronts == counts.least_wavefronts > 0
    assert {request.array for request in trace.requests} >= {*kernels.ARRAYS[format], "B", "C"}
    assert 0 < len(trace.requests) < trace.total().requests


def test_the_parts_of_a_split_sum_are_another_kernel() -> None:
    A, B = encode(random_sparse(64, 200, 0.5), "tca_bme"), activations(200, 8)
    with emulator.recording(split_k=3) as traces:
        spmm(A, B, backend="emulator")
        plan = explain(A, B, backend="emulator")
    assert plan.backend == "emulator" and plan.split_k == 3
    assert traces[0].kernels == ("tca_bme<__half, 8>", "add_partials<__half>")
    reduction = traces[0].total("global_load", kernel="add_partials")
    assert reduction.lanes == 3 * 64 * 8 and reduction.sectors == reduction.least_sectors


@formats
def test_torch_sees_a_well_formed_operator(format: str) -> None:
    A, B = encode(torch.eye(96, 160).half(), format), activations(160, 8)
    arguments = ([A.arrays[n] for n in A.ARRAYS], A.constants, A.name, *A.shape, B, "emulator")
    torch.library.opcheck(torch.ops.lscd.spmm.default, arguments)
    x = activations(160, 8).T
    assert torch.equal(sparse_linear(x, A, backend="emulator"), spmm(A, x.T, backend="emulator").T)


def test_refusals() -> None:
    A, B = encode(random_sparse(64, 64, 0.5), "csr"), activations(64, 8)
    with pytest.raises(ValueError, match="A is csr; backend 'emulator' multiplies tiled_csl"):
        spmm(A, B, backend="emulator")
    splits = [{"split_k": one} for one in (0, 0.5, 4097, math.inf, math.nan, "2")]
    for wrong in (*splits, {"watch": -1}, {"watch": 1.5}, {"watch": True}):
        with pytest.raises(ValueError, match="allowed"), emulator.recording(**wrong):
            pass


@pytest.mark.parametrize("N", [1, 16, 32, 64, 128, 300])
@published
def test_no_block_asks_for_more_shared_memory_than_every_gpu_has(format: str, N: int) -> None:
    W = torch.zeros(256, 256, dtype=torch.float16)
    W[:64, :64] = 1  # one full GroupTile decides for all
    assert kernels.shape_of(encode(W, format), N).shared_bytes <= 99 * 1024
