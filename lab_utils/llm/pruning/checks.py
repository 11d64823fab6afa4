"""What pruning refuses before it starts: no weights, no target, statistics of something else."""

import torch
from torch import Tensor

from lab_utils.llm import checks
from lab_utils.llm.pruning.masks import Target

DTYPES = (*checks.DTYPES.values(), torch.float64)


def check_weight(weight: Tensor, name: str = "weight") -> None:
    """Raise ValueError, calling it `name`, unless `weight` is a finite [M, K] of floats."""
    if not _is_matrix(weight):
        found = f"{weight.dtype} {tuple(weight.shape)}" if isinstance(weight, Tensor) else weight
        allowed = ", ".join(map(str, DTYPES))
        raise ValueError(f"{name} is {found!s:.60}; allowed: [M, K] >= 1 of {allowed}")
    check_finite(name, weight)


def check_target(target: Target) -> None:
    """Raise ValueError unless it is one."""
    if not isinstance(target, Target):
        raise ValueError(f"target={target!r:.60}; allowed: Target(sparsity), Target.n_of_m('2:4')")


def check_statistic(name: str, statistic: Tensor | None, weight: Tensor, shape: tuple) -> None:
    """Raise ValueError unless it is finite, fp32 or fp64, of `shape`, on the device of `weight`."""
    if not isinstance(statistic, Tensor):
        raise ValueError(f"{name} is {statistic!r:.60}; allowed: a tensor {shape}")
    if statistic.shape != shape or statistic.dtype not in (torch.float32, torch.float64):
        found = f"{statistic.dtype} {tuple(statistic.shape)}"
        raise ValueError(f"{name} is {found}; allowed: torch.float32, torch.float64 {shape}")
    if statistic.device != weight.device:
        raise ValueError(f"{name} is on {statistic.device}; allowed: {weight.device}, as weight")
    check_finite(name, statistic)


def _is_matrix(weight: Tensor) -> bool:
    shaped = isinstance(weight, Tensor) and weight.ndim == 2 and weight.numel() > 0
    return shaped and weight.dtype in DTYPES


def check_finite(name: str, values: Tensor) -> None:
    """Raise ValueError, calling them `name`, where `values` hold NaN or an infinity."""
    extremes = torch.stack(torch.aminmax(values))  # NaN, if there is one; no mask is needed
    if not torch.isfinite(extremes).all():
        wrong = int(torch.count_nonzero(~torch.isfinite(values)))
        raise ValueError(f"{name} holds {wrong} NaN or infinite values; allowed: finite ones")
