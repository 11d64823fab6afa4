"""Which weights of a model become zero, and in which format the rest is kept.

`masks` counts and chooses, `methods` are magnitude, Wanda, Taylor and SparseGPT (`sparsegpt`) on
one matrix, with their `checks`. `calibration` gathers what they need to know of the data, `recipe`
says what happens to each matrix of a model, and `models` does it to a model in memory.
"""

from lab_utils.llm.pruning.masks import Target
from lab_utils.llm.pruning.methods import METHODS, prune
from lab_utils.llm.pruning.models import decoded, prune_model
from lab_utils.llm.pruning.recipe import Recipe

__all__ = ["METHODS", "Recipe", "Target", "decoded", "prune", "prune_model"]
