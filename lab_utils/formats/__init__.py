"""One class per sparse format, and the two calls that find a class by its name."""

from pathlib import Path

from torch import Tensor

from lab_utils.formats.base import SparseMatrix, stored_format
from lab_utils.formats.tca_bme import TcaBme

FORMATS: dict[str, type[SparseMatrix]] = {cls.name: cls for cls in (TcaBme,)}

__all__ = ["FORMATS", "SparseMatrix", "TcaBme", "encode", "load"]


def encode(dense: Tensor, format: str, **options) -> SparseMatrix:
    """Encode `dense` [M, K] (fp16 or bf16) in the format of that name.

    `options` go to the format's own `encode`. Raises ValueError for an unknown format and for
    everything that the format cannot hold.
    """
    return _by_name(format).encode(dense, **options)


def load(path: str | Path) -> SparseMatrix:
    """Read a matrix that `SparseMatrix.save` wrote, whatever its format."""
    return _by_name(stored_format(path)).load(path)


def _by_name(format: str) -> type[SparseMatrix]:
    if format not in FORMATS:
        raise ValueError(f"format={format!r}: unknown; allowed: {', '.join(FORMATS)}")
    return FORMATS[format]
