"""Sparse layers in place of the linear ones of a model."""

import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from lab_utils.formats import by_name, check_options
from lab_utils.formats.checks import DTYPES
from lab_utils.nn.layer import SparseLinear
from lab_utils.nn.linears import STAYS_DENSE, check_forward, recompute, smaller


def sparsify(
    model: nn.Module,
    format: str = "tca_bme",
    *,
    select: Callable[[str, nn.Linear], bool] | None = None,
    **options: Any,
) -> dict[str, SparseLinear]:
    """Replace linear layers of `model`, in place, one at a time; returns the new ones by name.

    `select(name, linear)` says which; by default those whose encoding is smaller than their weights
    in 16 bits and whose weight no other module shares, as tied embeddings do; not those of zeros
    alone, as adapters begin, nor, of 2:4, with fewer than half of them. Warns where none is left,
    and of pruned parameters that are no such layer's.
    Only layers of the very class `torch.nn.Linear` are asked for: others may do something else.
    Raises ValueError, and replaces nothing, for an unknown format or option, where a layer is not
    fp16 or bf16, and where it has forward hooks, which would be lost. One whose weights do not fit
    the format is named; those before it are replaced by then.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model is a {type(model).__name__}; allowed: torch.nn.Module")
    check_options(by_name(format), options)
    if select is not None and not callable(select):
        raise ValueError(f"select={select!r}; allowed: None, or a function of name and linear")
    for linear in model.modules():
        if type(linear) is nn.Linear:
            recompute(linear)
    asked = select or smaller(model, format)
    names = [n for n, m in model.named_modules() if type(m) is nn.Linear and asked(n, m)]
    for name in names:
        dtype = model.get_submodule(name).weight.dtype
        if not name or dtype not in DTYPES.values():
            found = f"layer {name!r} is {dtype}" if name else "model is itself a torch.nn.Linear"
            raise ValueError(f"{found}; allowed: fp16 and bf16 layers inside of a model")
        check_forward(model.get_submodule(name), f"layer {name!r}")
    replaced = {name: _replace(model, name, format, options, select is None) for name in names}
    found = {name: sparse for name, sparse in replaced.items() if sparse is not None}
    if names and not found:
        warnings.warn(f"{STAYS_DENSE}: with whole tiles none is smaller as {format}", stacklevel=2)
    return found


def _replace(
    model: nn.Module, name: str, format: str, options: dict, only_smaller: bool
) -> SparseLinear | None:
    """Put a sparse layer wherever `model` has the linear one, which can be in several places.

    `only_smaller`: not where it would be larger; tiles of a few rows or columns are mostly padding.
    """
    linear = model.get_submodule(name)
    try:
        sparse = SparseLinear.from_linear(linear, format, **options)
    except ValueError as error:
        raise ValueError(f"layer {name!r}: {error}") from error
    if only_smaller and sparse.weight.nbytes >= linear.weight.nbytes:
        return None
    for parent in model.modules():
        for own_name, child in parent._modules.items():
            if child is linear:
                parent._modules[own_name] = sparse
    return sparse
