"""Models made of dense weights, matrix by matrix: read -> prune -> cut -> encode -> place.

Neither host nor device ever holds the dense model: of what is to be sparse, one matrix is dense at
a time, or one layer where pruning needs calibration.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from lab_utils.llm.calibrate import Calibration, encode_layer, prune_layer, prune_model
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.model import MATRICES, OPT, Layer
from lab_utils.llm.parallel import ALONE, Ranks, cut
from lab_utils.llm.prune import prune
from lab_utils.llm.reader import shapes
from lab_utils.llm.recipe import Recipe

DEVIATION = 0.02  # of random weights, as OPT was initialised


class Source(Protocol):
    """Where dense weights come from; `origin` is what rows of results call them."""

    config: OPTConfig
    origin: str

    def read(self, name: str) -> Tensor:
        """The whole tensor of that name, of any float dtype, on any device."""


class Random:
    """Weights for timing: normal(0, 0.02) on `device`, biases 0, norms 1; the same for each `seed`.

    Pruned to a target they have its exact sparsity, in random places.
    """

    origin = "random"

    def __init__(
        self,
        config: OPTConfig,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float16,
    ):
        self.config, self.seed = config, seed
        self._place, self._shapes = {"device": device, "dtype": dtype}, shapes(config)

    def read(self, name: str) -> Tensor:
        values = torch.empty(self._shapes[name], **self._place)
        if values.ndim == 1:
            return values.fill_(float(name.endswith("norm.weight")))
        generator = torch.Generator(values.device)
        generator.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
        return values.normal_(0, DEVIATION, generator=generator)


def load(
    source: Source,
    recipe: Recipe | None = None,
    *,
    ranks: Ranks = ALONE,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float16,
    tokens: Tensor | None = None,
) -> OPT:
    """The model of `source`, as `recipe` says (by default dense), on `device` and of `dtype`.

    `source`: `HuggingFace(folder)` or `Random(config)`; its `origin`, "checkpoint" or "random", is
    the model's `weights_origin`. Of several `ranks` each calls this for its share, which is cut
    from matrices that were pruned whole, so that all world sizes run the same model.
    `tokens` [sequences, length] are for methods that calibrate. First-order Taylor needs gradients
    from the model's end, and therefore the whole dense model in the memory of `device`.
    Raises ValueError for what does not fit, before a weight is read.
    """
    recipe = recipe or Recipe()
    recipe.check(source.config, dtype, tokens, ranks)
    if recipe.statistic == "gradient":
        return prune_model(load(source, device=device, dtype=dtype), recipe, tokens)
    model = skeleton(source, ranks, dtype)
    for _ in placed(model, source, recipe, device, tokens):
        pass
    return model


def skeleton(source: Source, ranks: Ranks, dtype: torch.dtype) -> OPT:
    """The model without memory for its weights (device "meta")."""
    model = OPT(source.config, ranks, device="meta", dtype=dtype).eval().requires_grad_(False)
    model.weights_origin = source.origin
    return model


def placed(
    model: OPT, source: Source, recipe: Recipe, device: torch.device | str, tokens: Tensor | None
) -> Iterator[Layer]:
    """Fill the skeleton `model`; yields each layer as soon as it is there, pruned and encoded."""
    reader = _Reader(source, recipe, model.ranks, torch.device(device), model.dtype)
    for name, module in model.named_children():
        if name != "layers":
            reader.fill(module, name)
    calibration = Calibration(model, tokens) if recipe.statistic else None
    for layer in model.layers:
        for name in ("attention_norm", "mlp_norm"):
            reader.fill(layer.get_submodule(name), f"layers.{layer.index}.{name}")
        for name in MATRICES:
            full = f"layers.{layer.index}.{name}"
            linear = reader.linear(full)
            setattr(layer, name, linear if calibration else recipe.encoded(full, linear))
        if calibration:
            prune_layer(layer, recipe, calibration)
            encode_layer(layer, recipe)
        yield layer


@dataclass(frozen=True)
class _Reader:
    """Reads weights of `source` in the form in which a rank's model has them."""

    source: Source
    recipe: Recipe
    ranks: Ranks
    device: torch.device
    dtype: torch.dtype

    def linear(self, name: str) -> nn.Linear:
        """This rank's share of a matrix, pruned if that needs no calibration; not yet encoded."""
        weight = self.source.read(f"{name}.weight")
        bias = self.source.read(f"{name}.bias") if self.source.config.bias else None
        if self.recipe.prunes(name) and not self.recipe.statistic:
            weight = prune(self._placed(weight), self.recipe.target, self.recipe.method)
        weight, bias = cut(name.rpartition(".")[2], weight, bias, self.ranks)
        return linear_of(self._placed(weight), None if bias is None else self._placed(bias))

    def fill(self, module: nn.Module, name: str) -> None:
        """Read the parameters of `module`, which is whole on every rank."""
        for own, _ in list(module.named_parameters()):
            values = self._placed(self.source.read(f"{name}.{own}"))
            module.register_parameter(own, nn.Parameter(values, requires_grad=False))

    def _placed(self, values: Tensor) -> Tensor:
        """A copy, which keeps neither a file open nor the matrix that it was cut from."""
        values = values.to(self.device, self.dtype, copy=True)
        return values.contiguous()


def linear_of(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """The layer of those tensors, [M, K] and [M], without gradients."""
    M, K = weight.shape
    linear = nn.Linear(K, M, bias=bias is not None, device="meta").eval()
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return linear
