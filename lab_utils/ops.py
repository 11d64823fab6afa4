"""The operation: check, choose, launch. And `explain`, which stops before the launch."""

import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import torch
from torch import Tensor
from torch.autograd import forward_ad

from lab_utils import backends
from lab_utils.backends.kernels import WITH_EPILOGUE
from lab_utils.backends.launch import Epilogue
from lab_utils.backends.repeated import remember, repeated
from lab_utils.backends.watched import is_watched
from lab_utils.formats import FORMATS, SparseMatrix
from lab_utils.formats.checks import DEVICES, require_memory

CAST = (torch.float32, torch.float16, torch.bfloat16)  # what a linear layer casts under autocast


def spmm(
    A: SparseMatrix, B: Tensor, *, backend: str | None = None, out: Tensor | None = None
) -> Tensor:
    """C[M, N] = A[M, K] · B[K, N], with fp32 sums rounded once to the dtype of A and B.

    A: encoded weights, fp16 or bf16. B: [K, N], same dtype and device, any strides; a GPU kernel
    reads it in place where its columns are contiguous, as those of xᵀ are, else a copy; that of
    bitmap_strips a copy, too, where K is no multiple of 64 (`explain`).
    `backend`: one of `backends.BACKENDS`; None takes `cuda` for GPU and `cpu` for host tensors.
    `out`: [M, N], written and returned; without it, C takes the memory order of B.
    Raises ValueError for operands that do not fit, and RuntimeError where the backend cannot run,
    and in forward-mode differentiation.
    """
    module = _checked(A, B, backend)
    _check_no_tangent("B", B)
    if out is None:
        seen = is_watched(A, B)
        return torch.ops.lscd.spmm(*_apart(A), B, module.name) if seen else _new(module, A, B)
    _check_out(A, B, out)
    if is_watched(A, B, out):
        torch.ops.lscd.spmm_out(*_apart(A), B, module.name, out)
    else:
        _check_memory(out, [B, *A.arrays.values()])
        _run(module, A, B, out)
        torch.autograd.graph.increment_version(out)  # as torch does where it sees a write
    return out


def sparse_linear(x: Tensor, A: SparseMatrix, *, backend: str | None = None) -> Tensor:
    """y[..., M] = x[..., K] · Aᵀ: `spmm` for torch layers, with contiguous columns B = xᵀ.

    Under autocast x may be fp32, fp16 or bf16, and is rounded to the dtype of A, which y has.
    """
    if backend is not None:
        return _of_tokens(x, A, lambda B: spmm(A, B, backend=backend))
    if (y := repeated(x, A)) is None:
        y = _of_tokens(x, A, lambda B: spmm(A, B))
        remember(x, A)
    return y


def has_epilogue(A: SparseMatrix) -> bool:
    """Whether `sparse_relu` takes A: formats of our own kernels for Hopper, on a GPU."""
    _check_encoded(A)
    return A.name in WITH_EPILOGUE and backends.for_device(A.device) is backends.cuda


def sparse_relu(x: Tensor, A: SparseMatrix, bias: Tensor) -> Tensor:
    """y[..., M] = max(x[..., K] · Aᵀ + bias[M], 0), rounded once, by the kernel of the product.

    Where A is decoded first, cuBLAS adds the bias, and another kernel takes the maximum.
    Raises ValueError for operands that do not fit, RuntimeError unless A `has_epilogue`.
    """
    check_bias(bias, A)
    if not has_epilogue(A):
        raise RuntimeError(f"no kernel for {A.name} on {A.device} takes the maximum")

    def product(B: Tensor) -> Tensor:
        module = _checked(A, B, None)
        _check_no_tangent("x", B)
        _check_no_tangent("bias", bias)
        if is_watched(A, B, bias):
            return torch.ops.lscd.spmm_relu(*_apart(A), B, module.name, bias)
        return _new(module, A, B, epilogue=Epilogue(bias, relu=True))

    return _of_tokens(x, A, product)


