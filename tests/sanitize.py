"""Every GPU kernel of kernels/ on small shapes, checked: a program for compute-sanitizer.

`make sanitize` runs it under memcheck, racecheck, initcheck and synccheck, which see what a right
result can hide. Outputs start unwritten, so that initcheck finds what a kernel leaves out, and all
operands are made on the CPU, so that hardly any kernel but ours runs. Flags alone are written
before: kernels ask for them until they are set, and take them for not set whatever was there.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from emulated import tiles_in_parts
from torch import Tensor

from lab_utils import accuracy, build, encode, ladder
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends import cuda, hopper, hopper_wgmma, strip_layouts
from lab_utils.backends.kernels import ways_of
from lab_utils.backends.launch import Epilogue
from lab_utils.backends.published import is_hopper
from lab_utils.backends.ways import FUSED, TILES
from lab_utils.baselines import BASELINES
from lab_utils.baselines.bandwidth import read_all
from lab_utils.formats import FORMATS
from lab_utils.patterns import random_sparse
from lab_utils.toolchains import Nvcc

DTYPES = (torch.float16, torch.bfloat16)
SPARSITIES = (0.2, 0.7, 0.9)  # other registers per tile; the first exceeds what they can hold
# No size is a multiple of a tile; one N for every width of block.
SHAPES = ((130, 200, 8), (256, 130, 9), (65, 136, 20), (129, 65, 50), (70, 328, 130))
# Rows that are one warp's; that warps and slices share; that one thread adds up, N = 8 and 16.
ACTIVATED = ((130, 48), (130, 600), (130, 250), (130, 900))
STRIPS = tuple((130, 450, N) for N in strip_layouts.NARROW_WIDTHS)  # which has its own widths
SPLITS = (1, 2)
# Rings of GroupTiles do not come around: to racecheck a warp that meets before one of its lanes
# arrives at an mbarrier is no order of what other lanes have read. The emulator looks after that.
TILED = {
    "lane_24_strips": ((230, 450), (90, 700)),
    "bitmap_strips": ((230, 450), (90, 700)),
    "coded_strips": ((230, 450), (90, 700)),
    "tca_bme": ((230, 330), (90, 380)),
}
NESTED = {"streams": "nested"}  # of larger matrices
ADDED = 3  # thread blocks for a row block of strips that has no owner: add_slots adds their sums
OWN_BASELINES = ("gemv", "csr_simt")  # kernels of kernels/baselines; the others are libraries'


def products() -> Iterator[str]:
    """kernels/spmm: both dtypes, every width of block, K in one part and in two."""
    for format in cuda.formats:
        if reason := cuda.format_problem(format, torch.device("cuda")):
            print(f"not run: {format}: {reason}")
            continue
        yield from products_of(format)
        if format == hopper.FORMAT:
            yield from products_of(format, **NESTED)
            yield from documented_products()
            yield from activated_products(format, (1, 8, 16), slice_cols=144)
        if TILES in ways_of(format, is_hopper(torch.device("cuda"))):
            yield from tiled_products(format)
        if format in hopper_wgmma.FORMATS:
            yield from products_of_large(format)
            yield from activated_products(format, (24, 130), split_k=ADDED)


def documented_products() -> Iterator[str]:
    """The Hopper kernel for tensor cores that select by no other metadata than PTX promises."""
    kinds = {one.name.lower(): {"streams": one.name.lower()} for one in Streams}
    for (M, K, N), dtype, kind in itertools.product(SHAPES, DTYPES, kinds):
        W, B = operands(M, K, N, dtype, 0.7)
        A = encode(W, hopper.FORMAT, **kinds[kind]).to("cuda")
        C = torch.empty(N, M, dtype=dtype, device="cuda").T
        layout = hopper.layout_of(A, N, documented=True)
        cuda._multiply(cuda._ready(A, N, FUSED, layout), B.cuda(), C)
        accuracy.check(C.cpu(), W, B)
        yield f"{hopper.FORMAT} documented {M}x{K} N={N} {dtype} {kind}"


def activated_products(
    format: str, Ns: tuple[int, ...], split_k: float = 1, **options
) -> Iterator[str]:
    """max(A · B + bias, 0) in one kernel, as `sparse_relu` asks for it; and without a bias."""
    for (M, K), N, dtype, biased in itertools.product(ACTIVATED, Ns, DTYPES, (False, True)):
        W, B = operands(M, K, N, dtype, 0.7)
        bias = torch.linspace(-9, 9, M).to(dtype) * biased
        A = encode(W, format, **options).to("cuda")
        C = torch.empty(N, M, dtype=dtype, device="cuda").T
        epilogue = Epilogue(bias.cuda() if biased else None, relu=True)
        cuda.spmm(A, B.cuda(), C, split_k=split_k, epilogue=epilogue)
        judge_of_maximum(W, B, bias).check(C.cpu())
        yield f"{format} maximum {M}x{K} N={N} {dtype} bias={biased}"


def products_of_large(format: str) -> Iterator[str]:
    """Blocks of the wgmma kernel that large matrices have: wide ones and, of streams, narrow ones
    that do not have few warps.
    """
    widths = (
        *strip_layouts.WIDE_WIDTHS,
        150,
        200,
        300,
        380,
        570,
    )  # of those beyond, some in two passes
    sparsity = 0.9 if format == strip_layouts.LANES else 0.7  # chunks leave room for two stages
    cases = [(230, 450, N, sparsity) for N in widths]
    if format in strip_layouts.OF_DENSE_WGMMA:
        narrow = strip_layouts.NARROWEST_WIDTHS + strip_layouts.NARROW_WIDTHS
        cases += [(70, 2100, N, 0.7) for N in narrow]
    for (M, K, N, zeros), dtype, split_k in itertools.product(cases, DTYPES, SPLITS):
        W, B = operands(M, K, N, dtype, zeros)
        A = encode(W, format).to("cuda")
        layout = hopper_wgmma.layout_of(A, N, 1, split_k)
        assert layout.warps == strip_layouts.warps_of(A, layout.block_n)
        C = torch.empty(N, M, dtype=dtype, device="cuda").T
        cuda._multiply(cuda._ready(A, N, FUSED, layout), B.cuda(), C)
        accuracy.check(C.cpu(), W, B)
        yield f"{format} as if large {M}x{K} N={N} {dtype} split_k={split_k}"


def tiled_products(format: str) -> Iterator[str]:
    """The way by tiles: all widths, two passes, far steps, row blocks in parts, pairs that idle."""
    for (M, K), N, dtype in itertools.product(
        TILED[format], (300, 350, 400, 500, 560, 600, 690, 760, 800, 1100), DTYPES
    ):
        for sparsity, split_k in ((0.8, 1), (0.9, 1.5), (0.3, 2)):
            W, B = operands(M, K, N, dtype, sparsity)
            A, C = encode(W, format).to("cuda"), torch.empty(N, M, dtype=dtype, device="cuda").T
            parts = tiles_in_parts() if dtype == torch.float16 else nullcontext()
            with cuda.forced("tiles"), parts:
                cuda.spmm(A, B.cuda(), C, split_k=split_k)
            accuracy.check(C.cpu(), W, B)
            yield f"{format} tiles {M}x{K} N={N} {dtype} sparsity={sparsity} split_k={split_k}"


def products_of(format: str, **options) -> Iterator[str]:
    for M, K, N in STRIPS if format in hopper_wgmma.FORMATS else SHAPES:
        for dtype, sparsity, split_k in itertools.product(DTYPES, SPARSITIES, SPLITS):
            W, B = operands(M, K, N, dtype, sparsity)
            C = torch.empty(N, M, dtype=dtype, device="cuda").T
            cuda.spmm(encode(W, format, **options).to("cuda"), B.cuda(), C, split_k=split_k)
            accuracy.check(C.cpu(), W, B)
            yield f"{format} {options} {M}x{K} N={N} {dtype} {sparsity=} {split_k=}"


def rungs() -> Iterator[str]:
    """kernels/ladder: every rung, both dtypes."""
    for (M, K, N), dtype, rung in itertools.product(SHAPES, DTYPES, ladder.RUNGS):
        W, B = operands(M, K, N, dtype, 0.5)
        A, C = ladder.encode(rung, W).to("cuda"), torch.empty(N, M, dtype=dtype, device="cuda").T
        ladder.spmm(A, B.cuda(), C)
        accuracy.check(C.cpu(), W, B)
        yield f"{rung} {M}x{K} N={N} {dtype}"


def encoders() -> Iterator[str]:
    """kernels/encode: the same bytes as the CPU's encoders, which are valid and decode."""
    encodings = [(format, {}) for format in FORMATS] + [(hopper.FORMAT, NESTED)]
    for (format, options), (M, K, _), dtype in itertools.product(encodings, SHAPES, DTYPES):
        pattern = "two_four" if format == "2:4" else "random"
        for sparsity in (0.5, 0.9):
            W = random_sparse(M, K, sparsity, pattern=pattern, dtype=dtype)
            expected, found = (encode(one, format, **options) for one in (W, W.cuda()))
            for name, array in expected.arrays.items():
                same = torch.equal(bytes_of(array), bytes_of(found.arrays[name].cpu()))
                assert same, f"{format} {options} {M}x{K} {dtype}: {name} differs from the CPU's"
            found.validate()
            assert torch.equal(bytes_of(W), bytes_of(found.decode().cpu()))
            yield f"encoded {format} {options} {M}x{K} {dtype} sparsity={sparsity}"


