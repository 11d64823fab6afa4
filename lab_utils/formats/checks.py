"""Checks of what formats are given: weights to encode, arrays to hold."""

import warnings
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lab_utils.analysis.checked import is_integer

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
DEVICES = ("cpu", "cuda")
ALIGN = 16  # bytes, on which an array on a GPU starts
INT32_MAX = 2**31 - 1
SAMPLED = 61, 4093  # rows and columns that are looked at, or up to twice as many
MEMORY = "allowed: a tensor with values in memory of its own"
FEW, MANY = 4096, 0.1  # weights that are worth a warning; a share of them


def require_dense(dense: Tensor) -> None:
    """Raise ValueError, saying why, unless `dense` [M, K] is what formats encode."""
    if not isinstance(dense, Tensor):
        raise ValueError(f"dense is a {type(dense).__name__}; allowed: a torch.Tensor [M, K]")
    if dense.layout != torch.strided or dense.ndim != 2 or dense.numel() == 0:
        raise ValueError(
            f"dense has shape {tuple(dense.shape)}, layout {dense.layout}; "
            "allowed: a strided [M, K] with M, K >= 1"
        )
    if dense.dtype not in DTYPES.values():
        raise ValueError(f"dense is {dense.dtype}; allowed: torch.float16, torch.bfloat16")
    if dense.device.type not in DEVICES:
        raise ValueError(f"dense is on {dense.device}; allowed: {', '.join(DEVICES)}")
    require_memory("dense", dense)


def checked_shape(shape: Sequence[int], where: str = "") -> tuple[int, int]:
    """`shape` as Python ints, or a ValueError, `where` first; `validate` says if they are < 1."""
    sizes = shape if isinstance(shape, (tuple, list)) else ()
    if len(sizes) != 2 or not all(map(is_integer, sizes)):
        raise ValueError(f"{where}shape is {shape!r:.60}; allowed: [M, K], two integers")
    return int(sizes[0]), int(sizes[1])


def checked_device(device: torch.device | str) -> torch.device:
    """`device` as torch's own, or a ValueError; whether it is there, torch says when it is used."""
    try:
        return torch.device(device)
    except (TypeError, RuntimeError) as error:
        allowed = "a device of torch, such as 'cpu' or 'cuda:0'"
        raise ValueError(f"device={device!r:.60}; allowed: {allowed}") from error


def require_matrix(out: Tensor) -> None:
    """Raise ValueError unless `out` is a matrix to decode into, of whatever shape."""
    if not isinstance(out, Tensor):
        raise ValueError(f"out is a {type(out).__name__}; allowed: a torch.Tensor [rows, K]")
    if out.layout != torch.strided or out.ndim != 2:
        raise ValueError(
            f"out has shape {tuple(out.shape)}, layout {out.layout}; allowed: a strided [rows, K]"
        )


def require_output(
    out: Tensor, shape: tuple[int, int], dtype: torch.dtype, arrays: Iterable[Tensor]
) -> None:
    """Raise ValueError unless `out` is such a matrix, contiguous, beside A's arrays."""
    require_matrix(out)
    arrays = [*arrays]
    found = (out.shape, out.dtype, out.device, out.is_contiguous())
    if found != (wanted := (shape, dtype, arrays[0].device, True)):
        raise ValueError(f"out is {found}; allowed: {wanted}")
    if not out.is_meta:  # where arrays are on meta, whoever decodes says so
        require_memory("out", out)
        require_apart(out, arrays, "A")


def require_memory(name: str, tensor: Tensor) -> None:
    """Raise ValueError unless the elements lie where a compiled function can read them."""
    if problem := memory_problem(tensor):
        raise ValueError(f"{name} {problem}; {MEMORY}")


def require_apart(out: Tensor, operands: Iterable[Tensor], names: str) -> None:
    """Raise ValueError where `out` lies in memory of the operands, which it would overwrite."""
    begin, end = _memory(out)
    found = map(_memory, operands)
    if any(first < end and begin < last for first, last in found):
        raise ValueError(f"out shares memory with {names}; allowed: memory of its own")


