"""Calls into the compiled baselines of kernels/baselines, on torch's current stream."""

import ctypes

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.streams import current_stream, on

CUDA_TYPE = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}  # library_types.h


def problem() -> str | None:
    """Why the compiled baselines do not work here, or None if they do."""
    if reason := no_gpu():
        return reason
    try:
        build.load("cuda_baselines")
    except (RuntimeError, OSError) as error:
        return str(error)
    return None


def no_gpu() -> str | None:
    """Why nothing runs on a GPU here, or None if it does."""
    return None if torch.cuda.is_available() else "torch sees no CUDA device"


def call(function: str, device: torch.device, *arguments: object) -> None:
    """Launch on `device`, tensors as pointers; RuntimeError with CUDA's words where that fails."""
    library = build.load("cuda_baselines")
    passed = [pointer(one) if isinstance(one, Tensor) else one for one in arguments]
    with on(device):
        error = getattr(library, function)(*passed, current_stream(device))
    if error:
        library.lscd_baselines_error.restype = ctypes.c_char_p
        raise RuntimeError(f"{function} failed: {library.lscd_baselines_error(error).decode()}")


def pointer(tensor: Tensor) -> ctypes.c_void_p:
    """The address of a tensor's first element."""
    return ctypes.c_void_p(tensor.data_ptr())
