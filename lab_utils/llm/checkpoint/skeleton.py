"""A model without memory for its weights, and the tensors that are put into it one by one."""

import torch
from torch import Tensor, nn

from lab_utils.llm.checks import DTYPES
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.model import OPT
from lab_utils.llm.parallel import Ranks


def check_place(device: torch.device | str, dtype: torch.dtype) -> None:
    """Raise ValueError unless weights can be on `device`, and of `dtype`."""
    if dtype not in DTYPES.values():
        raise ValueError(f"dtype={dtype!r:.60}; allowed: {', '.join(map(str, DTYPES.values()))}")
    places = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    try:
        place = torch.device(device)
        name = f"cuda:{place.index or 0}" if place.type == "cuda" else place.type
    except (RuntimeError, TypeError):  # torch knows no such device
        name = None
    if name not in places:
        raise ValueError(f"device={str(device)!r:.60}; allowed here: {', '.join(places)}")


def skeleton(config: OPTConfig, origin: str, ranks: Ranks, dtype: torch.dtype) -> OPT:
    """The model without memory (device "meta") for its weights, which come from `origin`."""
    model = OPT(config, ranks, device="meta", dtype=dtype).eval().requires_grad_(False)
    model.weights_origin = origin
    return model


def shapes(config: OPTConfig) -> dict[str, torch.Size]:
    """The shape of every tensor of a model, whole, by our names."""
    state = OPT(config, device="meta").state_dict()
    return {name: tensor.shape for name, tensor in state.items()}


def linear_of(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """The layer of those tensors, [M, K] and [M], without gradients."""
    M, K = weight.shape
    linear = nn.Linear(K, M, bias=bias is not None, device="meta").eval()
    set_parameter(linear, "weight", weight)
    if bias is not None:
        set_parameter(linear, "bias", bias)
    return linear


def set_parameter(model: nn.Module, name: str, values: Tensor) -> None:
    """Put `values` in the place of the parameter of that name, without gradients."""
    path, _, own = name.rpartition(".")
    model.get_submodule(path).register_parameter(own, nn.Parameter(values, requires_grad=False))


def own_copy(
    values: Tensor, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """A copy, by default where `values` are, that keeps neither a file nor a whole alive."""
    place = {"device": device or values.device, "dtype": dtype or values.dtype}
    return values.to(**place, copy=True, memory_format=torch.contiguous_format)