def _of_tokens(x: Tensor, A: SparseMatrix, product: Callable[[Tensor], Tensor]) -> Tensor:
    """`product` of B[K, N] = x[..., K] transposed, as y[..., M]."""
    _check_encoded(A)
    x = _cast(x, A)
    _check_x(x, A)
    if x.numel() == 0:  # no tokens
        return x.new_empty(*x.shape[:-1], A.shape[0])
    if x.ndim == 2 and x.shape[0] > 1:  # as below, in fewer views
        return product(x.T).T
    tokens = x.reshape(-1, x.shape[-1])  # [tokens, K]
    return product(tokens.T).T.reshape(*x.shape[:-1], A.shape[0])


def _cast(x: Tensor, A: SparseMatrix) -> Tensor:
    """x in the dtype of the weights, if autocast is on; torch's own casts both to its own."""
    if not isinstance(x, Tensor) or x.dtype == A.dtype or x.dtype not in CAST:
        return x
    kind = x.device.type
    return x.to(A.dtype) if kind in DEVICES and torch.is_autocast_enabled(kind) else x


def explain(A: SparseMatrix, B: Tensor, *, backend: str | None = None) -> backends.Plan:
    """What `spmm(A, B, backend=backend)` would launch, and why; launches nothing."""
    module = _checked(A, B, backend)
    plan = module.plan(A, B)
    dtype = str(A.dtype).removeprefix("torch.")
    (M, K), N = A.shape, B.shape[1]
    product = f"C[{M}, {N}] = A[{M}, {K}] · B[{K}, {N}], {dtype}, A as {A.name}"
    return replace(plan, product=product)


def _checked(A: SparseMatrix, B: Tensor, backend: str | None) -> ModuleType:
    """The backend that will run A · B, once everything about the operands has been checked."""
    _check_encoded(A)
    if not isinstance(B, Tensor) or B.layout != torch.strided or B.ndim != 2:
        raise ValueError(f"B is {_describe(B)}; allowed: a strided torch.Tensor [K, N]")
    if B.shape[0] != A.shape[1] or B.shape[1] < 1:
        raise ValueError(
            f"B has shape {tuple(B.shape)}; allowed with A {tuple(A.shape)}: [{A.shape[1]}, N >= 1]"
        )
    if B.dtype != A.dtype:
        raise ValueError(f"B is {B.dtype}; allowed: {A.dtype}, the dtype of A")
    if B.device != A.device:
        raise ValueError(f"B is on {B.device}; allowed: {A.device}, where A is")
    module = backends.for_device(B.device) if backend is None else backends.by_name(backend)
    if A.name not in module.formats:
        raise ValueError(
            f"A is {A.name}; backend {module.name!r} multiplies {', '.join(module.formats)}; "
            "backend 'reference' takes every format"
        )
    if B.device.type not in module.devices:
        raise ValueError(
            f"B is on {B.device}; backend {module.name!r} takes {' or '.join(module.devices)}"
        )
    # A compiled graph cannot look at it: it relies on the check that was made with the encoding.
    if not torch.compiler.is_compiling():
        A.ensure_valid()
    return module


def _check_no_tangent(name: str, operand: Tensor) -> None:
    """Raise RuntimeError in forward-mode differentiation, which would take C for a constant."""
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(operand).tangent is not None:
        what = f"{name} has a tangent; products have no derivative"
        raise RuntimeError(f"{what}: give them {name}.detach()")


def _check_encoded(A: SparseMatrix) -> None:
    if not isinstance(A, SparseMatrix):
        raise ValueError(f"A is {_describe(A)}; allowed: an encoded matrix, encode(dense, format)")


