"""Which layers of a torch model may become sparse ones: what they compute, what that saves."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.weight_norm import WeightNorm

from lab_utils.analysis.compression import VALUE_BYTES
from lab_utils.formats import by_name
from lab_utils.formats.checks import DTYPES, memory_problem

RECOMPUTING = (BasePruningMethod, WeightNorm)  # forward pre-hooks that only set weight or bias
STAYS_DENSE = "no layer was replaced, the model stays dense"
COUNTED = (*DTYPES.values(), torch.float32)  # dtypes whose zeros torch counts
MANY_ZEROS = 0.5  # of a parameter, which only pruning leaves


def recompute(linear: nn.Linear) -> None:
    """Bring weight and bias up to date: pruned ones are so only during a forward."""
    for hook in linear._forward_pre_hooks.values():
        if isinstance(hook, RECOMPUTING):
            hook(linear, ())


def check_forward(linear: nn.Linear, name: str = "linear") -> None:
    """Raise ValueError where `linear` computes something else than torch.nn.Linear does."""
    of_torch = getattr(linear.forward, "__func__", None) is nn.Linear.forward
    if not of_torch or linear.forward.__self__ is not linear:
        raise ValueError(
            f"{name} has a forward of its own, from its class or put there by a wrapper, which "
            "encoded weights would lose; allowed: that of torch.nn.Linear"
        )
    before = [h for h in linear._forward_pre_hooks.values() if not isinstance(h, RECOMPUTING)]
    for kind, hooks in ("pre-hook", before), ("hook", [*linear._forward_hooks.values()]):
        if hooks:
            raise ValueError(
                f"{name} has the forward {kind} {hooks[0]!r:.80}, which encoded weights would "
                "lose; allowed: pre-hooks of torch.nn.utils.prune and weight_norm"
            )


def smaller(model: nn.Module, format: str) -> Callable[[str, nn.Linear], bool]:
    """Says which linear layers share their weight with no other module, and would be smaller.

    Where none would, whoever pruned the model would go on with a dense one unawares: so it warns.
    """
    linears = [m for m in model.modules() if type(m) is nn.Linear]
    uses = Counter(id(p) for m in model.modules() for p in m._parameters.values())
    alone = [one for one in linears if uses[id(one.weight)] <= 1 and one.weight.numel()]
    zeros = [_zeros(one.weight) for one in alone]
    found = {one for one, share in zip(alone, zeros, strict=True) if _pays(one, format, share)}
    if alone and not found:
        shares = " to ".join(dict.fromkeys(f"{share:.1%}" for share in (min(zeros), max(zeros))))
        warnings.warn(
            f"{STAYS_DENSE}: none is pruned and expected to be smaller as {format} "
            f"(linear layers: {len(alone)}; zeros: {shares})",
            stacklevel=3,
        )
    if others := list(_pruned_others(model, alone)):
        told = ", ".join(others[:3]) + ", ..." * (len(others) > 3)
        warnings.warn(
            f"{len(others)} pruned parameters stay dense, which are no weight of a torch.nn.Linear "
            f"alone: {told}",
            stacklevel=3,
        )
    return lambda _, linear: linear in found


def _pruned_others(model: nn.Module, linears: list[nn.Linear]) -> Iterator[str]:
    """Parameters of other layers, matrices and more, of which many values are zeros, not all."""
    known = {id(one) for linear in linears for one in linear.parameters()}
    for name, parameter in model.named_parameters():
        matrix = parameter.ndim > 1 and parameter.numel() and parameter.dtype in COUNTED
        if not matrix or id(parameter) in known or memory_problem(parameter):
            continue
        if MANY_ZEROS <= _zeros(parameter) < 1:
            yield name


def _zeros(weight: Tensor) -> float:
    if problem := memory_problem(weight):
        raise ValueError(
            f"a layer's weight {tuple(weight.shape)} on {weight.device} {problem}, so that nobody "
            "can say whether it pays; allowed: values, or select= that leaves the layer out"
        )
    return 1 - int(torch.count_nonzero(weight)) / weight.numel()


def _pays(linear: nn.Linear, format: str, sparsity: float) -> bool:
    """Whether its encoding is expected to be smaller than its weights in 16 bits.

    Zeros alone are weights that nobody has trained yet, as those that adapters begin with.
    """
    kind, weight = by_name(format), linear.weight
    pruned = kind.LEAST_SPARSITY <= sparsity < 1
    return pruned and kind.expected_nbytes(*weight.shape, sparsity) < VALUE_BYTES * weight.numel()
