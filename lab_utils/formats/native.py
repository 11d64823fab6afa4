"""Calls into the compiled encoders: torch tensors in, torch tensors filled.

There is one set for the CPU (kernels/cpu/encode) and one for GPUs (kernels/encode), with functions
of the same names and arguments; those for GPUs also take a stream. The tensors' device decides.
"""

import ctypes

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.streams import current_stream, on

LIBRARIES = {"cpu": "cpu", "cuda": "cuda_encode"}  # by type of device
NOTHING = torch.iinfo(torch.int64).max


def call(function: str, *arguments: Tensor | int) -> None:
    """Call `function` for its tensors' device; tensors become pointers, ints become int64.

    On a GPU it goes to torch's current stream. Raises RuntimeError with CUDA's message where the
    launch fails, and for a device without compiled encoders.
    """
    device = _device(arguments)
    if device.type not in LIBRARIES:
        raise RuntimeError(f"arrays are on {device}; encoders run on: {', '.join(LIBRARIES)}")
    compiled = getattr(build.load(LIBRARIES[device.type]), function)
    converted = [_converted(argument) for argument in arguments]
    if device.type == "cpu":
        compiled(*converted)
        return
    with on(device):
        if error := compiled(*converted, current_stream(device)):
            raise RuntimeError(f"{function} failed: {torch.cuda.CudaError(error)}")


def first(function: str, *arguments: Tensor | int) -> int | None:
    """The smallest number that a compiled search finds, or None where it finds nothing."""
    found = torch.full((1,), NOTHING, dtype=torch.int64, device=_device(arguments))
    call(function, *arguments, found)
    number = int(found)
    return None if number == NOTHING else number


def _device(arguments: tuple[Tensor | int, ...]) -> torch.device:
    return next(argument.device for argument in arguments if isinstance(argument, Tensor))


def _converted(argument: Tensor | int) -> ctypes.c_void_p | ctypes.c_int64:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_int64(argument)
