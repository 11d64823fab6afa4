"""Products again: what was asked of operands like these has the same answers as the last time.

In eager mode Python takes longer to check, plan and launch a product than a GPU takes for many. So
where activations lie as they did before, and the encoding is as it was validated, a product goes
straight to its launch.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from lab_utils import backends
from lab_utils.backends import cuda
from lab_utils.backends.launch import ALIGN_BYTES, NO_EPILOGUE, Epilogue, pitch_in_place
from lab_utils.backends.remembered import keep, memo_of
from lab_utils.backends.watched import is_watched
from lab_utils.backends.ways import asked_way
from lab_utils.formats import SparseMatrix
from lab_utils.streams import is_captured


class Repeat(NamedTuple):
    """A launch for activations of one shape, strides and dtype, on one GPU."""

    ready: cuda.Ready
    pitch: int  # of the activations: elements from one token to the next
    shape: tuple[int, ...]  # of the result, whose last dimension is M

    def __call__(self, x: Tensor, epilogue: Epilogue) -> Tensor:
        y = x.new_empty(self.shape)
        columns, result = (x.data_ptr(), self.pitch), (y.data_ptr(), self.shape[-1])
        cuda.launch_at(self.ready, x, columns, result, epilogue=epilogue)
        return y


def repeated(x: Tensor, A: SparseMatrix, epilogue: Epilogue = NO_EPILOGUE) -> Tensor | None:
    """y[..., M] = x[..., K] · Aᵀ where a product of the like is remembered; else None.

    The bias of `epilogue`, if any, fits A.
    """
    if torch.compiler.is_compiling() or type(x) is not Tensor or x.layout is not torch.strided:
        return None
    if (seen := A.as_validated()) is None or seen.memo is None:
        return None
    if (repeat := seen.memo.repeats.get(_like(x))) is None or forward_ad._current_level >= 0:
        return None
    operands = (x,) if epilogue.bias is None else (x, epilogue.bias)
    if is_watched(A, *operands):
        return None
    lies_so = x.data_ptr() % ALIGN_BYTES == 0 and all(one.data_ptr() for one in operands)
    return repeat(x, epilogue) if lies_so else None


def remember(x: Tensor, A: SparseMatrix) -> None:
    """Remember the product of these, which has just been made, where it can go to its launch.

    That is where a kernel of A's format reads x as it lies, and nobody watches.
    """
    if torch.compiler.is_compiling() or backends.for_device(A.device) is not cuda:
        return
    if type(x) is not Tensor or x.dtype != A.dtype or is_watched(A, x):
        return
    known, like = memo_of(A).repeats, _like(x)
    # What is captured may be launched in another way later (`prepared`).
    if like in known or x.data_ptr() % ALIGN_BYTES or is_captured(A.device):
        return
    B = x.reshape(-1, x.shape[-1]).T
    ready = cuda.ready_for(A, B.shape[1])
    pitch = None
    if ready is not None and B.data_ptr() == x.data_ptr():  # else A is decoded first, or x copied
        pitch = pitch_in_place(B, ready.block_rows)
    shape = (*x.shape[:-1], A.shape[0])
    keep(known, like, None if pitch is None else Repeat(ready, pitch, shape))


def _like(x: Tensor) -> tuple:
    """What products of x have in common with those of others."""
    return x.shape, x.stride(), x.dtype, x.device, asked_way()
