"""Weights on their way from files to models and back; no dense model is ever whole in memory.

`sources` says what weights are read from, `hugging_face` is one: a checkpoint of that library.
`loading` prunes and encodes them layer by layer, `saving` writes what comes of it, in the files
that `layout` names, and `stored` reads it again. `skeleton` is the model that they fill, in memory
that `build_pool` keeps free of holes; `opening` finds out what a name or folder stands for.
"""

from lab_utils.llm.checkpoint.hugging_face import HuggingFace
from lab_utils.llm.checkpoint.loading import load
from lab_utils.llm.checkpoint.opening import model_of, opened
from lab_utils.llm.checkpoint.saving import convert, save
from lab_utils.llm.checkpoint.sources import Random, Source
from lab_utils.llm.checkpoint.stored import Stored

__all__ = [
    "HuggingFace",
    "Random",
    "Source",
    "Stored",
    "convert",
    "load",
    "model_of",
    "opened",
    "save",
]
