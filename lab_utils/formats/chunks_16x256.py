"""What formats share whose chunks are 16 rows by 256 columns, in strips of 16 rows."""

from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from lab_utils.analysis.lane_24_strips import rounds
from lab_utils.analysis.zero_row_24_strips import strips
from lab_utils.formats import native
from lab_utils.formats.checks import check_dense, offsets_from_counts
from lab_utils.formats.chunks import START_BYTES, Chunks


class Chunks16x256(Chunks):
    """A strip's chunks lie behind each other. Compiled functions are lscd_<name>_size, _pack, too.

    The one constant is `_largest` of the chunks.
    """

    ARRAYS: ClassVar = {
        "data": torch.uint8,
        "chunk_start": torch.int32,
        "geometry": torch.int32,
    }

    @classmethod
    def encode(cls, dense: Tensor) -> Self:
        """Encode `dense` [M, K]; raises ValueError as `SparseMatrix.encode` does."""
        dense = check_dense(dense)
        M, K = dense.shape
        sizes = dense.new_empty(strips(M) * rounds(K), dtype=torch.int32)
        native.call(f"lscd_{cls.name}_size", dense, M, K, sizes)
        chunk_start = offsets_from_counts(sizes, f"units of {START_BYTES} bytes of A's chunks")
        data = dense.new_empty(START_BYTES * int(chunk_start[-1]), dtype=torch.uint8)
        native.call(f"lscd_{cls.name}_pack", dense, M, K, chunk_start, data)
        largest = cls._largest(data, chunk_start)
        geometry = torch.tensor([largest], dtype=torch.int32, device=dense.device)
        arrays = {"data": data, "chunk_start": chunk_start, "geometry": geometry}
        return cls.of_valid((M, K), dense.dtype, arrays, (largest,))

    @staticmethod
    def _largest(data: Tensor, chunk_start: Tensor) -> int:
        """Bytes of the largest chunk, or of what kernels copy of it."""
        return START_BYTES * int(chunk_start.diff().max())

    @property
    def strips(self) -> int:
        """Strips of 16 rows, four for each 64 rows of A."""
        return strips(self.shape[0])

    @property
    def rounds(self) -> int:
        """Chunks of a strip."""
        return rounds(self.shape[1])

    def _rows(self, geometry: NamedTuple, first: int, rows: int) -> tuple[Tensor | int, ...]:
        starts = self.arrays["chunk_start"][strips(first) * self.rounds :]
        return self.arrays["data"], starts, rows, self.shape[1]

    def _lengths(self) -> dict[str, int | None]:
        return {"data": None, "chunk_start": None, "geometry": 1}

    def _check_strips(self) -> None:
        """Check the offsets, and each chunk."""
        self._check_chunk_start(self.strips * self.rounds)
        self._check_chunks(self.arrays["data"], self.arrays["chunk_start"], *self.shape)
