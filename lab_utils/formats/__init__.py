"""One class per sparse format, and the calls that find a class by its name."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from lab_utils.analysis.variants import VARIANTS, variant_of, with_variants
from lab_utils.formats import storage
from lab_utils.formats.base import SparseMatrix
from lab_utils.formats.bitmap_strips import BitmapStrips
from lab_utils.formats.checks import require_dense, warn_of_negative_zeros
from lab_utils.formats.coded_strips import CodedStrips
from lab_utils.formats.csr import Csr
from lab_utils.formats.dense import Dense
from lab_utils.formats.lane_24_strips import Lane24Strips
from lab_utils.formats.sparta import SparTA
from lab_utils.formats.tca_bme import TcaBme
from lab_utils.formats.tiled_csl import TiledCsl
from lab_utils.formats.two_four import TwoFour
from lab_utils.formats.zero_row_24 import ZeroRow24
from lab_utils.formats.zero_row_24_strips import ZeroRow24Strips

FORMATS: dict[str, type[SparseMatrix]] = {
    cls.name: cls
    for cls in (
        Dense,
        Csr,
        TiledCsl,
        TcaBme,
        TwoFour,
        SparTA,
        ZeroRow24,
        ZeroRow24Strips,
        Lane24Strips,
        BitmapStrips,
        CodedStrips,
    )
}

__all__ = [
    "FORMATS",
    "BitmapStrips",
    "CodedStrips",
    "Csr",
    "Dense",
    "Lane24Strips",
    "SparTA",
    "SparseMatrix",
    "TcaBme",
    "TiledCsl",
    "TwoFour",
    "ZeroRow24",
    "ZeroRow24Strips",
    "by_name",
    "check_options",
    "check_variant",
    "encode",
    "encode_variant",
    "is_variant",
    "load",
]


def encode(dense: Tensor, format: str, **options: Any) -> SparseMatrix:
    """Encode `dense` [M, K] (fp16 or bf16) in the format of that name.

    `options` go to the format's own `encode`. Raises ValueError for an unknown format or option
    and for everything that the format cannot hold; warns of many -0, which are kept as values.
    """
    cls = by_name(format)
    check_options(cls, options)
    require_dense(dense)
    if cls is not Dense:
        warn_of_negative_zeros(dense)
    return cls.encode(dense, **options)


def load(path: str | Path) -> SparseMatrix:
    """Read a matrix that `SparseMatrix.save` wrote, whatever its format."""
    return by_name(storage.read_metadata(path)["format"]).load(path)


def by_name(format: str) -> type[SparseMatrix]:
    """The class of that name; raises ValueError, listing the known, for anything else."""
    if isinstance(format, str) and format in VARIANTS:
        name, options = VARIANTS[format]
        instead = ", ".join([f"format={name!r}", *(f"{k}={v!r}" for k, v in options.items())])
        raise ValueError(f"format={format!r}: a variant; allowed here: {instead}")
    if not isinstance(format, str) or format not in FORMATS:
        raise ValueError(f"format={format!r:.60}: unknown; allowed: {', '.join(FORMATS)}")
    return FORMATS[format]


def check_variant(name: str) -> None:
    """Raise ValueError, listing the known, unless it names a format or a variant of one."""
    if not isinstance(name, str) or variant_of(name).format not in FORMATS:
        allowed = ", ".join(with_variants(FORMATS))
        raise ValueError(f"format={name!r:.60}: unknown; allowed: {allowed}")


def encode_variant(dense: Tensor, name: str) -> SparseMatrix:
    """`encode` in a format, or in a variant of one, of that name."""
    check_variant(name)
    format, options = variant_of(name)
    return encode(dense, format, **options)


def is_variant(A: SparseMatrix, name: str) -> bool:
    """Whether A is of that name as it is: in a variant's format with its options, or in a format as
    no variant of it.
    """
    format, options = variant_of(name)
    if not options:
        return A.variant == name
    return A.name == format and all(A.option(one) == value for one, value in options.items())


def check_options(cls: type[SparseMatrix], options: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that is no option of `cls.encode`, which checks the values."""
    _, *known = inspect.signature(cls.encode).parameters
    for name, value in options.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise ValueError(f"{name}={value!r:.60}: no option of {cls.name}; allowed: {allowed}")
