"""OPT end to end: weights, pruning, decoding, tensor parallelism."""

from lab_utils.llm.config import OPTConfig
from lab_utils.llm.generate import generate
from lab_utils.llm.model import OPT

__all__ = ["OPT", "OPTConfig", "generate"]
