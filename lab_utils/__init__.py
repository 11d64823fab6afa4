"""LSCD workbench: load weights sparse, compute dense."""

from lab_utils.formats import FORMATS, SparseMatrix, encode, load
from lab_utils.nn import SparseLinear, sparsify
from lab_utils.ops import explain, sparse_linear, spmm

__all__ = [
    "FORMATS",
    "SparseLinear",
    "SparseMatrix",
    "encode",
    "explain",
    "load",
    "sparse_linear",
    "sparsify",
    "spmm",
]
