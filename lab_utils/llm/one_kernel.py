"""Several small operations as one kernel, by torch.compile, where that pays: in steps on GPUs.

A kernel takes two microseconds however little it does, and a step has hundreds that do little. They
begin early, too: while the kernel before them ends, as those that follow them do then. The kernels
of this project have begun to copy weights by the time that their input is there.

What is compiled to begin early waits before it reads, but for single numbers, such as a slot: a
kernel that begins late must lie between it and what writes them.
"""

import functools
import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor

OPTIONS = {
    "split_reductions": False,  # rows above 8192 numbers would be reduced in two kernels
    "triton.persistent_reductions": False,  # a row in a loop: in registers, its norm takes longer
    "triton.enable_pdl": True,  # programmatic dependent launch: early, on sm_90 and later
    "combo_kernels": True,  # what shares no input becomes one kernel as well
    "online_softmax": False,  # torch warns where it would split such a reduction
}


def as_one(function: Callable, device: torch.device) -> Callable:
    """`function`, compiled where tensors are on a kind of device for which that is possible."""
    return _compiled(function) if compiles(device) else function


def compiles(device: torch.device) -> bool:
    """Whether steps on a kind of device are compiled."""
    return _obstacle(device.type) is None


def in_step(function: Callable, x: Tensor, *others) -> Tensor | tuple[Tensor, ...]:
    """function(x, …), as one where x [..., tokens, numbers] has one token of each sequence."""
    return (as_one(function, x.device) if x.shape[-2] == 1 else function)(x, *others)


def explain(device: torch.device | str) -> str:
    """How many kernels what lies between the products of a step on `device` is, and why."""
    reason = _obstacle(torch.device(device).type)
    return "one kernel each, by torch.compile" if reason is None else f"torch's own ({reason})"


@functools.cache
def _compiled(function: Callable) -> Callable:
    return torch.compile(function, options=OPTIONS)


@functools.cache
def _obstacle(device_type: str) -> str | None:
    """Why nothing is compiled for a kind of device; None where steps are."""
    if device_type != "cuda":
        return f"on {device_type}"
    return None if importlib.util.find_spec("triton") else "triton is not installed"
