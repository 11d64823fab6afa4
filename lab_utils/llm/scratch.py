"""Room for one matrix that is decoded to be multiplied dense, the same for all layers."""

import torch
from torch import Tensor

from lab_utils.formats import SparseMatrix
from lab_utils.llm.config import OPTConfig


class Scratch:
    """Memory for the largest matrix of one of `world` ranks; allocated when it is first needed.

    Matrices of several sizes, each with memory of its own, would leave holes that the next ones do
    not fit into, and take up to twice as much.
    """

    def __init__(self, config: OPTConfig, world: int = 1):
        heads, ffn = config.share(world)
        self.weights = config.hidden * max(3 * heads * config.head_dim, ffn)
        self._room: Tensor | None = None

    def decoded(self, A: SparseMatrix) -> Tensor:
        """The dense matrix [M, K], until the next call."""
        place = {"dtype": A.dtype, "device": A.device}
        if self._room is None or (self._room.dtype, self._room.device) != tuple(place.values()):
            with torch.inference_mode(False):  # or else it could be written to in no other mode
                self._room = torch.empty(self.weights, **place)
        M, K = A.shape
        return A.decode(out=self._room[: M * K].view(M, K))
