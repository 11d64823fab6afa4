"""Calls into the compiled encoders (kernels/cpu/encode): torch tensors in, torch tensors filled."""

import ctypes

from torch import Tensor

from lab_utils import build


def call(function: str, *arguments: Tensor | int) -> int:
    """Call `function` of the CPU library; tensors become pointers, ints become int64.

    Returns its int64 result, which means nothing where the C++ function returns void.
    """
    compiled = getattr(build.load("cpu"), function)
    compiled.restype = ctypes.c_int64
    return compiled(*(_converted(argument) for argument in arguments))


def _converted(argument: Tensor | int) -> ctypes.c_void_p | ctypes.c_int64:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_int64(argument)
