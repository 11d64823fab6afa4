"""Where torch would launch now, as launchers of compiled kernels take it; what calls take there.

Through `torch._C`: `torch.cuda` makes an object of the stream, and asks first whether CUDA has been
initialised, which takes the host as long as a launch.
"""

import contextvars
import ctypes
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch

Made = TypeVar("Made")


def current_stream(device: torch.device) -> ctypes.c_void_p:
    """torch's current stream of that GPU; of the current one where `device` has no index.

    Raises ValueError for other devices.
    """
    if device.type != "cuda":
        raise ValueError(f"device={str(device)!r}; allowed: cuda, since only GPUs have streams")
    index = torch.cuda.current_device() if device.index is None else device.index
    return ctypes.c_void_p(raw_stream(index))


def raw_stream(gpu: int) -> int:
    """The address of torch's current stream of the GPU of that index."""
    return torch._C._cuda_getCurrentRawStream(gpu)


def on(device: torch.device) -> AbstractContextManager:
    """Inside, launches go to that GPU; most are for the one that they go to anyway."""
    here = device.index is None or device.index == torch._C._cuda_getDevice()
    return nullcontext() if here else torch.cuda.device(device)


def is_captured(device: torch.device) -> bool:
    """Whether a CUDA graph captures what would be launched on that device: on a CPU none does."""
    if device.type != "cuda":
        return False
    with on(device):
        return torch.cuda.is_current_stream_capturing()


def apart(device: torch.device, make: Callable[[], Made]) -> Made:
    """`make()`, for what lives on: on a GPU in a thread of its own, on the stream of this one.

    While torch compiles a model for CUDA graphs ("reduce-overhead"), the compiling thread gets
    memory of their pool alone, and whatever lives on there is an error.
    """
    if device.type != "cuda":
        return make()
    stream, context = torch.cuda.current_stream(device), contextvars.copy_context()

    def on_stream() -> Made:
        torch.cuda.set_device(stream.device)  # not to be set back: to no GPU but this one
        torch.cuda.set_stream(stream)
        return make()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, on_stream).result()


def timed(calls: Iterable[Callable[[], object]], device: torch.device) -> tuple[float, float]:
    """Seconds until all calls have returned, and until the device has done what they launched.

    Nobody waits for it in between. A GPU is the current one, and done where its current stream is.
    """

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.current_stream().synchronize()

    wait()
    start = time.perf_counter()
    for call in calls:
        call()
    returned = time.perf_counter()
    wait()
    return returned - start, time.perf_counter() - start
