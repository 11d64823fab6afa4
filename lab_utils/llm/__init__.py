"""OPT end to end: a decoder whose matrices are dense or sparse, from a checkpoint to rows.

Here is the decoder: `config` (sizes), `model` (layers), `residual` (what lies between products),
`scratch` (a matrix that is decoded first), `cache` (keys and values), `attention` (of one token to
these), `prompts` and `sampling` (what goes in, what comes out), `generate` (the loop), `parallel`
(ranks), `text` (tokenizers, of transformers, which is `optional`), `checks` (counts, dtypes).
Around it: `pruning` chooses zeros and formats, `checkpoint` reads and writes weights, `measuring`
makes rows of generations.
`python -m lab_utils.llm` is the way in from a terminal.
"""

from lab_utils.llm.config import OPTConfig
from lab_utils.llm.generate import generate
from lab_utils.llm.model import OPT

__all__ = ["OPT", "OPTConfig", "generate"]
