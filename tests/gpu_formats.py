"""The formats of our GPU kernels, for tests that multiply: zero_row_24 does it on sm_90 only."""

import pytest
import torch

from lab_utils.backends import cuda


def _problem(format: str) -> str | None:
    return cuda.format_problem(format, torch.device("cuda")) if torch.cuda.is_available() else None


# Those that this GPU cannot multiply are skipped, with the reason.
MULTIPLIED = [
    pytest.param(format, marks=pytest.mark.skip(reason=reason) if reason else ())
    for format, reason in ((format, _problem(format)) for format in cuda.formats)
]
