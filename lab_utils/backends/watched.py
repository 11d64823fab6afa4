"""Whether torch wants to see an operation, or its result alone.

An op is what compilers, tracers, modes, transforms, gradients and profilers see of a product. It
takes the host longer than the launches, so a product that nobody watches runs without it. Asked is
what torch's dispatcher would ask, through `torch._C`, since nothing public says so. (A profiler
that another thread has started, and an execution trace, see kernels alone.)
"""

import functools

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.autograd import forward_ad

from lab_utils.formats import SparseMatrix

PLAIN_TYPES = (Tensor, torch.nn.Parameter)
# What a thread adds to the keys of its tensors, outside of inference mode and inside: nothing that
# watches. Modes, transforms and tracers add keys of their own.
_INFERENCE = DispatchKeySet(DispatchKey.BackendSelect)
_USUAL = {
    one.raw_repr() for one in (_INFERENCE, _INFERENCE | DispatchKeySet(DispatchKey.ADInplaceOrView))
}


def is_watched(A: SparseMatrix, *operands: Tensor) -> bool:
    """Whether anything would see an op of these before the kernel of their device does."""
    if torch.compiler.is_compiling() or torch._C._autograd._profiler_enabled():
        return True
    if is_thread_watched():
        return True
    for one in (*operands, *A.arrays.values()):
        if type(one) not in PLAIN_TYPES or (one.requires_grad and torch.is_grad_enabled()):
            return True
    return not all(map(is_plain, operands))  # of A's arrays validation says so


def is_thread_watched() -> bool:
    """Whether modes, transforms or tracers would see what this thread does."""
    if torch._C._len_torch_function_stack():  # modes, as that of torch.set_default_device
        return True
    return torch._C._dispatch_tls_local_include_set().raw_repr() not in _USUAL


def is_constant(tensor: Tensor) -> bool:
    """Whether a kernel may take its values: nobody wants derivatives by it, or its batches."""
    if tensor.requires_grad and torch.is_grad_enabled():
        return False
    if torch.compiler.is_compiling():
        return True
    dual = forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None
    return not dual and is_plain(tensor)


_plain: set[int] = set()  # keys of plain tensors that were seen


def is_plain(tensor: Tensor) -> bool:
    """Whether its memory is its value, unlike that of a negative view; of PLAIN_TYPES."""
    if type(tensor) not in PLAIN_TYPES:
        return False
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    if keys not in _plain and keys in keys_of_plain(tensor.device.type):
        _plain.add(keys)
    return keys in _plain


@functools.cache
def keys_of_plain(device: str) -> frozenset[int]:
    """Keys of a tensor, made outside of inference mode or inside."""
    found = set()
    for inside in (False, True):
        with torch.inference_mode(inside):
            found.add(torch._C._dispatch_keys(torch.empty(0, device=device)).raw_repr())
    return frozenset(found)
