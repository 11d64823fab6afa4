"""What the two formats of zero-row 2:4 share: chunks of streams, and what is checked of them."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from lab_utils.formats import native
from lab_utils.formats.base import SparseMatrix, bits

START_BYTES = 16  # unit of chunk_start
EXPONENT = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}  # all ones: infinite or NaN

# What can be wrong with a chunk of either format; each adds its own third one.
PROBLEMS = {
    1: "has a size that its starts do not state, or that no chunk has",
    2: "has a start outside of its values, or off its alignment",
    4: "has a stream that leaves it",
    5: "has a group whose two values are not in ascending order",
    6: "has a value outside of the matrix",
    7: "has two values in one place",
    8: "stores a +0",
    9: "has a non-zero that is no value",
}


class ZeroRowChunks(SparseMatrix):
    """Chunks in `data`, one after another, that begin at 16 * `chunk_start`.

    The last two `constants` are the bytes of the largest chunk, and 1 where a weight is infinite or
    NaN. Compiled functions are lscd_<name>_count, _unpack and _check.
    """

    PROBLEMS: ClassVar[dict[int, str]]
    ROW_BLOCK, WRITES_ZEROS = 64, True

    @abstractmethod
    def _encoding(self, geometry: tuple[int, ...]) -> tuple[Tensor | int, ...]:
        """What the compiled readers take first."""

    @property
    def largest_chunk(self) -> int:
        """Bytes."""
        return self.constants[-2]

    @property
    def nonfinite(self) -> bool:
        """Whether a weight is infinite or NaN."""
        return bool(self.constants[-1])

    @property
    def nnz(self) -> int:
        starts = self.arrays["chunk_start"]
        counts = starts.new_empty(starts.numel() - 1)
        native.call(f"lscd_{self.name}_count", *self._streams(), counts.numel(), counts)
        return int(counts.sum())

    def _streams(self) -> tuple[Tensor | int, ...]:
        """What the compiled counter takes first."""
        return self.arrays["data"], self.arrays["chunk_start"]

    def _read_constants(self) -> tuple[int, ...]:
        return tuple(self.arrays["geometry"].tolist())

    @abstractmethod
    def _rows(self, geometry: tuple[int, ...], first: int, rows: int) -> tuple[Tensor | int, ...]:
        """What the compiled decoder of so many rows from `first` on takes."""

    def _unpack(self, dense: Tensor, first: int) -> None:
        rows = self._rows(self.constants, first, len(dense))
        native.call(f"lscd_{self.name}_unpack", *rows, dense)

    def _check_flags(self, **flags: int) -> None:
        for name, flag in flags.items():
            self.require(flag in (0, 1), f"{name} is {flag}; allowed: 0, 1")

    def _check_ascent(self, name: str, end: int) -> None:
        """Check that an array of offsets rises from 0 to `end`."""
        offsets = self.arrays[name].long()
        ends = [int(offsets[0]), int(offsets[-1])] if offsets.numel() else []
        self.require(ends == [0, end], f"{name} begins and ends with {ends}, not [0, {end}]")
        self.require(bool((offsets.diff() > 0).all()), f"{name} does not ascend")

    def _units_of_data(self) -> int:
        """Length of `data` in the unit of chunk_start."""
        units, left = divmod(self.arrays["data"].numel(), START_BYTES)
        self.require(left == 0, f"array 'data' is not a multiple of {START_BYTES} bytes")
        return units

    def _check_largest(self, largest: int) -> None:
        found = START_BYTES * int(self.arrays["chunk_start"].long().diff().max())
        self.require(found == largest, f"its largest chunk is {largest} bytes, and has {found}")

    def _check_weights(self, geometry: tuple[int, ...]) -> None:
        """Check all chunks, whose offsets are sound, and that no weight is stored twice."""
        nonfinite = torch.zeros(1, dtype=torch.int32, device=self.device)
        arguments = (*self._encoding(geometry), EXPONENT[self.dtype], nonfinite)
        self._scan("chunk", self.PROBLEMS, f"lscd_{self.name}_check", *arguments)
        found = int(nonfinite)
        self.require(found == geometry[-1], f"nonfinite is {geometry[-1]}, its values say {found}")
        dense = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        rows = self._rows(geometry, 0, self.shape[0])
        native.call(f"lscd_{self.name}_unpack", *rows, dense)
        self.require(int(torch.count_nonzero(bits(dense))) == self.nnz, "it stores a weight twice")
