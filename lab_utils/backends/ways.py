"""Ways of multiplying A on a GPU, of which plans take what they expect to be fastest."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# A is decoded in the kernel that multiplies, by each thread block for its columns; into tiles that
# several thread blocks share; or before the product, once.
WAYS = FUSED, TILES, DECODED = ("fused", "tiles", "decoded")

_forced: ContextVar[str | None] = ContextVar("forced", default=None)


@contextmanager
def forced(way: str) -> Iterator[None]:
    """Make plans and products on a GPU inside this block use one of WAYS; ValueError for others.

    Not every format has every way: products of one that has not raise ValueError. The emulator,
    which has no cuBLAS, takes `decoded` for `fused`; CPUs take no notice.
    """
    if way not in WAYS:
        raise ValueError(f"way={way!r}: unknown; allowed: {', '.join(WAYS)}")
    token = _forced.set(way)
    try:
        yield
    finally:
        _forced.reset(token)


def asked_way() -> str | None:
    """What `forced` says, if anything."""
    return _forced.get()


def forced_way(format: str, allowed: tuple[str, ...]) -> str | None:
    """The same; ValueError where the format has no such way."""
    way = asked_way()
    if way is not None and way not in allowed:
        raise ValueError(f"way={way!r}: {format} has none; allowed: {', '.join(allowed)}")
    return way
