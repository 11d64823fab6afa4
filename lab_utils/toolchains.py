"""The compilers: which sources they take on this machine, with which flags, where they are."""

import functools
import os
import platform
import shutil
import subprocess
import sysconfig
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import torch

SOURCES = Path(__file__).resolve().parents[1] / "kernels"
X86 = platform.machine().lower() in ("x86_64", "amd64")


class Toolchain(ABC):
    """One compiler and what it builds; every command is a list of words for subprocess."""

    sources: ClassVar[str]  # glob of what is compiled, in a library's folder
    headers: ClassVar[str]  # glob of what that includes, in the same folder …
    shared: ClassVar[tuple[str, ...]] = ()  # … and in these folders of kernels/

    @abstractmethod
    def compiler(self) -> str:
        """Path of the compiler. Raises RuntimeError where there is none."""

    @abstractmethod
    def flags(self, source: Path) -> tuple[str, ...]:
        """Flags that a source is compiled with."""

    @abstractmethod
    def link_flags(self) -> tuple[str, ...]:
        """Flags that objects are linked into a shared library with."""

    def takes(self, source: Path) -> bool:
        """Whether a source is for this machine."""
        return True

    def compile_command(self, source: Path, target: Path) -> list[str]:
        return [self.compiler(), *self.flags(source), "-c", str(source), "-o", str(target)]

    def link_command(self, objects: list[str], target: Path) -> list[str]:
        return [self.compiler(), *self.link_flags(), "-o", str(target), *objects]

    def identity(self) -> str:
        """What the result depends on, beside sources and flags: the compiler's version."""
        return _version(self.compiler())


class Cxx(Toolchain):
    """g++ (or $CXX) for kernels/cpu."""

    sources = "*.cpp"
    headers = "*.h"

    COMMON = (
        "-std=c++17", "-O3", "-fPIC", "-fopenmp", "-fvisibility=hidden", "-Wall", "-Wextra",
        "-Wno-uninitialized",  # gcc 12 warns inside its own AVX-512 headers
    )  # fmt: skip
    AVX512 = (
        "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vbmi2", "-mavx2", "-mfma",
        "-mf16c", "-mbmi2", "-mpopcnt", "-mprefer-vector-width=512",
    )  # fmt: skip
    # A source named *_<isa>.cpp is compiled with the flags of that instruction set and called only
    # where the CPU has it (kernels/cpu/dispatch.cpp).
    ISA: ClassVar[dict[str, tuple[str, ...]]] = {
        "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi2", "-mpopcnt"),
        "avx512": AVX512,
        "avx512bf16": (*AVX512, "-mavx512bf16"),
        "amx": (*AVX512, "-mamx-tile", "-mamx-bf16"),
    }

    def compiler(self) -> str:
        name = os.environ.get("CXX") or "g++"
        path = shutil.which(name)
        if path is None:
            raise RuntimeError(
                f"C++ compiler {name!r} not found: install g++ (Debian/Ubuntu: apt install g++), "
                "or set CXX to a compiler of C++17, with a GPU of C++20"
            )
        return path

    def isa_of(self, source: Path) -> str | None:
        """Instruction set that a source is written for, if its name ends in one."""
        suffix = source.stem.rpartition("_")[2]
        return suffix if suffix in self.ISA else None

    def takes(self, source: Path) -> bool:
        return X86 or self.isa_of(source) is None

    def flags(self, source: Path) -> tuple[str, ...]:
        return self.COMMON + self.ISA.get(self.isa_of(source) or "", ())

    def link_flags(self) -> tuple[str, ...]:
        return ("-shared", "-fopenmp")


class TorchCxx(Cxx):
    """g++ for kernels/torch, with the headers and the libraries of the torch that is installed."""

    HOME: ClassVar = Path(torch.__file__).parent

    def takes(self, source: Path) -> bool:
        return True

    def flags(self, source: Path) -> tuple[str, ...]:
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        return (
            "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra",
            abi, "-isystem", str(self.HOME / "include"),
        )  # fmt: skip

    def link_flags(self) -> tuple[str, ...]:
        libraries = self.HOME / "lib"
        return "-shared", f"-L{libraries}", f"-Wl,-rpath,{libraries}"

    def link_command(self, objects: list[str], target: Path) -> list[str]:
        return [*super().link_command(objects, target), "-ltorch_cpu", "-lc10"]

    def identity(self) -> str:
        return f"{super().identity()} torch {torch.__version__}"


class Emulator(Cxx):
    """g++ for GPU kernels: with kernels/emulator in place of CUDA, they run on the host."""

    sources = "*.cu"
    headers = "*.*h"
    shared = ("common", "emulator")

    COMMON = (
        "-x", "c++", "-std=c++17", "-O1", "-fPIC", "-fopenmp", "-fvisibility=hidden",
        "-Wall", "-Wextra",
        "-Wno-unknown-pragmas",  # unroll
        "-Wno-sign-compare",  # threadIdx is unsigned, and nvcc says nothing
        "-DLSCD_EMULATOR", f"-I{SOURCES / 'emulator' / 'cuda'}", "-include", "cuda_runtime.h",
    )  # fmt: skip

    def takes(self, source: Path) -> bool:
        return True

    def flags(self, source: Path) -> tuple[str, ...]:
        return self.COMMON


class Nvcc(Toolchain):
    """nvcc for GPU kernels: machine code for every GPU from sm_80 on, and PTX for later ones."""

    sources = "*.cu"
    headers = "*.cuh"
    shared = ("common",)

    ARCHITECTURES = ("80", "86", "89", "90a", "100", "120")
    COMMON = (
        "-std=c++17", "-O3", "--threads=0", "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra",
    )  # fmt: skip

    def compiler(self) -> str:
        """$NVCC, a CUDA toolkit's nvcc, or the one of the wheel nvidia-cuda-nvcc."""
        packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
        homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        places = [Path(home) / "bin" / "nvcc" for home in homes if home]
        candidates = [os.environ.get("NVCC"), "nvcc", *places, *sorted(packages.glob("*/bin/nvcc"))]
        found = (shutil.which(candidate) for candidate in candidates if candidate)
        path = next(filter(None, found), None)
        if path is None:
            raise RuntimeError(
                "CUDA compiler nvcc not found: install a CUDA toolkit, or pip install "
                "nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl, or set NVCC"
            )
        return path

    def flags(self, source: Path) -> tuple[str, ...]:
        codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in self.ARCHITECTURES]
        return (*self.COMMON, *codes, "-gencode=arch=compute_120,code=compute_120")

    def link_flags(self) -> tuple[str, ...]:
        return ("-shared", "-cudart=static")


@functools.cache
def _version(compiler: str) -> str:
    return run([compiler, "--version"])


def run(command: list[str]) -> str:
    """Output of a command: a compiler, or a tool of its kind.

    Raises RuntimeError, with what the command complained about, where it fails.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        name = Path(command[0]).name
        raise RuntimeError(f"{name} failed: {' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout
