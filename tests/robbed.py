"""Kernels each time without one of their waits, fences and barriers."""

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from emulated import compiled, linked

from lab_utils.backends.simt import Machine
from lab_utils.toolchains import SOURCES

LAUNCHER = """
extern "C" __attribute__((visibility("default"))) int lscd_cuda_{0}(
    const lscd::WgmmaProblem* p, cudaStream_t stream) {{ return lscd::launch_{0}(*p, stream); }}
"""


class Robbed(NamedTuple):
    """A source without what stands at one place of it."""

    source: Path
    at: int
    lost: str

    def text(self) -> str:
        text = self.source.read_text()
        return text[: self.at] + "void()" + text[self.at + len(self.lost) :]

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


def machines_of(
    room: Path, cases: list[Robbed], folder: Path, fewer: Callable[[str], str] = str
) -> dict[Robbed, Machine]:
    """The library of kernels/<room> with each of `cases` in place of its whole source, in `folder`.

    `fewer` takes from a robbed source what need not be compiled each time.
    """
    copies = folder / "kernels" / room.name
    copies.mkdir(parents=True)
    for shared in (SOURCES / "common", SOURCES / "emulator", *room.glob("*.cuh")):
        (copies.parent / shared.relative_to(SOURCES)).symlink_to(shared)

    def build(name: str, text: str) -> Path:
        copy = copies / f"{name}.cu"
        copy.write_text(text)
        return compiled(copy, copy.with_suffix(".o"))

    with ThreadPoolExecutor(2) as pool:
        whole = list(pool.map(lambda s: build(s.stem, s.read_text()), room.glob("*.cu")))
        parts = list(pool.map(lambda c: build(f"{c.source.stem}_{c.at}", fewer(c.text())), cases))
    machines = {}
    for case, part in zip(cases, parts, strict=True):
        others = [path for path in whole if path.stem != case.source.stem]
        machines[case] = linked([part, *others], part.with_suffix(".so"))
    return machines


def machines_alone(
    kernel: Path, launch: str, cases: list[Robbed], folder: Path, fewer: Callable[[str], str]
) -> dict[Robbed, Machine]:
    """The library of one .cu, and of what it includes, with one of `cases` at a time.

    Its only launcher, lscd_cuda_<launch>, hands a WgmmaProblem to launch_<launch>. `fewer` takes
    from each source what need not be compiled each time.
    """

    def build(case: Robbed) -> Machine:
        copies = folder / f"{case.source.name}_{case.at}" / kernel.parent.name
        copies.mkdir(parents=True)
        for shared in ("common", "emulator"):
            (copies.parent / shared).symlink_to(SOURCES / shared)
        for source in (kernel, *kernel.parent.glob("*.cuh")):
            text = case.text() if source == case.source else source.read_text()
            (copies / source.name).write_text(fewer(text))
        copy = copies / kernel.name
        copy.write_text(copy.read_text() + LAUNCHER.format(launch))
        return linked([compiled(copy, copies / "kernel.o")], copies / "kernel.so")

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(cases, pool.map(build, cases), strict=True))
