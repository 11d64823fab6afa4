"""Names of encodings, by which graphs of torch.compile know them, in one process."""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from lab_utils.formats.base import SparseMatrix

PROCESS = secrets.token_hex(8)
_numbers = itertools.count(1)
_encodings: WeakValueDictionary[str, SparseMatrix] = WeakValueDictionary()


def key_of(A: SparseMatrix) -> str:
    """A new name for A: its format and shape, a number, and what no other process has.

    So whatever was compiled in another one, and is found again, finds none; nor are graphs that
    torch caches on disk found by later processes.
    """
    key = f"{A.name} {A.shape[0]}x{A.shape[1]}, {next(_numbers)} of {PROCESS}"
    _encodings[key] = A
    return key


def encoding_of(key: str) -> SparseMatrix:
    """The encoding of that name. Raises RuntimeError where there is none, or it is gone."""
    if (A := _encodings.get(key)) is None:
        raise RuntimeError(f"key={key!r}: no such encoding in this process; compile it anew")
    return A
