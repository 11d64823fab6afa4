"""What the emulator counted in the kernels of one product: per source line, and per request."""

import functools
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]

# Numbered as `Op` of kernels/emulator/machine/request.h.
OPERATIONS = (
    "shared_load", "shared_store", "ldmatrix", "cp_async", "commit", "wait",
    "global_load", "global_store", "atomic", "mma", "shuffle", "vote", "popcount", "barrier",
    "warp_barrier", "stmatrix", "mbarrier", "bulk_copy", "bmma", "mma_sp", "wgmma", "wgmma_sp",
    "wgmma_wait",
)  # fmt: skip

FUNCTION = re.compile(r"__(?:device|global)__(?! *=)(?:[^(;]|__launch_bounds__\([^)]*\))*?(\w+)\(")


@dataclass(frozen=True)
class Counts:
    """Sums over requests; a request is what the lanes of one warp do together at one line.

    `lanes` that took part; `wavefronts` of 128 bytes in shared memory and `sectors` of 32 bytes in
    global memory, each with the least that could carry the same bytes.
    """

    requests: int = 0
    lanes: int = 0
    wavefronts: int = 0
    least_wavefronts: int = 0
    sectors: int = 0
    least_sectors: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        mine, others = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})


@functools.cache
def _source(file: str) -> tuple[str, ...]:
    path = ROOT / file
    return tuple(path.read_text().splitlines()) if path.is_file() else ()


@dataclass(frozen=True)
class Place:
    """One operation at one source line, in one launch: `file` is relative to the repository."""

    kernel: str
    file: str
    line: int
    operation: str

    @property
    def text(self) -> str:
        """The source line; empty where the file is not in the repository."""
        lines = _source(self.file)
        return lines[self.line - 1].strip() if lines else ""

    @property
    def function(self) -> str:
        """The device function that holds the line; empty for files outside of the repository."""
        for line in reversed(_source(self.file)[: self.line]):
            if head := FUNCTION.search(line):
                return head[1]
        return ""


@dataclass(frozen=True)
class Request:
    """One request of a watched block, in the order of its warp; an item for each of its `lanes`.

    `shared` are byte offsets in shared memory, of accesses `shared_bytes` wide; `offsets` are those
    in `array`, an array of global memory. A lane without such an access has None. `pending`, of a
    wait: the latest groups of asynchronous copies that it does not wait for.
    """

    place: Place
    warp: int
    lanes: tuple[int, ...]
    shared: tuple[int | None, ...]
    shared_bytes: int
    array: str | None
    offsets: tuple[int | None, ...]
    counts: Counts
    pending: int | None = None


@dataclass(frozen=True)
class KernelTrace:
    """The launches of one product, in order, what each line of them cost, and watched requests.

    `carveouts`: percent of an SM's memory that each launch wants to be shared; 0: left to CUDA.
    """

    kernels: tuple[str, ...]
    lines: dict[Place, Counts]
    requests: tuple[Request, ...] = field(default=(), repr=False)
    carveouts: tuple[int, ...] = ()

    def total(self, operation: str | None = None, *, kernel: str | None = None) -> Counts:
        """Sum over lines: of one operation, of the kernels whose names start with `kernel`.

        Raises ValueError for an operation that is none of OPERATIONS.
        """
        if operation is not None and operation not in OPERATIONS:
            allowed = ", ".join(OPERATIONS)
            raise ValueError(f"operation={operation!r}: unknown; allowed: {allowed}")
        chosen = (
            counts
            for place, counts in self.lines.items()
            if operation in (None, place.operation) and place.kernel.startswith(kernel or "")
        )
        return sum(chosen, Counts())

    def frame(self) -> pd.DataFrame:
        """A row per line and operation, in the order of kernels, files and lines."""
        return pd.DataFrame(list(self._rows()))

    def _rows(self) -> Iterator[dict[str, object]]:
        for place, counts in self.lines.items():
            yield asdict(place) | {"text": place.text} | asdict(counts)

    def __str__(self) -> str:
        return self.frame().to_string(index=False)
