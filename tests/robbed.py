"""Kernels without one of their waits, fences and barriers: built once, robbed when they run."""

import ctypes
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from emulated import compiled, linked

from lab_utils.backends.simt import Machine
from lab_utils.toolchains import SOURCES

# Which of the cases has its place robbed; set from outside.
NUMBER = 'extern "C" __attribute__((visibility("default"))) int lscd_robbed'
LAUNCHER = """
extern "C" __attribute__((visibility("default"))) int lscd_cuda_{0}(
    const lscd::WgmmaProblem* p, cudaStream_t stream) {{ return lscd::launch_{0}(*p, stream); }}
"""


class Robbed(NamedTuple):
    """A source without what stands at one place of it."""

    source: Path
    at: int
    lost: str

    def __str__(self) -> str:
        line = self.source.read_text().count("\n", 0, self.at) + 1
        return f"{self.source.name}:{line} {self.lost}"


def robbed(sources: Iterable[Path], synchronises: re.Pattern[str]) -> list[Robbed]:
    """The sources, each without one match of `synchronises`."""
    return [
        Robbed(source, match.start(), match[0])
        for source in sources
        for match in synchronises.finditer(source.read_text())
    ]


class Kernels:
    """The library of .cu files of one room, of which any of `cases` can be taken away.

    Each place asks whether it is the one that is robbed: one compilation serves all of them.
    `fewer` takes from each source what the products of a test do not use; `launch`, of a single
    .cu, is its only launcher, lscd_cuda_<launch>, which hands a WgmmaProblem to launch_<launch>.
    """

    def __init__(
        self, kernels: Iterable[Path], cases: list[Robbed], folder: Path,
        fewer: Callable[[str], str] = str, launch: str = "",
    ) -> None:  # fmt: skip
        self.cases, kernels = cases, list(kernels)
        room = kernels[0].parent
        copies = folder / "kernels" / room.name
        copies.mkdir(parents=True)
        for shared in ("common", "emulator"):
            (copies.parent / shared).symlink_to(SOURCES / shared)
        for source in (*kernels, *room.glob("*.cuh")):
            text = fewer(self._asking(source))
            if source in kernels:
                text = f"{NUMBER};\n#line 1\n{text}{LAUNCHER.format(launch) if launch else ''}"
            (copies / source.name).write_text(text)
        number = copies / "robbed.cu"
        number.write_text(f"{NUMBER};\nint lscd_robbed = -1;\n")

        def build(name: str) -> Path:
            return compiled(copies / name, copies / f"{name}.o")

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(build, (number.name, *(one.name for one in kernels))))
        self.machine = linked(objects, copies / "kernels.so")

    def _asking(self, source: Path) -> str:
        """A source whose places of `cases` are passed by where lscd_robbed has their number."""
        text = source.read_text()
        places = [(case, i) for i, case in enumerate(self.cases) if case.source == source]
        for case, i in sorted(places, key=lambda place: place[0].at, reverse=True):
            asked = f"(lscd_robbed == {i} ? void() : void({case.lost}))"
            text = text[: case.at] + asked + text[case.at + len(case.lost) :]
        return text

    def without(self, case: Robbed | None) -> Machine:
        """The machine, of which that case is taken away, or none of them."""
        number = ctypes.c_int.in_dll(self.machine.library, "lscd_robbed")
        number.value = -1 if case is None else self.cases.index(case)
        return self.machine
