"""What every baseline is: a way to compute C [M, N] = W [M, K] · B [K, N]."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.formats.checks import DTYPES


class Operand:
    """Weights as a baseline wants them: tensors on the GPU, and what else it knows about them.

    `tensors` is all that a launch reads of the weights; `nbytes` counts it. `dense` is the matrix
    [M, K] that they stand for, shared by all clones and read by nobody at launch. `constants` are
    small things that do not depend on where the tensors lie.
    """

    def __init__(self, tensors: dict[str, Tensor], dense: Tensor, **constants: object):
        self.tensors, self._dense, self.constants = tensors, dense, constants

    @property
    def shape(self) -> tuple[int, int]:
        """(M, K)."""
        return tuple(self._dense.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self._dense.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that one product reads of the weights."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def clone(self) -> Self:
        """The same weights in memory of their own."""
        copies = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return type(self)(copies, self._dense, **self.constants)

    def represented(self) -> Tensor:
        """The dense [M, K] that is really multiplied: W itself, unless the format drops weights."""
        return self._dense


class Baseline(ABC):
    """One way to the product, by somebody else or after somebody else's paper.

    `problem` says whether it can run, `prepare` encodes weights once, `bind` makes everything
    ready for one B, and the function that `bind` returns is what is timed: it only launches, on
    torch's current stream, into buffers that it keeps.
    """

    name: ClassVar[str]  # the `kernel` column of its rows
    dense: ClassVar[bool] = False  # multiplies all weights: a candidate for `dense_us`
    capturable: ClassVar[bool] = True  # whether its launches can go into a CUDA graph
    roundings: ClassVar[int] = 1  # how often a sum is rounded to 16 bits on its way into C

    @abstractmethod
    def problem(self, W: Tensor, N: int) -> str | None:
        """Why it cannot multiply W [M, K] by N columns on this machine, or None if it can."""

    @abstractmethod
    def prepare(self, W: Tensor) -> Operand:
        """W [M, K], fp16 or bf16 on the GPU, as `bind` takes it."""

    @abstractmethod
    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        """A function that computes C [M, N], of any strides, for B [K, N].

        B is activations [N, K] transposed: its columns are contiguous. It may be copied here, in
        the order or with the padding that the library likes, and must not change afterwards. C
        may be overwritten by the next call.
        """


def check_weights(W: Tensor) -> None:
    """Raise ValueError unless W is a contiguous fp16 or bf16 matrix on a GPU."""
    if W.ndim != 2 or W.dtype not in DTYPES.values() or not W.is_cuda or not W.is_contiguous():
        raise ValueError(
            f"W has shape {tuple(W.shape)}, {W.dtype}, on {W.device}, strides {W.stride()}; "
            "allowed: a contiguous [M, K] of fp16 or bf16 on a CUDA device"
        )


def check_activations(operand: Operand, B: Tensor) -> None:
    """Raise ValueError unless B is [K, N] with contiguous columns, of the operand's dtype."""
    K = operand.shape[1]
    if B.ndim != 2 or B.shape[0] != K or B.dtype != operand.dtype or not B.is_cuda:
        raise ValueError(
            f"B has shape {tuple(B.shape)}, {B.dtype}, on {B.device}; allowed: [{K}, N] of "
            f"{operand.dtype} on a CUDA device"
        )
    if not B.T.is_contiguous():
        raise ValueError(f"B has strides {B.stride()}; allowed: contiguous columns, (1, {K})")
