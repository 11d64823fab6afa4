"""Where torch would launch now, as launchers of compiled kernels take it.

Through `torch._C`: `torch.cuda` makes objects of a stream and of a GPU's number first, which takes
the host half as long as a launch.
"""

import ctypes
from contextlib import AbstractContextManager, nullcontext

import torch


def current_stream(device: torch.device) -> ctypes.c_void_p:
    """torch's current stream of a GPU, that of a tensor or any other."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(index))


def on(device: torch.device) -> AbstractContextManager:
    """Inside, launches go to that GPU; most are for the one that they go to anyway."""
    here = device.index is None or device.index == torch._C._cuda_getDevice()
    return nullcontext() if here else torch.cuda.device(device)
