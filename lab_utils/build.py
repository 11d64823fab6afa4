"""kernels/ -> shared libraries, cached by content.

A library is rebuilt when a source, a header, a flag or the compiler changes, and only then: the
cache key hashes all four. It is compiled in a temporary folder and moved into place in one step,
so that no process ever sees half a library.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
X86 = platform.machine().lower() in ("x86_64", "amd64")

COMMON_FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-fopenmp", "-fvisibility=hidden", "-Wall", "-Wextra",
    "-Wno-uninitialized",  # gcc 12 warns inside its own AVX-512 headers
)  # fmt: skip
LINK_FLAGS = ("-shared", "-fopenmp")
# A source named *_<isa>.cpp is compiled with the flags of that instruction set and called only
# where the CPU has it (kernels/cpu/dispatch.cpp).
AVX512_FLAGS = (
    "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vbmi2", "-mavx2", "-mfma",
    "-mf16c", "-mbmi2", "-mpopcnt", "-mprefer-vector-width=512",
)  # fmt: skip
ISA_FLAGS = {
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi2", "-mpopcnt"),
    "avx512": AVX512_FLAGS,
    "avx512bf16": (*AVX512_FLAGS, "-mavx512bf16"),
    "amx": (*AVX512_FLAGS, "-mamx-tile", "-mamx-bf16"),
}


@dataclass(frozen=True)
class Library:
    """One shared library: its name and the folder of kernels/ that holds its sources."""

    name: str
    folder: str

    def sources(self) -> list[Path]:
        """C++ sources to compile on this machine, sorted."""
        found = sorted((KERNELS / self.folder).rglob("*.cpp"))
        if not found:
            raise RuntimeError(f"no C++ sources under {KERNELS / self.folder}: use a full checkout")
        return [source for source in found if X86 or isa_of(source) is None]

    def inputs(self) -> list[Path]:
        """Every file whose content the library depends on."""
        return self.sources() + sorted((KERNELS / self.folder).rglob("*.h"))


LIBRARIES = {"cpu": Library("cpu", "cpu")}


def isa_of(source: Path) -> str | None:
    """Instruction set a source is written for: the last part of its name, if that names one."""
    suffix = source.stem.rpartition("_")[2]
    return suffix if suffix in ISA_FLAGS else None


def cache_folder() -> Path:
    """Where compiled libraries live: $LSCD_CACHE, else the user's cache folder."""
    if override := os.environ.get("LSCD_CACHE"):
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "lscd"


def compiler() -> str:
    """Path of the C++ compiler: $CXX, else g++. Raises RuntimeError where there is none."""
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(
            f"C++ compiler {name!r} not found: install g++ (Debian/Ubuntu: apt install g++), "
            "or set CXX to a C++17 compiler"
        )
    return path


def _run(command: list[str]) -> str:
    """Output of a command; raises RuntimeError, with what it complained about, where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise RuntimeError(f"compilation failed: {' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout


@functools.cache
def _compiler_version(path: str) -> str:
    return _run([path, "--version"])


def _flags(source: Path) -> tuple[str, ...]:
    return COMMON_FLAGS + ISA_FLAGS.get(isa_of(source) or "", ())


def cache_key(library: Library) -> str:
    """Hash of the library's sources, headers, flags and compiler."""
    digest = hashlib.sha256(f"{_compiler_version(compiler())} {LINK_FLAGS}".encode())
    for path in library.inputs():
        digest.update(f"{path.relative_to(KERNELS)} {_flags(path)}".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(library: Library, folder: Path, progress: Callable[[Iterable], Iterable]) -> Path:
    """Compile every source of the library in `folder` and link them; returns the library."""

    def compile_one(source: Path) -> str:
        # Named by its whole path: encode/tca_bme.cpp and spmm/tca_bme.cpp are two objects.
        name = "_".join(source.relative_to(KERNELS).with_suffix(".o").parts)
        _run([compiler(), *_flags(source), "-c", str(source), "-o", str(folder / name)])
        return str(folder / name)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(compile_one, source) for source in library.sources()]
        objects = [step.result() for step in progress(running)]
    target = folder / f"lib{library.name}.so"
    _run([compiler(), *LINK_FLAGS, "-o", str(target), *objects])
    return target


def build(name: str, progress: Callable[[Iterable], Iterable] = lambda steps: steps) -> Path:
    """Path of the compiled library `name`, building it if the cache has none.

    Raises ValueError for an unknown name and RuntimeError when there is no compiler, the
    compilation fails, or the cache folder cannot be written.
    """
    if name not in LIBRARIES:
        raise ValueError(f"name={name!r}: no such library; allowed: {', '.join(LIBRARIES)}")
    library = LIBRARIES[name]
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
    """Build every library; returns their paths by name."""
    return {name: build(name, progress) for name in LIBRARIES}


@functools.cache
def load(name: str) -> ctypes.CDLL:
    """The compiled library `name`, built if needed, loaded once."""
    path = build(name)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise RuntimeError(f"cannot load {path}: {error}") from error
