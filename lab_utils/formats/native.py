"""Calls into the compiled encoders (kernels/cpu/encode): torch tensors in, torch tensors filled."""

import ctypes

from torch import Tensor

from lab_utils import build


def call(function: str, *arguments: Tensor | int) -> int:
    """Call `function` of the CPU library; tensors become pointers, ints become int64."""
    converted = [
        ctypes.c_void_p(a.data_ptr()) if isinstance(a, Tensor) else ctypes.c_int64(a)
        for a in arguments
    ]
    return getattr(build.load("cpu"), function)(*converted)
