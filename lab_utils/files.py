"""Files that are written whole or not at all, and by one at a time."""

import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file in one step: a reader sees the old or the new one, never half.

    Text is UTF-8. A file that is there keeps its permissions, and a link stays one: what it leads
    to is replaced. Raises OSError, and all is as before.
    """
    target = linked(path)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        if target.exists():
            partial.chmod(target.stat().st_mode)
        partial.replace(target)
    finally:
        with suppress(OSError):  # where nothing could be written, there is nothing to remove
            partial.unlink()


def linked(path: str | Path) -> Path:
    """What links at `path` lead to, there or not; OSError where they lead in a circle."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


@contextmanager
def locked(path: Path, flags: int, how: int = fcntl.LOCK_EX) -> Iterator[int]:
    """The opened file at `path`, which nobody else who asks here appends to or replaces meanwhile.

    Nor reads, unless `how` is LOCK_SH. Only one at a time for a file: another would wait for it.
    """
    while True:
        descriptor = os.open(path, flags, 0o644)
        try:
            fcntl.flock(descriptor, how)
            if _is_at(descriptor, path):
                yield descriptor
                return
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that was forked may have it open, too
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the opened file is still the one at `path`: it may have been replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError inside becomes a RuntimeError, which names the file."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{path}: cannot be written: {error.strerror or error}") from error
