"""Kernels each time without one of their waits, fences and barriers."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


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
