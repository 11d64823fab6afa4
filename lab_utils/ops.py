"""The operation: check, choose, launch. And `explain`, which stops before the launch."""

from dataclasses import replace
from types import ModuleType

import torch
from torch import Tensor
from torch.autograd import forward_ad

from lab_utils import backends
from lab_utils.backends.boundary import check_batched, multiply, multiply_into
from lab_utils.backends.kernels import WITH_EPILOGUE
from lab_utils.backends.launch import NO_EPILOGUE, Epilogue
from lab_utils.backends.repeated import remember, repeated
from lab_utils.backends.watched import is_constant, is_plain
from lab_utils.formats import SparseMatrix
from lab_utils.formats.checks import DEVICES, require_memory
from lab_utils.formats.named import encoding_of

CAST = (torch.float32, torch.float16, torch.bfloat16)  # what a linear layer casts under autocast


def spmm(
    A: SparseMatrix, B: Tensor, *, backend: str | None = None, out: Tensor | None = None
) -> Tensor:
    """C[M, N] = A[M, K] · B[K, N], with fp32 sums rounded once to the dtype of A and B.

    A: encoded weights, fp16 or bf16. B: [K, N], same dtype and device, any strides; a GPU kernel
    reads it in place where its columns are contiguous, as those of xᵀ are, else a copy; that of
    bitmap_strips and coded_strips a copy, too, where K is no multiple of 64 (`explain`).
    `backend`: one of `backends.BACKENDS`; None takes `cuda` for GPU and `cpu` for host tensors.
    `out`: [M, N], written and returned; without it, C takes the memory order of B.
    Raises ValueError for operands that do not fit, and RuntimeError where the backend cannot run,
    and in forward-mode differentiation.
    """
    module = _checked(A, B, backend)
    _check_no_tangent("B", B)
    if out is None:
        return multiply(module, A, B)
    _check_out(A, B, out)
    multiply_into(module, A, B, out)
    return out


def sparse_linear(
    x: Tensor, A: SparseMatrix, bias: Tensor | None = None, *, backend: str | None = None
) -> Tensor:
    """y[..., M] = x[..., K] · Aᵀ + bias[M]: `spmm` for torch layers, with columns B = xᵀ.

    Rounded once where A `has_epilogue` and the bias is a constant; else torch adds it, with its
    derivatives, to the rounded sum.
    Under autocast x and bias may be fp32, fp16 or bf16, and are rounded to the dtype of A, as y is.
    Raises what `spmm` does, and ValueError for a bias that does not fit.
    """
    if backend is None and (y := repeated(x, A, bias)) is not None:
        return y
    _check_encoded(A)
    if is_graph_made() and A.key is not None:
        bias = None if bias is None else _cast(bias, A)
        return named_linear(_cast(x, A), A.key, bias, backend)
    if bias is None:
        return _of_tokens(x, A, NO_EPILOGUE, backend)
    bias = _cast(bias, A)
    check_bias(bias, A)
    if backend in (None, "cuda") and has_epilogue(A) and is_constant(bias):
        return _of_tokens(x, A, Epilogue(bias), backend)
    return sparse_linear(x, A, backend=backend) + bias


def has_epilogue(A: SparseMatrix) -> bool:
    """Whether products of A take a bias and a maximum: those of our kernels for Hopper."""
    _check_encoded(A)
    return A.name in WITH_EPILOGUE and backends.for_device(A.device) is backends.cuda


def sparse_relu(x: Tensor, A: SparseMatrix, bias: Tensor) -> Tensor:
    """y[..., M] = max(x[..., K] · Aᵀ + bias[M], 0), rounded once, by the kernel of the product.

    Where A is decoded first, cuBLAS adds the bias, and another kernel takes the maximum.
    Raises ValueError for operands that do not fit, RuntimeError unless A `has_epilogue`.
    """
    if (y := repeated(x, A, bias, relu=True)) is not None:
        return y
    check_bias(bias, A)
    if not has_epilogue(A):
        raise RuntimeError(f"no kernel for {A.name} on {A.device} takes the maximum")
    return _of_tokens(x, A, Epilogue(bias, relu=True), None)


def _of_tokens(
    x: Tensor,
    A: SparseMatrix,
    epilogue: Epilogue,
    backend: str | None,
    below_autograd: bool = False,
) -> Tensor:
    """The product with B[K, N] = x[..., K] transposed, as y[..., M].

    `below_autograd`, as in an op, nobody can ask for tangents.
    """
    x = _cast(x, A)
    if backend is None and (y := repeated(x, A, *epilogue)) is not None:
        return y
    _check_x(x, A)
    if x.numel() == 0:  # no tokens
        if backend is not None:
            _backend(A, x.device, backend)
        return x.new_empty(*x.shape[:-1], A.shape[0])
    many = x.ndim == 2 and x.shape[0] > 1  # else with as many views as it takes
    B = (x if many else x.reshape(-1, x.shape[-1])).T
    module = _checked(A, B, backend)
    for name, operand in () if below_autograd else (("x", B), ("bias", epilogue.bias)):
        _check_no_tangent(name, operand)
    y = multiply(module, A, B, epilogue).T
    if backend is None:
        remember(x, A)
    return y if many else y.reshape(*x.shape[:-1], A.shape[0])


