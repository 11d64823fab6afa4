"""The formats of our GPU kernels, for tests that multiply: zero_row_24 does it on sm_90 only.

And what rows of measurements call their products.
"""

import pytest
import torch

from lab_utils.backends import cuda
from lab_utils.backends.kernels import name_of, ways_of

GPUS = {"h200": "H200-SXM", "h100-80gb-hbm3": "H100-SXM"}  # of rows: folder, name in devices.yaml


def _problem(format: str) -> str | None:
    return cuda.format_problem(format, torch.device("cuda")) if torch.cuda.is_available() else None


# Those that this GPU cannot multiply are skipped, with the reason.
MULTIPLIED = [
    pytest.param(format, marks=pytest.mark.skip(reason=reason) if reason else ())
    for format, reason in ((format, _problem(format)) for format in cuda.formats)
]


def working() -> list[str]:
    """Formats that this GPU multiplies."""
    return [format for format in cuda.formats if _problem(format) is None]


def kernels_of(format: str) -> list[str]:
    """What rows call products of a format, by its `ways_of`."""
    return [name_of(format, way) for way in ways_of(format)]
