"""SparseGPT (Frantar and Alistarh 2023): what pruning a weight breaks, later weights make up for.

Columns are walked from left to right. The change in the layer's output that a pruned weight
causes is compensated, as far as possible, by the weights of its row further right (algorithm 1):

    columns   0 ......... j ......... block's end ......... K
              done        | each error goes to  | the block's errors come here
              for ever    | the block's rest    | together, as one matrix product
"""

import torch
from torch import Tensor

from lab_utils.llm.checks import check_count
from lab_utils.llm.pruning.checks import check_statistic, check_target, check_weight
from lab_utils.llm.pruning.masks import WITHIN, Target, cleared, lowest

BLOCK = 128  # columns whose mask is chosen at once, and that are updated one by one
DAMP = 0.01  # of the hessian's mean diagonal


def sparsegpt(
    weight: Tensor, target: Target, hessian: Tensor, *, block: int = BLOCK, damp: float = DAMP
) -> Tensor:
    """The pruned and updated `weight` [M, K], in its dtype and on its device.

    `hessian` [K, K] is XᵀX of the calibration inputs X [tokens, K], fp32 or fp64, in which all is
    computed; `damp` times its mean diagonal is added to its diagonal, so that inputs that were
    always zero do no harm. At least as many weights as `masks.zeros` counts are +0: the mask is
    chosen block by block (N:M: group by group), in equal shares, where w² / [H⁻¹]ⱼⱼ is lowest, with
    the inverse for the columns from j on.
    Raises ValueError for what does not fit, RuntimeError where the hessian, damped, is not
    positive definite or the updated weights do not fit their dtype.
    """
    check_weight(weight)
    check_target(target)
    check_count("block", block, 1)
    check_statistic("hessian", hessian, weight, (weight.shape[1],) * 2)
    W, mask = weight.to(hessian.dtype, copy=True), torch.zeros_like(weight, dtype=torch.bool)
    factor = _inverse_factor(hessian, damp)
    step = block if target.within in WITHIN else target.group(W.shape[1])
    block = max(block // step, 1) * step
    for start in range(0, W.shape[1], block):
        _prune_block(W, mask, factor, slice(start, min(start + block, W.shape[1])), step, target)
    pruned = cleared(W.to(weight.dtype), mask)
    if not torch.isfinite(pruned).all():
        raise RuntimeError(f"updated weights exceed {weight.dtype}; a larger damp={damp} may help")
    return pruned


def _prune_block(
    W: Tensor, mask: Tensor, factor: Tensor, here: slice, step: int, target: Target
) -> None:
    """Prune columns `here` of W, and spread the errors to all columns that follow."""
    errors = torch.zeros_like(W[:, here])
    for j in range(here.start, here.stop):
        if (j - here.start) % step == 0:
            ahead = slice(j, min(j + step, here.stop))
            mask[:, ahead] = _choose(W[:, ahead], factor.diagonal()[ahead], ahead, target)
        error = W[:, j] * mask[:, j] / factor[j, j]
        W[:, j : here.stop] -= torch.outer(error, factor[j, j : here.stop])
        errors[:, j - here.start] = error
    W[:, here.stop :] -= errors @ factor[here, here.stop :]


def _choose(W: Tensor, diagonal: Tensor, columns: slice, target: Target) -> Tensor:
    """The mask of these columns; shares are rounded so that they add up over all columns."""
    rows = W.shape[0] if target.within == "layer" else 1
    until, before = (round(target.sparsity * rows * j) for j in (columns.stop, columns.start))
    scores = (W / diagonal).square().reshape(-1, rows * W.shape[1])
    return lowest(scores, until - before).view(W.shape)


def _inverse_factor(hessian: Tensor, damp: float) -> Tensor:
    """U [K, K], upper triangular, with UᵀU = (H + λI)⁻¹: row j is what step j spreads."""
    lower, failed = torch.linalg.cholesky_ex(_damped(hessian, damp))
    if not failed:
        lower, failed = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower))
    if failed:
        raise RuntimeError(f"hessian is not positive definite with damp={damp}; allowed: a larger")
    return lower.T


def _damped(hessian: Tensor, damp: float) -> Tensor:
    mean = float(hessian.diagonal().mean())
    damped = hessian.clone()
    damped.diagonal().add_(damp * mean or 1.0)  # without any input, all weights weigh the same
    return damped