def _cast(x: Tensor, A: SparseMatrix) -> Tensor:
    """x in the dtype of the weights, if autocast is on; torch's own casts both to its own."""
    if not isinstance(x, Tensor) or x.dtype == A.dtype or x.dtype not in CAST:
        return x
    return x.to(A.dtype) if is_cast(x) else x


def is_cast(x: Tensor) -> bool:
    """Whether autocast is on where x is."""
    kind = x.device.type if isinstance(x, Tensor) else None
    return kind in DEVICES and torch.is_autocast_enabled(kind)


def explain(A: SparseMatrix, B: Tensor, *, backend: str | None = None) -> backends.Plan:
    """What `spmm(A, B, backend=backend)` would launch, and why; launches nothing."""
    module = _checked(A, B, backend)
    plan = module.plan(A, B)
    dtype = str(A.dtype).removeprefix("torch.")
    (M, K), N = A.shape, B.shape[1]
    product = f"C[{M}, {N}] = A[{M}, {K}] · B[{K}, {N}], {dtype}, A as {A.name}"
    return replace(plan, product=product)


# --- in graphs of torch.compile -----------------------------------------------------------------


def is_graph_made() -> bool:
    """Whether torch.compile makes a graph, in which encodings are known by name.

    An exported one goes to other processes, where nobody knows the names.
    """
    return torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting()


def named_linear(
    x: Tensor, key: str, bias: Tensor | None = None, backend: str | None = None
) -> Tensor:
    """`sparse_linear` as one op, with the encoding that has that `key`, and nothing cast.

    Before each call of a graph torch looks whether all that it was made of is as it was: at a key,
    where arrays would take the host a microsecond each. So what a graph itself puts in their place,
    or writes into them, this product does not see.
    """
    if not isinstance(x, Tensor):
        raise ValueError(f"x is {_describe(x)}; allowed: a strided torch.Tensor [..., K], K >= 1")
    _check_no_tangent("x", x)
    if bias is not None and not is_constant(bias):
        return named_linear(x, key, None, backend) + bias
    _check_no_tangent("bias", bias)
    return _named(x, key, bias, backend)


@torch.library.custom_op("lscd::linear", mutates_args=())
def _named(x: Tensor, key: str, bias: Tensor | None, backend: str | None) -> Tensor:
    A = encoding_of(key)
    fused = bias is not None and backend in (None, "cuda") and has_epilogue(A)
    epilogue = Epilogue(bias) if fused else NO_EPILOGUE
    y = _of_tokens(x, A, epilogue, backend, below_autograd=True)
    return (y if bias is None or fused else y + bias).contiguous()


@_named.register_fake
def _(x: Tensor, key: str, bias: Tensor | None, backend: str | None) -> Tensor:
    A = encoding_of(key)
    _check_x(x, A)
    if bias is not None:
        check_bias(bias, A)
    return x.new_empty((*x.shape[:-1], A.shape[0]))


@_named.register_vmap
def _(info, in_dims, x, key, bias, backend) -> tuple[Tensor, int]:
    check_batched("x", in_dims, 0)
    return _named(x.movedim(in_dims[0], 0), key, bias, backend), 0


# --- checks -------------------------------------------------------------------------------------


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
    module = _backend(A, B.device, backend)
    # A compiled graph cannot look at it: it relies on the check that was made with the encoding.
    if not torch.compiler.is_compiling():
        A.ensure_valid()
    elif A.validated is None:
        raise ValueError("A is a copy that nobody has checked; call A.ensure_valid() before")
    return module


def _backend(A: SparseMatrix, device: torch.device, backend: str | None) -> ModuleType:
    """The backend of that name, or that of the device; ValueError if it does not multiply A."""
    module = backends.for_device(device) if backend is None else backends.by_name(backend)
    if A.name not in module.formats:
        raise ValueError(
            f"A is {A.name}; backend {module.name!r} multiplies {', '.join(module.formats)}; "
            "backend 'reference' takes every format"
        )
    if device.type not in module.devices:
        raise ValueError(
            f"B is on {device}; backend {module.name!r} takes {' or '.join(module.devices)}"
        )
    return module


def _check_no_tangent(name: str, operand: Tensor | None) -> None:
    """Raise RuntimeError in forward-mode differentiation, which would take C for a constant."""
    if forward_ad._current_level < 0 or operand is None:
        return
    if forward_ad.unpack_dual(operand).tangent is not None:
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
    if x.device != A.device:
        raise ValueError(f"x is on {x.device}; allowed: {A.device}, where A is")


def check_bias(bias: Tensor, A: SparseMatrix) -> None:
    """Raise ValueError unless `bias` is [M], of any stride, of A's dtype, in memory beside A."""
    _check_encoded(A)
    (M, _), strided = A.shape, isinstance(bias, Tensor) and bias.layout == torch.strided
    if not strided or (bias.shape, bias.dtype, bias.device) != ((M,), A.dtype, A.device):
        allowed = f"strided {A.dtype} [{M}] on {A.device}, as the weights"
        raise ValueError(f"bias is {_describe(bias)}; allowed: {allowed}")
    if not torch.compiler.is_compiling() and bias.device.type in DEVICES and is_plain(bias):
        require_memory("bias", bias)


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        what = f"a {value.dtype} tensor of shape {tuple(value.shape)}"
        return f"{what} on {value.device}, layout {value.layout}"
    return f"a {type(value).__name__}"
