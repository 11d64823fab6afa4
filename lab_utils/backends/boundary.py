"""Where torch sees a product: as one opaque op, if anybody watches, else as a launch alone.

torch.compile and tracing see ops, which take tensors and plain values only. So A is taken apart
(arrays in the order of ARRAYS, constants, format, M, K), and `_together` makes it again when the op
runs; only what `sparse_linear` leaves in a graph of torch.compile names A instead (ops.py). Each op
has a fake that only says what comes out. An op takes the host longer than the launches of a
product, which therefore does without where nobody watches (watched.py).
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from lab_utils import backends
from lab_utils.backends.launch import NO_EPILOGUE, Epilogue
from lab_utils.backends.watched import is_watched
from lab_utils.formats import FORMATS, SparseMatrix
from lab_utils.formats.checks import require_apart, require_memory


def multiply(
    module: ModuleType, A: SparseMatrix, B: Tensor, epilogue: Epilogue = NO_EPILOGUE
) -> Tensor:
    """A new C[M, N] = A · B by a backend, in the memory order of B, with what `epilogue` does."""
    bias, relu = epilogue
    if bias is None and not relu:
        seen = is_watched(A, B)
        return torch.ops.lscd.spmm(*_apart(A), B, module.name) if seen else _new(module, A, B)
    if is_watched(A, B, bias):
        return torch.ops.lscd.spmm_bias(*_apart(A), B, module.name, bias, relu)
    return _new(module, A, B, epilogue=epilogue)


def multiply_into(module: ModuleType, A: SparseMatrix, B: Tensor, out: Tensor) -> None:
    """A · B into `out`. Raises ValueError where that shares memory with an operand or itself."""
    if is_watched(A, B, out):
        torch.ops.lscd.spmm_out(*_apart(A), B, module.name, out)
    else:
        _check_memory(out, [B, *A.arrays.values()])
        _run(module, A, B, out)
        torch.autograd.graph.increment_version(out)  # as torch does where it sees a write


def _check_memory(out: Tensor, operands: list[Tensor]) -> None:
    require_memory("out", out)
    if _overlaps_itself(out):
        raise ValueError(f"out has strides {out.stride()}: its elements share memory")
    require_apart(out, operands, "A or B")


def _overlaps_itself(out: Tensor) -> bool:
    """Whether two elements of a matrix lie in the same place."""
    (rows, columns), (down, right) = out.shape, out.stride()
    step = math.gcd(down, right) or 1
    return out.numel() > 1 and right // step < rows and down // step < columns


def _new(module: ModuleType, A: SparseMatrix, B: Tensor, **how: Epilogue) -> Tensor:
    C = _new_result(A.shape[0], B)
    _run(module, A, B, C, **how)
    return C


def _run(module: ModuleType, A: SparseMatrix, B: Tensor, C: Tensor, **how: Epilogue) -> None:
    kind = B.device.type
    require_memory("B", B)
    if (bias := how.get("epilogue", NO_EPILOGUE).bias) is not None:
        require_memory("bias", bias)
    if not torch.is_autocast_enabled(kind):
        return module.spmm(A, B, C, **how)
    with torch.autocast(kind, enabled=False):  # torch's products in a backend keep their precision
        module.spmm(A, B, C, **how)


def _new_result(M: int, B: Tensor) -> Tensor:
    """Empty C [M, N] in the memory order of B, so that xᵀ in gives yᵀ out."""
    N = B.shape[1]
    if B.stride(0) == 1 and N > 1:
        return B.new_empty_strided((M, N), (1, M))
    return B.new_empty(M, N)


def _apart(A: SparseMatrix) -> tuple[list[Tensor], tuple[int, ...], str, int, int]:
    """A as the first arguments of every op."""
    return [A.arrays[name] for name in A.ARRAYS], A.constants, A.name, *A.shape


def _together(
    arrays: list[Tensor], constants: list[int], format: str, M: int, K: int, dtype: torch.dtype
) -> SparseMatrix:
    cls = FORMATS[format]
    return cls.of_valid((M, K), dtype, dict(zip(cls.ARRAYS, arrays, strict=True)), constants)


@torch.library.custom_op("lscd::spmm", mutates_args=())
def _spmm(
    arrays: list[Tensor], constants: list[int], format: str, M: int, K: int,
    B: Tensor, backend: str,
) -> Tensor:  # fmt: skip
    A = _together(arrays, constants, format, M, K, B.dtype)
    return _new(backends.by_name(backend), A, B)


@_spmm.register_fake
def _(arrays, constants, format, M, K, B, backend) -> Tensor:
    return _new_result(M, B)


@_spmm.register_vmap
def _(info, in_dims, arrays, constants, format, M, K, B, backend) -> tuple[Tensor, int]:
    return _of_batch(_spmm, in_dims, arrays, constants, format, M, K, B, backend)


@torch.library.custom_op("lscd::spmm_out", mutates_args=("out",))
def _spmm_out(
    arrays: list[Tensor], constants: list[int], format: str, M: int, K: int,
    B: Tensor, backend: str, out: Tensor,
) -> None:  # fmt: skip
    _check_memory(out, [B, *arrays])  # here, since a compiled graph has addresses only when it runs
    A = _together(arrays, constants, format, M, K, B.dtype)
    _run(backends.by_name(backend), A, B, out)


@_spmm_out.register_fake
def _(arrays, constants, format, M, K, B, backend, out) -> None:
    return None


@torch.library.custom_op("lscd::spmm_bias", mutates_args=())
def _spmm_bias(
    arrays: list[Tensor], constants: list[int], format: str, M: int, K: int,
    B: Tensor, backend: str, bias: Tensor, relu: bool,
) -> Tensor:  # fmt: skip
    A = _together(arrays, constants, format, M, K, B.dtype)
    return _new(backends.by_name(backend), A, B, epilogue=Epilogue(bias, relu))


@_spmm_bias.register_fake
def _(arrays, constants, format, M, K, B, backend, bias, relu) -> Tensor:
    return _new_result(M, B)


@_spmm_bias.register_vmap
def _(info, in_dims, arrays, constants, format, M, K, B, backend, bias, relu) -> tuple[Tensor, int]:
    return _of_batch(_spmm_bias, in_dims, arrays, constants, format, M, K, B, backend, bias, relu)


def check_batched(name: str, in_dims: tuple, place: int) -> None:
    """Raise ValueError unless vmap maps over that argument of an op, called `name`, alone."""
    others = tree_leaves((in_dims[:place], in_dims[place + 1 :]))
    if in_dims[place] is None or any(dim is not None for dim in others):
        raise ValueError(f"vmap over in_dims={in_dims} of an op; allowed: over {name} alone")


def _of_batch(op: Callable, in_dims: tuple, *arguments: Any) -> tuple[Tensor, int]:
    """Under vmap: columns of the whole batch side by side, one product; it is dimension 0 of C."""
    check_batched("B", in_dims, place := 5)
    rows = arguments[place].movedim(in_dims[place], 0).mT  # [batch, N, K]
    wide = rows.reshape(-1, rows.shape[-1]).T
    C = op(*arguments[:place], wide, *arguments[place + 1 :])
    return C.T.unflatten(0, rows.shape[:2]).mT, 0
