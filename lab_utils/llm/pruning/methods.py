"""Pruning one weight matrix: magnitude, Wanda, first-order Taylor and SparseGPT, by name.

Each is a pure function of the weights and of what calibration found out about them. Pruned weights
have the bits of +0, which is what the formats take for zero; −0 becomes +0 as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from lab_utils.llm.pruning.checks import check_statistic, check_target, check_weight
from lab_utils.llm.pruning.masks import Target, cleared, zeros
from lab_utils.llm.pruning.sparsegpt import sparsegpt


def magnitude(weight: Tensor, target: Target) -> Tensor:
    """The pruned `weight` [M, K]: the lowest |w| go (Han et al. 2015)."""
    check_weight(weight)
    check_target(target)
    return cleared(weight, zeros(weight.abs(), target))


def wanda(weight: Tensor, target: Target, squares: Tensor) -> Tensor:
    """The pruned `weight` [M, K]: the lowest |w| · ‖x‖₂ go (Sun et al. 2024, equation 1).

    `squares` [K], fp32 or fp64, are the sums of x² of each input over all calibration tokens.
    """
    check_weight(weight)
    check_target(target)
    check_statistic("squares", squares, weight, (weight.shape[1],))
    if bool((squares < 0).any()):
        raise ValueError(f"squares are as low as {float(squares.min())}; allowed: sums of squares")
    return cleared(weight, zeros(weight.to(squares.dtype).abs() * squares.sqrt(), target))


def taylor(weight: Tensor, target: Target, gradient: Tensor) -> Tensor:
    """The pruned `weight` [M, K]: the lowest |w · ∂L/∂w| go (Molchanov et al. 2019, first order).

    `gradient` [M, K], fp32 or fp64, is the root mean square of ∂L/∂w over the calibration
    sequences: as there, it is the squares of w · ∂L/∂w that are averaged.
    """
    check_weight(weight)
    check_target(target)
    check_statistic("gradient", gradient, weight, tuple(weight.shape))
    return cleared(weight, zeros((weight.to(gradient.dtype) * gradient).abs(), target))


@dataclass(frozen=True)
class Method:
    """A way to prune; `statistic` is the name of the tensor that calibration has to find, or ""."""

    title: str
    statistic: str
    prune: Callable[..., Tensor]


METHODS: dict[str, Method] = {
    "magnitude": Method("magnitude", "", magnitude),
    "wanda": Method("Wanda", "squares", wanda),
    "sparsegpt": Method("SparseGPT", "hessian", sparsegpt),
    "taylor": Method("first-order Taylor", "gradient", taylor),
}


def prune(
    weight: Tensor, target: Target, method: str = "magnitude", statistic: Tensor | None = None
) -> Tensor:
    """`weight` [M, K] with the zeros that `target` asks for, in its dtype and on its device.

    `method` is a name in `METHODS`, and `statistic` the tensor that it needs, if any.
    Raises ValueError, naming the argument, for what does not fit and for NaN and infinities.
    """
    how = method_of(method)
    if not how.statistic and statistic is not None:
        raise ValueError(f"statistic={statistic!r:.60}: method={method!r} needs none")
    return how.prune(weight, target, **{how.statistic: statistic} if how.statistic else {})


def method_of(name: str) -> Method:
    """The method of that name; raises ValueError listing the known."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"method={name!r:.60}: unknown; allowed: {', '.join(METHODS)}")
    return METHODS[name]
