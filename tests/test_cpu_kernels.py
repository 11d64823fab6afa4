"""Every CPU kernel, forced in turn, against fp64 in every element."""

import subprocess
import sys

import pytest
import torch
from matrices import ODD_BITS, fitting
from torch import Tensor

from lab_utils import accuracy, encode, spmm
from lab_utils.backends import cpu
from lab_utils.patterns import PATTERNS, random_sparse

isas_and_dtypes = pytest.mark.parametrize(
    ("isa", "dtype"),
    [(isa, torch.bfloat16) for isa in cpu.ISAS]
    + [(isa, torch.float16) for isa in cpu.ISAS if isa not in cpu.BF16_ONLY],
    indirect=["isa"],
    ids=str,
)
# Nothing divides by a tile; single rows and columns; more than one block of columns, and of 512.
SHAPES = [(1, 1, 1), (16, 64, 2), (130, 200, 5), (64, 64, 8), (67, 129, 16), (40, 70, 17)]
WIDE = (70, 130, 520)


@pytest.fixture(params=cpu.ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    if request.param not in cpu.supported():
        pytest.skip(f"this CPU has no {request.param}; it has {', '.join(cpu.supported())}")
    return request.param


def activations(K: int, N: int, dtype: torch.dtype, seed: int = 1) -> Tensor:
    """B [K, N] with a mean, so that errors of sums cannot cancel."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(K, N, generator=generator).add_(0.5).to(dtype)


def test_the_best_instruction_set_for_the_dtype_is_chosen(monkeypatch) -> None:
    monkeypatch.delenv("LSCD_CPU_ISA", raising=False)
    monkeypatch.setattr(cpu, "supported", lambda: cpu.ISAS)
    assert cpu.choose_isa(torch.bfloat16)[0] == "amx"
    assert cpu.choose_isa(torch.float16)[0] == "avx512"


@isas_and_dtypes
@pytest.mark.parametrize("format", cpu.formats)
def test_product_is_exact_to_rounding(isa: str, format: str, dtype: torch.dtype) -> None:
    for seed, (M, K, N) in enumerate([*SHAPES, WIDE]):
        for sparsity in (0.0, 0.3, 0.9, 1.0):
            W = fitting(random_sparse(M, K, sparsity, dtype=dtype, seed=seed, mean=0.5), format)
            B = activations(K, N, dtype, seed)
            out = torch.full((M, N), torch.nan, dtype=dtype)
            with cpu.forced(isa):
                accuracy.check(spmm(encode(W, format), B, out=out), W, B)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(isa: str, pattern: str) -> None:
    W = random_sparse(200, 300, 0.6, pattern=pattern, dtype=torch.bfloat16, mean=0.5)
    B = activations(300, 9, W.dtype)
    with cpu.forced(isa):
        accuracy.check(spmm(encode(W, "tca_bme"), B), W, B)


@isas_and_dtypes
@pytest.mark.parametrize("format", cpu.formats)
def test_odd_values(isa: str, format: str, dtype: torch.dtype) -> None:
    """Infinities, NaN, subnormals and -0 as weights do what they do in a dense product."""
    W = random_sparse(48, 80, 0.7, dtype=dtype)
    signed = torch.tensor([b - (1 << 16 if b >= 1 << 15 else 0) for b in ODD_BITS])
    for row, pattern in enumerate(signed.to(torch.int16)):
        W.view(torch.int16)[row, 3 * row] = pattern
    W, B = fitting(W, format), activations(80, 3, dtype)
    with cpu.forced(isa):
        accuracy.check(spmm(encode(W, format), B), W, B)


@isas_and_dtypes
def test_results_round_like_torch(isa: str, dtype: torch.dtype) -> None:
    """Powers of two times one weight: every exponent, overflow and subnormals of C."""
    exponents = torch.arange(-24, 16)
    W = (2.0**exponents).to(dtype)[:, None]
    B = torch.tensor([[1.0, 1.5, 1 + 2**-7, -3.0, 7.9375]]).to(dtype)
    with cpu.forced(isa):
        C = spmm(encode(W, "dense"), B)
    assert torch.equal(C, (W.double() @ B.double()).to(dtype))


@isas_and_dtypes
def test_ties_go_to_even(isa: str, dtype: torch.dtype) -> None:
    """Sums halfway between two numbers, for many exponents; for fp16, 65520 is one, at infinity."""
    half = accuracy.ROUNDING[dtype]  # of the distance between numbers from 1 to 2
    mantissas = torch.tensor([1, 1 + 2 * half, 1.5, 2 - 2 * half])  # even, odd, even, odd
    scale = 2.0 ** torch.arange(-13, 16)[:, None]
    terms = [(scale * mantissas).flatten(), (scale * half).expand(-1, len(mantissas)).flatten()]
    W = torch.stack(terms, dim=1).to(dtype)
    B = torch.tensor([[1.0, -1.0], [1.0, -1.0]]).to(dtype)
    with cpu.forced(isa):
        C = spmm(encode(W, "dense"), B)
    assert torch.equal(C, (W.double() @ B.double()).to(dtype))


@pytest.mark.parametrize("format", cpu.formats)
def test_threads_do_not_change_a_bit(isa: str, format: str) -> None:
    W = fitting(random_sparse(333, 250, 0.5, dtype=torch.bfloat16, pattern="row_skewed"), format)
    A, B = encode(W, format), activations(250, 7, W.dtype)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5, 2):
            torch.set_num_threads(threads)
            with cpu.forced(isa):
                results.append(spmm(A, B))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_strides_of_operands_and_result(isa: str) -> None:
    W = random_sparse(100, 90, 0.5, dtype=torch.bfloat16)
    A, wide = encode(W, "tca_bme"), activations(180, 40, W.dtype)
    canvas = torch.full((100, 30), 7.0, dtype=W.dtype)
    for B in (wide[:90, :10], wide[::2, 3:33:3], wide[:90, :1].expand(90, 10), wide.T[:10, ::2].T):
        canvas.fill_(7.0)
        with cpu.forced(isa):
            accuracy.check(spmm(A, B, out=canvas[:, ::3]), W, B)
        assert bool((canvas[:, 1::3] == 7).all()) and bool((canvas[:, 2::3] == 7).all())


def test_values_at_the_end_of_memory(isa: str) -> None:
    """Wide loads stay inside the values, even where the array ends with its page."""
    import mmap

    W = random_sparse(64, 128, 0.5, dtype=torch.bfloat16)
    A, B = encode(W, "tca_bme"), activations(128, 4, W.dtype)
    values = A.arrays["values"]
    pages = mmap.mmap(-1, -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
    whole = torch.frombuffer(pages, dtype=W.dtype)
    A.arrays["values"] = whole[whole.numel() - values.numel() :].copy_(values)
    with cpu.forced(isa):
        accuracy.check(spmm(A, B), W, B)


LITTLE_MEMORY = """
import resource
import torch
from lab_utils import encode, spmm

torch.set_num_threads(2)
W = torch.zeros(64, 1_000_000, dtype=torch.bfloat16)
W[:, ::999] = 1
small, large = encode(W[:, :64], "csr"), encode(W, "lane_24_strips")
B = torch.ones(1_000_000, 1, dtype=torch.bfloat16)
expected = spmm(small, B[:64])  # threads have their stacks now
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (90 << 20)  # a thread decodes into 128 MB
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    spmm(large, B)
except MemoryError as error:
    print(error)
assert torch.equal(spmm(small, B[:64]), expected)
"""


def test_a_thread_without_memory_ends_nothing_but_the_product() -> None:
    done = subprocess.run([sys.executable, "-c", LITTLE_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no memory to multiply by B [1000000, 1]\n"