def baselines() -> Iterator[str]:
    """kernels/baselines, and the read of memory that gives the byte limit."""
    read_all(torch.ones(1 << 20, dtype=torch.uint8).cuda())
    yield "read_all"
    for (M, K, N), dtype, name in itertools.product(SHAPES, DTYPES, OWN_BASELINES):
        N = 1 if name == "gemv" else N
        W, B = operands(M, K, N, dtype, 0.7)
        on_gpu, baseline = W.cuda(), BASELINES[name]
        if reason := baseline.problem(on_gpu, N):
            print(f"not run: {name} {M}x{K} N={N} {dtype}: {reason}")
            continue
        C = baseline.bind(baseline.prepare(on_gpu), B.cuda())()
        accuracy.Judge(W, B).check(C.cpu(), baseline.roundings)
        yield f"{name} {M}x{K} N={N} {dtype}"


CHECKS: dict[str, Callable[[], Iterator[str]]] = {
    "cuda": products,
    "cuda_ladder": rungs,
    "cuda_encode": encoders,
    "cuda_baselines": baselines,
}


def gpu_libraries() -> list[str]:
    """The libraries of kernels that are compiled for GPUs."""
    return [name for name, one in build.LIBRARIES.items() if isinstance(one.toolchain, Nvcc)]


