"""Memory that decoding takes on each GPU, term by term, and which model fits where.

All of it is arithmetic on dimensions, in bytes: weights by the formulas of `compression`, and what
the decoder of `lab_utils.llm` keeps beside them. Nothing is allocated.

`workload` is what is decoded, `terms` what that needs, `fitting` what the GPUs have room for.
"""

from lab_utils.analysis.memory.fitting import (
    GIB,
    USABLE,
    answers,
    fewest_gpus,
    largest_batch,
    usable_bytes,
)
from lab_utils.analysis.memory.terms import (
    CONTEXT_BYTES,
    LIBRARY_BYTES,
    NCCL_BYTES,
    PIECE_BYTES,
    encoded_bytes,
    needs,
    total,
)
from lab_utils.analysis.memory.workload import KNOWN, Workload, no_matrix, outer_fc1, whole_slots

__all__ = [
    "CONTEXT_BYTES",
    "GIB",
    "KNOWN",
    "LIBRARY_BYTES",
    "NCCL_BYTES",
    "PIECE_BYTES",
    "USABLE",
    "Workload",
    "answers",
    "encoded_bytes",
    "fewest_gpus",
    "largest_batch",
    "needs",
    "no_matrix",
    "outer_fc1",
    "total",
    "usable_bytes",
    "whole_slots",
]
