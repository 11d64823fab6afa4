"""The GPU kernels against fp64 in every element, and what CUDA asks of an operator."""

from collections.abc import Iterator

import pytest
import torch
from gpu_formats import MULTIPLIED
from odd_values import with_odd_values
from torch import Tensor

from lab_utils import accuracy, encode, explain, sparse_linear, spmm
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends import cuda, hopper, hopper_wgmma, strip_layouts
from lab_utils.backends.ways import FUSED
from lab_utils.patterns import PATTERNS, random_sparse

pytestmark = pytest.mark.gpu

DTYPES = [torch.float16, torch.bfloat16]
# Nothing divides by a tile; single rows and columns; every width of block; several of the widest.
SHAPES = [(1, 1, 1), (1, 8, 8), (64, 64, 3), (130, 200, 8), (500, 1000, 16), (256, 130, 17),
          (300, 520, 33), (129, 65, 64), (70, 136, 65), (200, 1030, 300)]  # fmt: skip


@pytest.fixture(autouse=True)
def fused() -> Iterator[None]:
    """The kernels that decode while they multiply, also where decoding before would be faster."""
    with cuda.forced("fused"):
        yield


def activations(K: int, N: int, dtype: torch.dtype, seed: int = 1) -> Tensor:
    """B [K, N] with a mean, its columns contiguous."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, K, generator=generator).add_(0.5).to(dtype).T


def check(W: Tensor, B: Tensor, format: str, **options) -> None:
    M, N = W.shape[0], B.shape[1]
    A = encode(W, format).to("cuda")
    C = torch.full((N, M), torch.nan, dtype=W.dtype, device="cuda").T
    cuda.spmm(A, B.cuda(), C, **options)
    accuracy.check(C.cpu(), W, B)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", MULTIPLIED)
@pytest.mark.parametrize("sparsity", [0.0, 0.01, 0.3, 0.5, 0.9, 0.99, 1.0])
def test_product_is_exact_to_rounding(format: str, sparsity: float, dtype: torch.dtype) -> None:
    for seed, (M, K, N) in enumerate(SHAPES):
        W = random_sparse(M, K, sparsity, dtype=dtype, seed=seed, mean=0.5)
        for split_k in (None, 1, 3):
            check(W, activations(K, N, dtype, seed), format, split_k=split_k)


@pytest.mark.parametrize("format", MULTIPLIED)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(format: str, pattern: str) -> None:
    W = random_sparse(700, 900, 0.6, pattern=pattern, mean=0.5)
    W[128:256, 64:128] = 1.5  # one dense tile
    check(W, activations(900, 24, W.dtype), format)


# Every compiled kernel of zero_row_24: widths, streams, one or two chunks a copy, passes over A.
ZERO_ROW = [format for format in MULTIPLIED if format.values == ("zero_row_24",)]
KINDS = [{"streams": one.name.lower()} for one in Streams]
STREAMS = [
    {"streams": one.name.lower(), "slice_cols": cols}
    for one in Streams
    for cols in ((72, 1008, 2448) if one == Streams.NESTED else (48, 960, 2400))
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("options", STREAMS, ids=str)
@pytest.mark.parametrize("format", ZERO_ROW)
def test_streams_and_slices(format: str, options: dict, dtype: torch.dtype) -> None:
    for sparsity in (0.1, 0.6, 0.9, 0.97):
        W = random_sparse(500, 2410, sparsity, dtype=dtype, mean=0.5)
        A = encode(W, format, **options).to("cuda")
        for N in (1, 8, 16, 29, 64, 65):
            B = activations(2410, N, dtype, seed=N)
            C = torch.full((N, 500), torch.nan, dtype=dtype, device="cuda").T
            cuda.spmm(A, B.cuda(), C)
            accuracy.check(C.cpu(), W, B)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("format", ZERO_ROW)
def test_documented_metadata_is_enough(format: str, kind: dict, dtype: torch.dtype) -> None:
    """The kernel for other tensor cores, eight columns at a time."""
    for sparsity in (0.1, 0.6, 0.97, 1.0):
        W = random_sparse(500, 2410, sparsity, dtype=dtype, mean=0.5)
        A, B = encode(W, format, **kind).to("cuda"), activations(2410, 20, dtype).cuda()
        layout = hopper.layout_of(A, 20, 132, documented=True)
        C = torch.full((20, 500), torch.nan, dtype=dtype, device="cuda").T
        cuda._multiply(cuda._ready(A, 20, FUSED, layout), B, C)
        accuracy.check(C.cpu(), W, B.cpu())


# The same of formats of strips: every width, both levels, parts of row blocks and whole ones.
STRIPS = [format for format in MULTIPLIED if format.values[0] in hopper_wgmma.FORMATS]
ENCODED = [
    pytest.param(format.values[0], options, marks=format.marks, id=f"{format.values[0]} {options}")
    for format in STRIPS
    for options in (
        [{"levels": 0}, {"levels": 1}] if format.values[0] == strip_layouts.FORMAT else [{}]
    )
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("format", "options"), ENCODED)
def test_strips_of_every_width(format: str, options: dict, dtype: torch.dtype) -> None:
    """From the densest, whose entries no ring holds, on."""
    for sparsity, M in ((0.1, 300), (0.6, 2000), (0.9, 36000), (0.97, 500)):
        W = random_sparse(M, 1210, sparsity, dtype=dtype, mean=0.5)
        A = encode(W, format, **options).to("cuda")
        for N in (1, 16, *strip_layouts.WIDTHS, 65, 150, 190, 220, 250, 280, 310, 345, 380, 570):
            B = activations(1210, N, dtype, seed=N).cuda()
            C = torch.full((N, M), torch.nan, dtype=dtype, device="cuda").T
            with cuda.forced("fused"):
                cuda.spmm(A, B, C)
                again = spmm(A, B)
            accuracy.check(C.cpu(), W, B.cpu())
            assert torch.equal(C, again)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("format", "options"), ENCODED)
def test_wide_strips_of_few_rows(format: str, options: dict, dtype: torch.dtype) -> None:
    """What `layout_of` leaves to large matrices; here row blocks have partial sums."""
    sparsities = (0.85, 0.9, 0.97) if format == strip_layouts.LANES else (0.6, 0.7, 0.97)
    widths = [n for n in strip_layouts.ALL_WIDTHS[format] if n > strip_layouts.NARROW_WIDTHS[-1]]
    for sparsity, M, split_k in zip(sparsities, (300, 2000, 500), (1.5, 4, 1), strict=True):
        W = random_sparse(M, 1210, sparsity, dtype=dtype, mean=0.5)
        A = encode(W, format, **options).to("cuda")
        for N in (*strip_layouts.WIDE_WIDTHS, 150, 256, 300, 350, 380, 570):
            layout = hopper_wgmma.layout_of(A, N, 1, split_k)
            assert layout.block_n in widths  # chunks of denser A leave no room
            B = activations(1210, N, dtype, seed=N).cuda()
            C = torch.full((N, M), torch.nan, dtype=dtype, device="cuda").T
            cuda._multiply(cuda._ready(A, N, FUSED, layout), B, C)
            accuracy.check(C.cpu(), W, B.cpu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "format", [one for one in STRIPS if one.values[0] in strip_layouts.OF_DENSE_WGMMA]
)
def test_narrow_strips_of_sixteen_warps(format: str, dtype: torch.dtype) -> None:
    """What `layout_of` leaves to large matrices, for others have twelve."""
    for sparsity, M, split_k in ((0.7, 300, 1), (0.7, 2000, 1.5), (0.9, 500, 4)):
        W = random_sparse(M, 1210, sparsity, dtype=dtype, mean=0.5)
        A = encode(W, format).to("cuda")
        for N in strip_layouts.NARROWEST_WIDTHS + strip_layouts.NARROW_WIDTHS:
            layout = hopper_wgmma.layout_of(A, N, 1, split_k)
            assert (layout.block_n, layout.warps) == (N, 16)
            B = activations(1210, N, dtype, seed=N).cuda()
            C = torch.full((N, M), torch.nan, dtype=dtype, device="cuda").T
            cuda._multiply(cuda._ready(A, N, FUSED, layout), B, C)
            accuracy.check(C.cpu(), W, B.cpu())


@pytest.mark.parametrize("N", [8, 64])
@pytest.mark.parametrize("format", ZERO_ROW + STRIPS)
def test_launches_follow_each_other_closely(format: str, N: int) -> None:
    """Grids that begin before those before them have ended: C is another's B, as in a model."""
    W = random_sparse(1024, 1024, 0.7, seed=1) / 16
    A, x = encode(W, format).to("cuda"), activations(1024, N, torch.float16).cuda()
    expected, found = x, x
    for _ in range(20):
        torch.cuda.synchronize()
        expected = spmm(A, expected)
    for _ in range(20):
        found = spmm(A, found)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", MULTIPLIED)
