"""The GPU's kernels by the format that they multiply, as backends cuda and emulator launch them.

KERNELS has those of the way `fused`, TILED those of the way `tiles` (ways.py). Each module offers
`INSTRUCTION`, which ends a kernel's name, `layout_of(A, N, multiprocessors, split_k)`, whose result
has the columns of a pass over A as `block_n`, and, of a layout, `choices`, `split_k_of` and
`launch_of`. `SELECTIONS` say of which formats it needs more of the tensor core than documentation
promises; of one that is `documented` it takes `layout_of(..., documented=True)`, of blocks that do
without. `EPILOGUE` names what a kernel can do to sums before it rounds them (`launch.Epilogue`).
`block_rows(A)` says of how many rows of B a kernel reads all.
"""

from types import ModuleType

from lab_utils.backends import hopper, hopper_tiles, hopper_wgmma, published
from lab_utils.backends.launch import Selection
from lab_utils.backends.ways import DECODED, FUSED, TILES
from lab_utils.formats import SparseMatrix
from lab_utils.formats.zero_row_24_chunks import ZeroRowChunks

KERNELS: dict[str, ModuleType] = {
    **dict.fromkeys(published.ARRAYS, published),
    hopper.FORMAT: hopper,
    **dict.fromkeys(hopper_wgmma.FORMATS, hopper_wgmma),
}
TILED: dict[str, ModuleType] = dict.fromkeys(hopper_tiles.FORMATS, hopper_tiles)
OF_SM_90 = tuple(name for name, module in KERNELS.items() if module is not published)
SELECTIONS: dict[str, Selection] = hopper.SELECTIONS | hopper_wgmma.SELECTIONS
WITH_EPILOGUE = tuple(name for name, module in KERNELS.items() if hasattr(module, "EPILOGUE"))
ELSEWHERE = "encode A as tca_bme, or use backend='reference'"


def ways_of(format: str, sm90: bool = True) -> tuple[str, ...]:
    """Of WAYS, those that a format has, on sm_90 or elsewhere."""
    return (FUSED, TILES, DECODED) if format in TILED and sm90 else (FUSED, DECODED)


def kernel_of(format: str, way: str) -> ModuleType:
    """Of FUSED or TILES."""
    return (TILED if way == TILES else KERNELS)[format]


def block_rows_of(A: SparseMatrix, way: str) -> int:
    """Rows of B that A's kernel always reads together: behind those of B there must be zeros."""
    kernel = kernel_of(A.name, way)
    return kernel.block_rows(A) if hasattr(kernel, "block_rows") else 1


def name_of(format: str, way: str = FUSED) -> str:
    """What rows of measurements call the kernel that multiplies a format that way."""
    ending = DECODED if way == DECODED else kernel_of(format, way).INSTRUCTION
    return f"{format}_{ending}"


def check_weights(A: SparseMatrix) -> None:
    """Raise ValueError for infinite and NaN weights, if the kernel could multiply them by zero."""
    if isinstance(A, ZeroRowChunks) and A.nonfinite:
        raise ValueError(
            f"A has an infinite or NaN weight, which {A.name} cannot multiply; {ELSEWHERE}"
        )
