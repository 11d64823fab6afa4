"""What bitmap_strips and coded_strips share: lanes whose values have a bank of shared memory."""

from typing import ClassVar, NamedTuple

from lab_utils.formats.chunks_16x256 import Chunks16x256


class BankStrips(Chunks16x256):
    """Chunks for dense wgmma, of any mask (kernels/cpu/encode/banks.h)."""

    PROBLEMS: ClassVar = {
        1: "has a size that no chunk has",
        2: "has banks that are not each one lane's",
        3: "has other lines than its values need",
        4: "has a value outside of the matrix",
        5: "stores a +0",
        6: "has a non-zero that is no value",
    }

    class Geometry(NamedTuple):
        """The `constants`."""

        largest_chunk: int

    @property
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk, which kernels copy whole."""
        return self.geometry.largest_chunk

    def _check(self) -> None:
        self._check_strips()
        self._check_largest(self._read_geometry().largest_chunk)
