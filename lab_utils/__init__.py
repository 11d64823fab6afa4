"""LSCD workbench: load weights sparse, compute dense."""

from lab_utils.formats import FORMATS, SparseMatrix, encode, load
from lab_utils.ops import explain, sparse_linear, spmm

__all__ = ["FORMATS", "SparseMatrix", "encode", "explain", "load", "sparse_linear", "spmm"]