def operands(M: int, K: int, N: int, dtype: torch.dtype, sparsity: float) -> tuple[Tensor, Tensor]:
    """W [M, K] and B [K, N], on the CPU."""
    generator = torch.Generator().manual_seed(N)
    B = torch.randn(N, K, generator=generator).add_(0.5).to(dtype).T
    return random_sparse(M, K, sparsity, dtype=dtype, mean=0.5), B


def judge_of_maximum(W: Tensor, B: Tensor, bias: Tensor) -> accuracy.Judge:
    """Of max(W · B + bias, 0), which is as far from the exact one as the sum, at most."""
    judge = judge_of_sum(W, B, bias)
    judge.expected.relu_()
    return judge


def judge_of_sum(W: Tensor, B: Tensor, bias: Tensor) -> accuracy.Judge:
    """Of W · B + bias."""
    whole = torch.cat([W, bias[:, None]], 1), torch.cat([B, B.new_ones(1, B.shape[1])])
    return accuracy.Judge(*whole)


def bytes_of(array: Tensor) -> Tensor:
    return array.contiguous().view(torch.uint8)


def scratch_with_flags(
    ready: cuda.Ready, C: Tensor, own: Callable[[cuda.Ready, Tensor], Tensor] = cuda.scratch_of
) -> Tensor:
    """Scratch memory of a launch, in which flags are written."""
    memory, launch = own(ready, C), ready.launch
    if launch.call[0] in hopper_wgmma.FORMATS.values() and math.prod(launch.sums):
        begin = ready.scratch["partial"]
        sums = memory[begin : begin + 4 * math.prod(launch.sums)].view(torch.int32)
        sums.view(launch.sums)[..., -hopper_wgmma.FLAG_WORDS * launch.problem.warps :] = 0
    return memory


def main(libraries: list[str]) -> None:
    """Check these libraries of kernels, one after another; all of them unless some are named."""
    if unknown := set(libraries) - set(CHECKS):
        sys.exit(f"sanitize: library={unknown.pop()!r}: unknown; allowed: {', '.join(CHECKS)}")
    if not torch.cuda.is_available():
        sys.exit("sanitize: torch sees no CUDA device")
    cuda.scratch_of = scratch_with_flags
    for library in libraries or gpu_libraries():
        right: list[str] = []
        try:
            for what in CHECKS[library]():
                right.append(what)
            torch.cuda.synchronize()
        finally:  # also where a check ends early: what was right until then
            ends = f", from {right[0]} to {right[-1]}" if right else ""
            print(f"{library}: {len(right)} right{ends}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