def test_odd_values(format: str, dtype: torch.dtype) -> None:
    """Infinities, NaN, subnormals and -0 as weights do what they do in a dense product."""
    W = with_odd_values(random_sparse(48, 80, 0.7, dtype=dtype), format)
    check(W, activations(80, 3, dtype), format)


@pytest.mark.parametrize("format", MULTIPLIED)
def test_strides_of_operands_and_result(format: str) -> None:
    W = random_sparse(100, 90, 0.5)
    A, wide = encode(W, format).to("cuda"), activations(180, 40, W.dtype).cuda()
    same, overlapping = wide[:, 0].contiguous(), wide.T.contiguous()
    for B in (
        wide[:90, :10], wide[::2, 3:33:3], wide[:90, :1].expand(90, 10), wide[1:91, :7],
        same[:90].expand(10, 90).T, overlapping.as_strided((90, 10), (1, 8)),
    ):  # fmt: skip
        canvas = torch.full((100, 3 * B.shape[1]), 7.0, dtype=W.dtype, device="cuda")
        accuracy.check(spmm(A, B, out=canvas[:, ::3]).cpu(), W, B.cpu())
        assert bool((canvas[:, 1::3] == 7).all()) and bool((canvas[:, 2::3] == 7).all())


@pytest.mark.parametrize("format", MULTIPLIED)
def test_runs_agree_in_every_bit(format: str) -> None:
    W, B = random_sparse(1000, 2000, 0.5), activations(2000, 16, torch.float16).cuda()
    A = encode(W, format).to("cuda")
    first = spmm(A, B)
    assert all(torch.equal(first, spmm(A, B)) for _ in range(5))


