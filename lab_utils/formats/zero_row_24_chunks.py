"""What the two formats of zero-row 2:4 share: chunks of streams, and what is checked of them."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from lab_utils.formats.chunks import Chunks

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


class ZeroRowChunks(Chunks):
    """Chunks of streams, whose `geometry` has the bytes of the `largest_chunk`, and `nonfinite`.

    That is 1 where a weight is infinite or NaN, else 0.
    """

    @abstractmethod
    def _encoding(self, geometry: NamedTuple) -> tuple[Tensor | int, ...]:
        """What the compiled readers take first."""

    @property
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk."""
        return self.geometry.largest_chunk

    @property
    def nonfinite(self) -> bool:
        """Whether a weight is infinite or NaN."""
        return bool(self.geometry.nonfinite)

    def _check_flags(self, **flags: int) -> None:
        for name, flag in flags.items():
            self.require(flag in (0, 1), f"{name} is {flag}; allowed: 0, 1")

    def _check_weights(self, geometry: NamedTuple) -> None:
        """Check all chunks, whose offsets are sound, and that no weight is stored twice."""
        nonfinite = torch.zeros(1, dtype=torch.int32, device=self.device)
        self._check_chunks(*self._encoding(geometry), EXPONENT[self.dtype], nonfinite)
        found, stated = int(nonfinite), geometry.nonfinite
        self.require(found == stated, f"nonfinite is {stated}, its values say {found}")
        self._check_once(geometry)
