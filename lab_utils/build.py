"""kernels/ -> shared libraries, cached by content.

A library is rebuilt when a source, a header, a flag or the compiler changes, and only then: the
cache key hashes all of them. It is compiled in a temporary folder and moved into place in one step,
so that no process ever sees half a library.
"""

import ctypes
import functools
import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lab_utils.toolchains import SOURCES, Cxx, Emulator, Nvcc, Toolchain, TorchCxx, run


@dataclass(frozen=True)
class Library:
    """One shared library: its name, the folder of kernels/ with its sources, and its compiler.

    `definitions` (NAME=VALUE) make another variant of it: -DNAME=VALUE for every source.
    """

    name: str
    folder: str
    toolchain: Toolchain
    definitions: tuple[str, ...] = ()

    def compile_command(self, source: Path, target: Path) -> list[str]:
        command = self.toolchain.compile_command(source, target)
        return command + [f"-D{definition}" for definition in self.definitions]

    def sources(self) -> list[Path]:
        """Sources to compile on this machine, sorted."""
        found = sorted((SOURCES / self.folder).rglob(self.toolchain.sources))
        if not found:
            raise RuntimeError(f"no sources under {SOURCES / self.folder}: use a full checkout")
        return [source for source in found if self.toolchain.takes(source)]

    def inputs(self) -> list[Path]:
        """Every file whose content the library depends on."""
        folders = [SOURCES / name for name in (self.folder, *self.toolchain.shared)]
        headers = (folder.rglob(self.toolchain.headers) for folder in folders)
        return self.sources() + sorted(itertools.chain.from_iterable(headers))


LIBRARIES = {
    "cpu": Library("cpu", "cpu", Cxx()),
    "emulator": Library("emulator", "spmm", Emulator()),
    "emulator_ladder": Library("emulator_ladder", "ladder", Emulator()),
    "exercises": Library("exercises", "exercises", Emulator()),
    "repeat": Library("repeat", "torch", TorchCxx()),
    "cuda": Library("cuda", "spmm", Nvcc()),
    "cuda_ladder": Library("cuda_ladder", "ladder", Nvcc()),
    "cuda_encode": Library("cuda_encode", "encode", Nvcc()),
    "cuda_baselines": Library("cuda_baselines", "baselines", Nvcc()),
}


def cache_folder() -> Path:
    """Where compiled libraries live: $LSCD_CACHE, else the user's cache folder."""
    if override := os.environ.get("LSCD_CACHE"):
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "lscd"


def cache_key(library: Library) -> str:
    """Hash of the library's sources, headers, flags, definitions and compiler."""
    tools = library.toolchain
    digest = hashlib.sha256(f"{tools.identity()} {tools.link_flags()}".encode())
    digest.update(" ".join(library.definitions).encode())
    for path in library.inputs():
        digest.update(f"{path.relative_to(SOURCES)} {tools.flags(path)}".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(library: Library, folder: Path, progress: Callable[[Iterable], Iterable]) -> Path:
    """Compile every source of the library in `folder` and link them; returns the library."""

    def compile_one(source: Path) -> str:
        # Named by its whole path: encode/tca_bme.cpp and spmm/tca_bme.cpp are two objects.
        name = "_".join(source.relative_to(SOURCES).with_suffix(".o").parts)
        run(library.compile_command(source, folder / name))
        return str(folder / name)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(compile_one, source) for source in library.sources()]
        objects = [step.result() for step in progress(running)]
    target = folder / f"lib{library.name}.so"
    run(library.toolchain.link_command(objects, target))
    return target


def build(
    name: str,
    progress: Callable[[Iterable], Iterable] = lambda steps: steps,
    definitions: tuple[str, ...] = (),
) -> Path:
    """Path of the compiled library `name`, building it if the cache has none.

    `definitions`, such as LSCD_LEFT_OUT=extract, make another library of the same sources.

    Raises ValueError for an unknown name and RuntimeError when there is no compiler, the
    compilation fails, or the cache folder cannot be written.
    """
    if name not in LIBRARIES:
        raise ValueError(f"name={name!r}: no such library; allowed: {', '.join(LIBRARIES)}")
    library = replace(LIBRARIES[name], definitions=definitions)
    target = cache_folder() / f"{name}-{cache_key(library)}" / f"lib{name}.so"
    try:
        if target.exists():
            return target
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="building-") as folder:
            compiled = _compile(library, Path(folder), progress)
            target.parent.mkdir(exist_ok=True)
            os.replace(compiled, target)
    except OSError as error:
        raise RuntimeError(
            f"cannot use the build cache {cache_folder()} ({error.strerror or error}): "
            "set LSCD_CACHE to a folder you can write to"
        ) from error
    return target


def build_all(progress: Callable[[Iterable], Iterable] = lambda steps: steps) -> dict[str, Path]:
    """Build every library that this machine can run; returns their paths by name."""
    gpu, for_gpus = torch.cuda.is_available(), (Nvcc, TorchCxx)
    names = [
        name for name, one in LIBRARIES.items() if gpu or not isinstance(one.toolchain, for_gpus)
    ]
    return {name: build(name, progress) for name in names}


@functools.cache
def load(name: str, definitions: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The compiled library `name`, built if needed, loaded once."""
    path = build(name, definitions=definitions)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise RuntimeError(f"cannot load {path}: {error}") from error
