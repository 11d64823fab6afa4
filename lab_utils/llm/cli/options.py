"""Options that several of the commands have, and what they become."""

import os
from functools import partial
from typing import Any

import click
import torch

from lab_utils.console import many, together
from lab_utils.llm.checks import SHORT

DTYPES = {name: dtype for dtype, name in SHORT.items()}
MODEL = "A size such as OPT-30B, with random weights; or the folder of a checkpoint."

shown = partial(click.option, show_default=True)
several = partial(many, show_default=True)
lengths_options = together(
    shown("--prompt", default=64, help="Tokens of each prompt."),
    shown("--output", default=512, help="New tokens of each sequence."),
)
pruning_options = together(
    click.option("--sparsity", type=float,
                 help="Fraction of zeros.  [default: that of N:M, else prune nothing]"),
    shown("--within", default="row", help="Where that fraction holds: row, layer, or N:M."),
    click.option("--outer-fc1-dense", is_flag=True,
                 help="Keep fc1 of the first and last quarter of layers dense, as Flash-LLM does."),
)  # fmt: skip
place_options = together(
    click.option("--device", help="cpu or cuda.  [default: cuda where there is one]"),
    click.option("--dtype", type=click.Choice(list(DTYPES)),
                 help="Of the weights.  [default: fp16 on a GPU, bf16 on a CPU]"),
)  # fmt: skip


def placed(device: str | None, dtype: str | None) -> dict[str, Any]:
    """Device and dtype, named or by default; RuntimeError where there is no such device."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r}; allowed: cpu, cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("device='cuda': torch sees no CUDA device")
    if device == "cuda":  # encoding leaves holes of all sizes, which fixed segments cannot reuse
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    return {"device": device, "dtype": DTYPES[dtype or ("fp16" if device == "cuda" else "bf16")]}


def check_stored(source: Any, dtype: str | None, outer_fc1_dense: bool) -> None:
    """Raise ValueError for options that a stored model, whose matrices are as they are, ignores."""
    from lab_utils.llm.checkpoint import Stored

    if isinstance(source, Stored) and dtype:
        raise ValueError(f"dtype={dtype!r}; allowed with a stored model: none, it has its own")
    if isinstance(source, Stored) and outer_fc1_dense:
        raise ValueError("--outer-fc1-dense; allowed with dense weights, not with a stored model")


def recipe_of(source: Any, format: str | None, sparsity: float | None, within: str,
            outer_fc1_dense: bool, method: str = "magnitude") -> Any:  # fmt: skip
    from lab_utils.analysis.memory import no_matrix, outer_fc1
    from lab_utils.llm.checkpoint import Stored
    from lab_utils.llm.pruning import Recipe, Target

    if sparsity is not None:
        target = Target(sparsity, within)
    elif ":" in within:
        target = Target.n_of_m(within)
    elif within != "row" or method != "magnitude":
        raise ValueError(f"sparsity=None, so within={within!r} and method={method!r} would change "
                         "nothing; allowed: a sparsity from 0 to 1")  # fmt: skip
    elif outer_fc1_dense and format is None and not isinstance(source, Stored):
        raise ValueError("sparsity=None, so --outer-fc1-dense would change nothing; allowed: a "
                         "sparsity from 0 to 1")  # fmt: skip
    else:
        target = None
    dense = outer_fc1(source.config) if outer_fc1_dense else no_matrix
    return Recipe(format, target, method, dense)
