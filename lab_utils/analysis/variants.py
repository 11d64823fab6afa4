"""Formats of a whole model that are not encoded as they would choose by themselves."""

from typing import Any, NamedTuple


class Variant(NamedTuple):
    """A format, and options of its `encode`."""

    format: str
    options: dict[str, Any]


# Where speed and bytes are at odds, a format chooses what is faster on an H200. Of zero-row 2:4 at
# 80 %, packed streams have an eighth fewer bytes than pairs: room for more sequences, and on an
# H100, whose memory is slower, 7 % less time.
VARIANTS = {"zero_row_24_packed": Variant("zero_row_24", {"pairs": False})}


def variant_of(name: str) -> Variant:
    """What a variant's name stands for; any other name for itself, without options."""
    return VARIANTS.get(name, Variant(name, {}))
