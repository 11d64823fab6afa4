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

    Whoever keeps what was compiled, and finds it again in another process, compares the whole.
    """
    name = f"{A.name} {A.shape[0]}x{A.shape[1]}, {next(_numbers)}"
    _encodings[name] = A
    return f"{name} of {PROCESS}"


def name_in(key: str) -> str:
    """What of a key a graph holds: the same in each run of a program, whose graphs torch caches."""
    return key.partition(" of ")[0]


def encoding_of(name: str) -> SparseMatrix:
    """The encoding with the key that `name_in` found it in. Raises RuntimeError if it is gone."""
    if (A := _encodings.get(name)) is None:
        raise RuntimeError(f"name={name!r}: no such encoding in this process; compile it anew")
    return A
