"""The byte limit: how fast this GPU reads memory when it does nothing else."""

import ctypes
import functools

import torch
from torch import Tensor

from lab_utils.baselines import native

ALIGN = 16  # bytes: one load


def read_all(buffer: Tensor) -> None:
    """Read every byte of `buffer`, uint8 on a CUDA device, once, on torch's current stream.

    Raises ValueError unless it is contiguous, at and of a multiple of 16 bytes.
    """
    aligned = buffer.numel() % ALIGN == 0 and buffer.data_ptr() % ALIGN == 0
    if buffer.dtype != torch.uint8 or not (buffer.is_cuda and buffer.is_contiguous() and aligned):
        raise ValueError(
            f"buffer has {buffer.numel()} elements of {buffer.dtype} on {buffer.device}; allowed: "
            f"contiguous uint8 on a CUDA device, a multiple of {ALIGN} bytes long"
        )
    length = ctypes.c_int64(buffer.numel())
    native.call("lscd_read_all", buffer.device, buffer, length, _sink(buffer.device))


@functools.cache
def _sink(device: torch.device) -> Tensor:
    """A word that the kernel may write."""
    return torch.zeros(1, dtype=torch.int32, device=device)
