"""One product as the launchers of kernels/spmm receive it."""

import ctypes
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from lab_utils.formats import SparseMatrix


class Problem(ctypes.Structure):
    """`Problem` of kernels/common/problem.cuh."""

    __slots__ = ()  # or ctypes would take a misspelt field for a new attribute
    _fields_ = (
        ("dtype", ctypes.c_int32),
        ("M", ctypes.c_int32),
        ("K", ctypes.c_int32),
        ("N", ctypes.c_int32),
        ("A", ctypes.c_void_p * 5),
        ("B", ctypes.c_void_p),
        ("ldb", ctypes.c_int64),
        ("C", ctypes.c_void_p),
        ("ldc", ctypes.c_int64),
        ("partial", ctypes.c_void_p),
        ("workers", ctypes.c_int32),
        ("tile_values", ctypes.c_int32),
        ("block_m", ctypes.c_int32),
        ("sm90", ctypes.c_int32),
        ("early", ctypes.c_int32),
        ("at_once", ctypes.c_int32),
    )


def product(A: SparseMatrix, N: int, arrays: Iterable[Tensor]) -> dict[str, Any]:
    """The fields that every kernel's problem has: dtype, shape, and which `arrays` it reads."""
    addresses = (array.data_ptr() for array in arrays)
    bf16 = int(A.dtype == torch.bfloat16)
    return {
        "dtype": bf16, "M": A.shape[0], "K": A.shape[1], "N": N,
        "A": (ctypes.c_void_p * 5)(*addresses),
    }  # fmt: skip
