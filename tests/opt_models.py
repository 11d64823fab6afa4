"""Small OPT models with random weights, dense, pruned, encoded and cut, that tests share."""

from typing import TypeVar

import torch
from torch import Tensor, nn

from lab_utils import SparseLinear
from lab_utils.llm import OPT, OPTConfig
from lab_utils.llm.model import MATRICES
from lab_utils.llm.parallel import ALONE, Ranks, cut

Model = TypeVar("Model", bound=nn.Module)


def config(**changes) -> OPTConfig:
    """A small configuration of ours, for tests that compare with nothing of transformers."""
    sizes = {"hidden": 64, "ffn": 128, "layers": 2, "heads": 4, "vocab": 97, "max_positions": 48}
    return OPTConfig(**{"name": "small", **sizes, "embed": 64, **changes})


def randomized(model: Model, seed: int, spread: float = 0.3) -> Model:
    """Random weights; the layers' are so large that what they add decides about the next token."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = 1.0 if "norm.weight" in name else 0.0
            wide = "layers" in name and parameter.ndim == 2
            parameter.normal_(mean, spread if wide else 0.1, generator=generator)
    return model.eval()


def random_model(dtype: torch.dtype = torch.float32, spread: float = 0.3, **changes) -> OPT:
    """A model of ours, every weight random."""
    return randomized(OPT(config(**changes), dtype=dtype), 3, spread)


def pruned(model: OPT, sparsity: float) -> OPT:
    """`model` with the smallest weights of its layers' matrices set to 0, in place."""
    with torch.no_grad():
        for layer in model.layers:
            for name in MATRICES:
                weight = getattr(layer, name).weight
                least = weight.abs().float().quantile(sparsity)
                weight.masked_fill_(weight.abs().float() < least, 0)
    return model


def sparse(model: OPT, format: str = "tca_bme") -> OPT:
    """`model` with the matrices of its layers encoded, in place."""
    for layer in model.layers:
        for name in MATRICES:
            setattr(layer, name, SparseLinear.from_linear(getattr(layer, name), format))
    return model


def share(model: OPT, ranks: Ranks = ALONE) -> OPT:
    """What `ranks` has of `model`, whose matrices are dense."""
    part = OPT(model.config, ranks, dtype=model.dtype).eval()
    state = model.state_dict()
    for index, layer in enumerate(model.layers):
        for name in MATRICES:
            linear = getattr(layer, name)
            weight, bias = cut(name, linear.weight.detach(), linear.bias, ranks)
            state[f"layers.{index}.{name}.weight"] = weight
            state.pop(f"layers.{index}.{name}.bias", None)
            if bias is not None:
                state[f"layers.{index}.{name}.bias"] = bias.detach()
    part.load_state_dict(state)
    return part


def prompts(batch: int = 3, tokens: int = 7, seed: int = 0, vocab: int = 97) -> Tensor:
    return torch.randint(vocab, (batch, tokens), generator=torch.Generator().manual_seed(seed))
