"""What sparse products are measured against, each behind the same three calls.

`BASELINES` maps the name that rows carry to a `Baseline`: dense products first.
"""

from lab_utils.baselines.base import Baseline, Operand

BASELINES: dict[str, Baseline] = {}

__all__ = ["BASELINES", "Baseline", "Operand"]