def _check_out(A: SparseMatrix, B: Tensor, out: Tensor) -> None:
    shape = (A.shape[0], B.shape[1])
    if not isinstance(out, Tensor) or out.layout != torch.strided or tuple(out.shape) != shape:
        raise ValueError(f"out is {_describe(out)}; allowed: a strided torch.Tensor {shape}")
    if out.dtype != A.dtype or out.device != B.device:
        raise ValueError(f"out is {out.dtype} on {out.device}; allowed: {A.dtype} on {B.device}")
    if torch.is_grad_enabled() and (B.requires_grad or out.requires_grad):
        raise ValueError("B or out requires a gradient; allowed with out=: none, as in no_grad()")


def _check_x(x: Tensor, A: SparseMatrix) -> None:
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.ndim < 1 or not x.shape[-1]:
        raise ValueError(f"x is {_describe(x)}; allowed: a strided torch.Tensor [..., K], K >= 1")
    if x.shape[-1] != A.shape[1] or x.dtype != A.dtype:
        raise ValueError(f"x is {_describe(x)}; allowed: {A.dtype} [..., {A.shape[1]}], as A has")


def check_bias(bias: Tensor, A: SparseMatrix) -> None:
    """Raise ValueError unless `bias` is [M], of any stride, of A's dtype and on its device."""
    _check_encoded(A)
    (M, _), strided = A.shape, isinstance(bias, Tensor) and bias.layout == torch.strided
    if not strided or (bias.shape, bias.dtype, bias.device) != ((M,), A.dtype, A.device):
        allowed = f"strided {A.dtype} [{M}] on {A.device}, as the weights"
        raise ValueError(f"bias is {_describe(bias)}; allowed: {allowed}")


def _check_memory(out: Tensor, operands: list[Tensor]) -> None:
    require_memory("out", out)
    if _overlaps_itself(out):
        raise ValueError(f"out has strides {out.stride()}: its elements share memory")
    storages = {operand.untyped_storage().data_ptr() for operand in operands}
    if out.untyped_storage().data_ptr() in storages:
        raise ValueError("out shares memory with A or B; allowed: memory of its own")


def _overlaps_itself(out: Tensor) -> bool:
    """Whether two elements of a matrix lie in the same place."""
    (rows, columns), (down, right) = out.shape, out.stride()
    step = math.gcd(down, right) or 1
    return out.numel() > 1 and right // step < rows and down // step < columns


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        what = f"a {value.dtype} tensor of shape {tuple(value.shape)}"
        return f"{what} on {value.device}, layout {value.layout}"
    return f"a {type(value).__name__}"


# --- products as they run -------------------------------------------------------------------------


def _new(module: ModuleType, A: SparseMatrix, B: Tensor, **how: Epilogue) -> Tensor:
    """A new C = A · B, by a backend."""
    C = _new_result(A.shape[0], B)
    _run(module, A, B, C, **how)
    return C


def _run(module: ModuleType, A: SparseMatrix, B: Tensor, C: Tensor, **how: Epilogue) -> None:
    kind = B.device.type
    require_memory("B", B)
    for epilogue in how.values():
        require_memory("bias", epilogue.bias)
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


# --- the torch boundary ---------------------------------------------------------------------------
# torch.compile and tracing see one opaque op, and ops take tensors and plain values only. So `spmm`
# takes A apart (arrays in the order of ARRAYS, constants, format, M, K), and `_together` makes it
# again when the op runs. Each op has a fake that only says what comes out. A product that nobody
# watches (backends/watched.py) runs without its op.


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


@torch.library.custom_op("lscd::spmm_relu", mutates_args=())
def _spmm_relu(
    arrays: list[Tensor], constants: list[int], format: str, M: int, K: int,
    B: Tensor, backend: str, bias: Tensor,
) -> Tensor:  # fmt: skip
    A = _together(arrays, constants, format, M, K, B.dtype)
    return _new(backends.by_name(backend), A, B, epilogue=Epilogue(bias, relu=True))


@_spmm_relu.register_fake
def _(arrays, constants, format, M, K, B, backend, bias) -> Tensor:
    return _new_result(M, B)
