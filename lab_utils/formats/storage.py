"""Encodings as safetensors files: written in one step, and read only if every byte is as written.

The metadata entry "lscd" is JSON: format, version, shape, dtype and a CRC-32 of each array; the
entry "crc32" guards that JSON. So a flipped bit anywhere in the file is found.
"""

import json
import os
import zlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from lab_utils.files import linked, write_whole

KEYS = ("format", "version", "shape", "dtype", "crc32")


def write(path: str | Path, metadata: dict, arrays: dict[str, Tensor]) -> None:
    """Write `arrays` and `metadata`; `path` is the whole file or what it was before.

    Raises ValueError where `path` is not that of a file, RuntimeError where it cannot be written.
    """
    metadata = {**metadata, "crc32": {name: _crc32(array) for name, array in arrays.items()}}
    text = json.dumps(metadata)
    entries = {"lscd": text, "crc32": str(zlib.crc32(text.encode()))}
    try:
        target = _target(path)
        # Not safetensors' own save_file, which makes files that nobody else may read.
        write_whole(target, save(arrays, metadata=entries))
    except OSError as error:
        raise RuntimeError(f"cannot write path={str(path)!r}: {error.strerror}") from error


def _target(path: str | Path) -> Path:
    """The file to write: what a link leads to, not the link."""
    allowed = "the name of a file, there or not"
    target = linked(_named(path, allowed))
    if not Path(path).name or (target.exists() and not target.is_file()):
        raise ValueError(f"path={str(Path(path))!r}; allowed: {allowed}")
    return target


def _named(path: str | Path, allowed: str) -> Path:
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise ValueError(f"path={path!r:.60}; allowed: {allowed}")
    return Path(path)


def read_metadata(path: str | Path) -> dict:
    """The metadata of a stored matrix; raises ValueError if the file is not one."""
    return _read(path, with_arrays=False)[0]


def read(path: str | Path) -> tuple[dict, dict[str, Tensor]]:
    """Metadata and arrays of a stored matrix; raises ValueError if the file is damaged."""
    metadata, arrays = _read(path, with_arrays=True)
    for name in metadata["crc32"].keys() | arrays.keys():
        if name not in arrays or metadata["crc32"].get(name) != _crc32(arrays[name]):
            raise ValueError(f"{path}: array {name!r} is damaged (checksum differs)")
    return metadata, arrays


def _read(path: str | Path, with_arrays: bool) -> tuple[dict, dict[str, Tensor]]:
    path = _named(path, "the name of a file")
    _require_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = _checked(file.metadata() or {})
            # Copies, since the tensors of safetensors are windows into a file that may change.
            names = list(file.keys()) if with_arrays else []
            return metadata, {name: file.get_tensor(name).clone() for name in names}
    except OSError as error:
        raise RuntimeError(f"cannot read path={str(path)!r}: {error}") from error
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a stored sparse matrix, or damaged ({error})") from error


def _require_file(path: Path) -> None:
    try:
        if path.is_file():
            return
        what = "is no file" if path.exists() else "no such file"
    except OSError as error:
        raise RuntimeError(f"cannot read path={str(path)!r}: {error.strerror}") from error
    raise ValueError(f"path={str(path)!r}: {what}")


def _checked(entries: dict[str, str]) -> dict:
    """The metadata in the file's entries, if they are whole."""
    if entries["crc32"] != str(zlib.crc32(entries["lscd"].encode())):
        raise ValueError("the checksum of its metadata differs")
    metadata = json.loads(entries["lscd"])
    if not isinstance(metadata, dict):
        raise ValueError(f"its metadata are {metadata!r:.60}")
    if missing := [key for key in KEYS if key not in metadata]:
        raise ValueError(f"its metadata has no {', '.join(missing)}")
    if not isinstance(metadata["crc32"], dict):
        raise ValueError(f"its crc32 is {metadata['crc32']!r:.60}")
    return metadata


def _crc32(array: Tensor) -> int:
    return zlib.crc32(array.view(torch.uint8).numpy())
