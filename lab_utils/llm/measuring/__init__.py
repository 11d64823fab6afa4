"""Generations measured as in Flash-LLM's section 6.3, and the rows of `opt` that they become.

`sweep` measures a model in several formats and batches, of which `fits` leaves out what is too
large; `generations` makes a row of one, with its `parts`, once `products` has found no wrong
product. `outside` does the same to transformers, as a check of our baseline. `clocks`,
`device_memory` and, for joules, `energy` are the instruments. `steps` are of models of
transformers, whose layers `sparsify` replaced.
"""

from lab_utils.llm.measuring.generations import measure
from lab_utils.llm.measuring.outside import Transformers
from lab_utils.llm.measuring.sweep import Sweep

__all__ = ["Sweep", "Transformers", "measure"]
