"""One product as the launchers of kernels/spmm receive it."""

import ctypes


class Problem(ctypes.Structure):
    """`Problem` of kernels/common/problem.cuh."""

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
