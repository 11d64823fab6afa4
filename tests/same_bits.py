"""Hashes of encodings and products on this GPU: who runs it on two machines can compare them.

    python tests/same_bits.py > here.txt

wrote same_bits_hopper.txt, which test_same_bits.py expects of any H100 or H200: kernels add in an
order that the number of multiprocessors decides, and nothing else. Ways are forced, so that no
product is cuBLAS's. Each runs three times, each with the same bits. Operands are integers in steps
of 2^-8, which every machine draws alike.
"""

import hashlib
import itertools
from collections.abc import Iterator

import torch
from emulated import tiles_in_parts
from torch import Tensor

from lab_utils import encode, spmm
from lab_utils.backends import cuda
from lab_utils.backends.hopper_tiles import FORMATS as TILED
from lab_utils.backends.ways import FUSED, TILES
from lab_utils.formats import SparseMatrix

# Where several thread blocks share each row block: the order of their sums is part of the bits. In
# strips of the third shape one of them adds what the others have, as their owner. By tiles, too.
SHAPES = ((7168, 7168), (9216, 5120), (14336, 4096))
SPARSITIES = (0.5, 0.8, 0.9)
FORMATS = (
    "tiled_csl", "tca_bme", "zero_row_24", "zero_row_24_strips", "lane_24_strips", "bitmap_strips",
    "coded_strips"
)  # fmt: skip
COLUMNS = (1, 8, 16, 24, 32, 64, 80, 112, 128, 160, 512)
TILED_COLUMNS = 512
NONE = "-"
TIMES = 3


def lines() -> Iterator[str]:
    """A line for each matrix and format: the hash of the encoding, and those of its products."""
    for (M, K), sparsity in itertools.product(SHAPES, SPARSITIES):
        generator = torch.Generator().manual_seed(M)
        zeros = torch.randint(1000, (M, K), generator=generator) < 1000 * sparsity
        weights = drawn(M, K, generator).masked_fill(zeros, 0)
        B = drawn(max(COLUMNS), K, generator).cuda()
        for format in FORMATS:
            A = encode(weights.cuda(), format)
            bits = [hash_of(*A.arrays.values()), *(product(A, B[:N].T, FUSED) for N in COLUMNS)]
            tiled = format in TILED
            bits.append(product(A, B[:TILED_COLUMNS].T, TILES) if tiled else NONE)
            yield " ".join([case(M, K, sparsity, format), *bits])


def drawn(rows: int, cols: int, generator: torch.Generator) -> Tensor:
    """fp16 [rows, cols] from -8 to 8."""
    return torch.randint(-2048, 2049, (rows, cols), generator=generator).div(256).half()


def product(A: SparseMatrix, B: Tensor, way: str) -> str:
    """The hash of A · B, the same each time."""
    with cuda.forced(way), tiles_in_parts():
        found = {hash_of(spmm(A, B)) for _ in range(TIMES)}
    assert len(found) == 1, f"{A.name}, N = {B.shape[1]}: {TIMES} products differ"
    return found.pop()


def hash_of(*tensors: Tensor) -> str:
    """Of the bytes of tensors, whose memory may be in any order."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()[:12]


def title() -> str:
    """What stands above the lines."""
    tiled = f"{TILED_COLUMNS} by tiles"
    return " ".join([f"{'':24}encoding, N =", *map(str, COLUMNS), tiled])


def case(M: int, K: int, sparsity: float, format: str) -> str:
    """How a line begins."""
    return f"{M}x{K} {sparsity:.0%} {format}"


if __name__ == "__main__":
    print(title(), flush=True)
    for line in lines():
        print(line, flush=True)