@pytest.mark.parametrize("format", MULTIPLIED)
def test_streams_and_graphs(format: str) -> None:
    W, x = random_sparse(256, 512, 0.5), activations(512, 8, torch.float16).T.cuda()
    A, stream = encode(W, format).to("cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        on_stream = sparse_linear(x, A)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = sparse_linear(x, A)
    x.copy_(2 * x)
    graph.replay()
    accuracy.check(on_stream.T.cpu(), W, x.T.cpu() / 2)
    accuracy.check(captured.T.cpu(), W, x.T.cpu())


@pytest.mark.parametrize("format", MULTIPLIED)
def test_torch_sees_a_well_formed_operator(format: str) -> None:
    A, B = encode(torch.eye(96, 160).half(), format).to("cuda"), activations(160, 8, torch.float16)
    arguments = ([A.arrays[n] for n in A.ARRAYS], A.constants, A.name, *A.shape, B.cuda(), "cuda")
    torch.library.opcheck(torch.ops.lscd.spmm.default, arguments)


@pytest.mark.parametrize("format", MULTIPLIED)
def test_compiles_into_one_graph(format: str) -> None:
    A = encode(random_sparse(96, 160, 0.6), format).to("cuda")
    x = activations(160, 8, torch.float16).T.cuda()
    compiled = torch.compile(lambda x: torch.relu(sparse_linear(x, A)), fullgraph=True)
    assert torch.equal(compiled(x), torch.relu(sparse_linear(x, A)))


def test_explain_and_refusals() -> None:
    W, B = random_sparse(1024, 4096, 0.5), activations(4096, 8, torch.float16).cuda()
    plan = explain(encode(W, "tca_bme").to("cuda"), B)
    assert plan.backend == "cuda" and "workers" in plan.choices
    with pytest.raises(ValueError, match="A is csr; backend 'cuda' multiplies tiled_csl, tca_bme"):
        spmm(encode(W, "csr").to("cuda"), B)
    with pytest.raises(ValueError, match="B is on cuda:0; allowed: cpu"):
        spmm(encode(W, "tca_bme"), B)
