"""Matrices that the format tests draw: every shape, sparsity and pattern, and odd values."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from lab_utils.formats import FORMATS, SparseMatrix, encode
from lab_utils.patterns import PATTERNS, random_sparse

# Every format, both word orders of Tiled-CSL, and options of zero-row 2:4 beside the chosen ones.
VARIANTS = [(name, {}) for name in FORMATS] + [
    ("tiled_csl", {"reorder": False}),
    ("zero_row_24", {"streams": "pairs", "slice_cols": 96, "reach": -1, "levels": 1}),
    ("zero_row_24", {"streams": "packed", "slice_cols": 48, "reach": 16, "levels": 0}),
    ("zero_row_24", {"streams": "sixes", "slice_cols": 96}),
    ("zero_row_24", {"streams": "nested", "slice_cols": 72}),
    ("zero_row_24_strips", {"levels": 0, "reach": -1}),
    ("zero_row_24_strips", {"levels": 1, "reach": 8}),
]
# -0, two subnormals, the infinities, and quiet and signalling NaNs, of fp16 and of bf16.
ODD_BITS = (0x8000, 0x0001, 0x8001, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x7F80, 0xFF80, 0x7FC1, 0xFFFF)

sides = st.one_of(st.sampled_from([1, 7, 8, 63, 64, 65, 127, 128, 129]), st.integers(1, 200))
sparsities = st.one_of(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.floats(0, 1))


@st.composite
def matrices(draw: st.DrawFn, sides: st.SearchStrategy[int] = sides) -> Tensor:
    """Dense [M, K], fp16 or bf16; some of the non-zeros are replaced by odd values."""
    seed, sparsity = draw(st.integers(0, 2**31)), draw(sparsities)
    possible = [name for name, pattern in PATTERNS.items() if pattern.least_sparsity <= sparsity]
    dense = random_sparse(
        draw(sides),
        draw(sides),
        sparsity,
        pattern=draw(st.sampled_from(possible)),
        dtype=draw(st.sampled_from([torch.float16, torch.bfloat16])),
        seed=seed,
    )
    as_bits = dense.view(torch.int16).flatten()
    places = as_bits.nonzero().flatten()
    order = torch.randperm(places.numel(), generator=torch.Generator().manual_seed(seed))
    for odd, place in zip(ODD_BITS, places[order], strict=False):
        as_bits[place] = odd - (1 << 16 if odd >= 1 << 15 else 0)
    return dense


@st.composite
def encodings(draw: st.DrawFn, format: str, **options) -> SparseMatrix:
    """A small matrix in `format`."""
    dense = draw(matrices(sides=st.integers(1, 80)))
    return encode(fitting(dense, format), format, **options)


def fitting(dense: Tensor, format: str) -> Tensor:
    """`dense`, without what `format` cannot hold."""
    return two_of_four(dense) if format == "2:4" else dense


def two_of_four(dense: Tensor) -> Tensor:
    """`dense` [M, K] with only the first two non-zeros of each aligned group of four."""
    M, K = dense.shape
    padded = torch.nn.functional.pad(dense, (0, -K % 4)).view(M, -1, 4)
    seen = (padded.view(torch.int16) != 0).cumsum(2)
    return padded.masked_fill(seen > 2, 0).view(M, -1)[:, :K].contiguous()


def same_bits(a: Tensor, b: Tensor) -> bool:
    """True where two matrices agree in every bit; NaN and -0 included."""
    left, right = (one.contiguous().view(torch.uint8) for one in (a, b))
    return a.dtype == b.dtype and torch.equal(left, right)


def flipped(array: Tensor, bit: int) -> Tensor:
    """A copy of `array` with one bit flipped; `bit` counts modulo its size."""
    as_bytes = array.clone().view(torch.uint8)
    bit %= 8 * as_bytes.numel()
    as_bytes[bit // 8] ^= 1 << bit % 8
    return as_bytes.view(array.dtype)
