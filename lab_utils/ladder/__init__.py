"""The ladder: kernels/ladder, one idea per version, on a GPU and in the emulator.

`RUNGS` says what each one is, `run` multiplies with it, `emulate` also counts what it does;
`exercises` holds what notebook 23 asks its readers.
"""

from lab_utils.ladder.launch import Encoded, emulate, encode, planned_split_k, run, spmm
from lab_utils.ladder.rungs import RUNGS, Rung

__all__ = ["RUNGS", "Encoded", "Rung", "emulate", "encode", "planned_split_k", "run", "spmm"]
