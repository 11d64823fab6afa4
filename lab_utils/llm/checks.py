"""What more than one module of the package checks: counts, and dtypes of a model's weights."""

import torch

from lab_utils.analysis.checked import is_integer
from lab_utils.formats.checks import DTYPES as ENCODED

DTYPES = {**ENCODED, "float32": torch.float32}  # of a model's weights, by their names in files
SHORT = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}  # in rows, commands


def check_count(name: str, value: int, least: int, most: int | None = None, more: str = "") -> None:
    """Raise ValueError, calling it `name`, unless `value` is an integer from `least` to `most`.

    None: without end. `more` is what else is allowed, for the message: the caller lets it through.
    """
    if not is_integer(value) or value < least or (most is not None and value > most):
        end = "" if most is None else f" to {most}"
        raise ValueError(f"{name}={value!r:.60}; allowed: integers from {least}{end}{more}")
