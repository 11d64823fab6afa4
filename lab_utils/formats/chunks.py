"""What formats of chunks share: finding them, reading them back, and what is checked of them."""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24 import START_BYTES
from lab_utils.formats import native
from lab_utils.formats.base import SparseMatrix, bits


class Chunks(SparseMatrix):
    """Chunks in `data`, one after another, that begin at 16 * `chunk_start`.

    The array `geometry` holds the `constants`, and the attribute `geometry` gives them by name.
    Compiled functions are lscd_<name>_count, _unpack and _check.
    """

    Geometry: ClassVar[type[NamedTuple]]  # names of the `constants`, in their order
    PROBLEMS: ClassVar[dict[int, str]]  # what can be wrong with a chunk, by number
    ROW_BLOCK, WRITES_ZEROS = 64, True

    @abstractmethod
    def _rows(self, geometry: NamedTuple, first: int, rows: int) -> tuple[Tensor | int, ...]:
        """What the compiled decoder of so many rows from `first` on takes."""

    @property
    @abstractmethod
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk."""

    @property
    def largest_copy(self) -> int:
        """Bytes that kernels copy of a chunk, at most."""
        return self.largest_chunk

    @property
    def nnz(self) -> int:
        self.ensure_valid()  # who counts reads where the offsets say
        return self._count()

    def _count(self) -> int:
        """Non-zeros of chunks whose offsets are sound."""
        starts = self.arrays["chunk_start"]
        counts = starts.new_empty(starts.numel() - 1)
        native.call(f"lscd_{self.name}_count", *self._streams(), counts.numel(), counts)
        return int(counts.sum())

    def _streams(self) -> tuple[Tensor | int, ...]:
        """What the compiled counter takes first."""
        return self.arrays["data"], self.arrays["chunk_start"]

    def _read_constants(self) -> tuple[int, ...]:
        return tuple(self.arrays["geometry"].tolist())

    @property
    def geometry(self) -> NamedTuple:
        """The constants by name."""
        return self.Geometry._make(self.constants)

    def _read_geometry(self) -> NamedTuple:
        """What the array says, which need not have been checked yet."""
        return self.Geometry._make(self._read_constants())

    def _unpack(self, dense: Tensor, first: int) -> None:
        rows = self._rows(self.geometry, first, len(dense))
        native.call(f"lscd_{self.name}_unpack", *rows, dense)

    def _check_ascent(self, name: str, end: int) -> None:
        """Check that an array of offsets rises from 0 to `end`."""
        offsets = self.arrays[name].long()
        ends = [int(offsets[0]), int(offsets[-1])] if offsets.numel() else []
        self.require(ends == [0, end], f"{name} begins and ends with {ends}, not [0, {end}]")
        self.require(bool((offsets.diff() > 0).all()), f"{name} does not ascend")

    def _check_chunk_start(self, chunks: int) -> None:
        """Check that it says where so many chunks stand."""
        found = self.arrays["chunk_start"].numel()
        self.require(
            found == chunks + 1, f"array 'chunk_start' has {found} elements, needs {chunks + 1}"
        )
        self._check_ascent("chunk_start", self._units_of_data())

    def _units_of_data(self) -> int:
        """Length of `data` in the unit of chunk_start."""
        units, left = divmod(self.arrays["data"].numel(), START_BYTES)
        self.require(left == 0, f"array 'data' is not a multiple of {START_BYTES} bytes")
        return units

    def _check_largest(self, largest: int) -> None:
        found = START_BYTES * int(self.arrays["chunk_start"].long().diff().max())
        self.require(found == largest, f"its largest chunk is {largest} bytes, and has {found}")

    def _check_chunks(self, *arguments: Tensor | int) -> None:
        """Run the compiled check of all chunks, whose offsets are sound."""
        self._scan("chunk", self.PROBLEMS, f"lscd_{self.name}_check", *arguments)

    def _check_once(self, geometry: NamedTuple) -> None:
        """Check that no weight of chunks, which are sound, is stored twice."""
        dense = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        rows = self._rows(geometry, 0, self.shape[0])
        native.call(f"lscd_{self.name}_unpack", *rows, dense)
        self.require(
            int(torch.count_nonzero(bits(dense))) == self._count(), "it stores a weight twice"
        )