def _memory(tensor: Tensor) -> tuple[int, int]:
    """Where the storage begins and ends: one buffer may have several of them."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def memory_problem(tensor: Tensor) -> str | None:
    """Why no compiled function can read the elements; None where one can.

    Those of fake and of wrapped tensors, such as a DTensor, and of storage that was freed lie
    nowhere; of others, such as those inside of vmap, torch itself says why.
    """
    try:
        nowhere = tensor.data_ptr() == 0 and tensor.numel() > 0
    except RuntimeError as error:
        return f"has no memory to read: {error}"
    return f"is a {type(tensor).__name__} without memory" if nowhere else None


def check_dense(dense: Tensor) -> Tensor:
    """`dense` as a contiguous [M, K] tensor of fp16 or bf16, or a ValueError saying why not."""
    require_dense(dense)
    return dense.detach().contiguous()


def warn_of_negative_zeros(dense: Tensor) -> None:
    """Warn where many of some weights [M, K] are -0, as multiplying by a mask leaves them."""
    steps = (max(1, size // most) for size, most in zip(dense.shape, SAMPLED, strict=True))
    some = dense.detach()[tuple(slice(None, None, step) for step in steps)]
    if some.numel() < FEW:
        return
    share = int(((some == 0) & some.signbit()).sum()) / some.numel()
    if share > MANY:
        warnings.warn(
            f"{share:.0%} of the weights are -0, as multiplying by a mask leaves them, and are "
            "encoded as values; dense + 0 has +0 in their place, which takes no bytes",
            stacklevel=3,
        )


def check_int32(largest: int, what: str) -> None:
    """Raise ValueError, naming the size, where `largest` does not fit a 32-bit index."""
    if largest > INT32_MAX:
        raise ValueError(
            f"{what}: {largest} does not fit 32-bit indices (at most {INT32_MAX}); split A"
        )


def offsets_from_counts(counts: Tensor, what: str) -> Tensor:
    """Exclusive prefix sum of int `counts` [n] as int32 [n + 1], on their device.

    Raises ValueError, naming the size, where the total does not fit 32 bits.
    """
    offsets = torch.zeros(counts.numel() + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, dtype=torch.int64, out=offsets[1:])
    check_int32(int(offsets[-1]), what)
    return offsets.int()


def array_problem(array: Tensor, dtype: torch.dtype, first: Tensor) -> str | None:
    """Why an encoding cannot have `array` beside its `first` one; None where it can."""
    if not isinstance(array, Tensor):
        return f"is a {type(array).__name__}; allowed: torch.Tensor"
    if array.dtype != dtype or array.ndim != 1 or not array.is_contiguous():
        return (
            f"must be 1-D, contiguous, {dtype}; it has shape {tuple(array.shape)}, strides "
            f"{array.stride()}, {array.dtype}"
        )
    if array.is_neg():
        return "is a view that negates its memory; call resolve_neg() on it"
    if array.device != first.device:
        return f"is on {array.device}, the first one on {first.device}"
    if array.device.type not in DEVICES:
        return f"is on {array.device}; allowed: {', '.join(DEVICES)}"
    if problem := memory_problem(array):
        return f"{problem}; {MEMORY}"
    if array.device.type == "cuda" and array.data_ptr() % ALIGN:
        return f"does not start on {ALIGN} bytes, which GPU kernels read at once"
    return None


def tracked(array: Tensor) -> Tensor:
    """`array` as a tensor whose writes torch counts, which those of inference mode are not."""
    if not isinstance(array, Tensor) or array.layout != torch.strided:
        raise ValueError(
            f"an array of an encoding is {array!r:.60}; allowed: torch.Tensor, strided"
        )
    if not array.is_inference():
        return array
    with torch.inference_mode(False):
        return array.clone()
