"""Formats of a whole model that are not encoded as they would choose by themselves."""

from collections.abc import Collection
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """A format, and options of its `encode`."""

    format: str
    options: dict[str, Any]


# Where speed and bytes are at odds, a format chooses what is faster on an H200. Of zero-row 2:4 at
# 80 %, packed streams have an eighth fewer bytes than pairs: room for more sequences, and on an
# H100, whose memory is slower, some 6 % less time.
PACKED = "zero_row_24_packed"
VARIANTS = {PACKED: Variant("zero_row_24", {"streams": "packed"})}


def with_variants(formats: Collection[str]) -> list[str]:
    """These names, and those of variants of the formats among them."""
    return [*formats, *(name for name, one in VARIANTS.items() if one.format in formats)]


def variant_of(name: str) -> Variant:
    """What a variant's name stands for; any other name for itself, without options."""
    return VARIANTS.get(name, Variant(name, {}))
