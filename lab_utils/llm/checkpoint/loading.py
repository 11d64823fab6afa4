"""Models made of dense weights, matrix by matrix: read -> prune -> cut -> encode -> place.

Neither host nor device ever holds the dense model: of what is to be sparse, one matrix is dense at
a time, or one layer where pruning needs calibration.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab_utils.llm.checkpoint.build_pool import BuildPool
from lab_utils.llm.checkpoint.skeleton import (
    check_place,
    linear_of,
    own_copy,
    set_parameter,
    skeleton,
)
from lab_utils.llm.checkpoint.sources import Source, check_source
from lab_utils.llm.model import MATRICES, OPT, Layer
from lab_utils.llm.parallel import ALONE, Ranks, cut
from lab_utils.llm.pruning.calibration import Calibration
from lab_utils.llm.pruning.checks import check_finite
from lab_utils.llm.pruning.models import encode_layer, prune_layer, prune_model
from lab_utils.llm.pruning.recipe import Recipe, check_recipe


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
    recipe = Recipe() if recipe is None else recipe
    check_arguments(source, recipe, ranks, device, dtype, tokens)
    if recipe.statistic == "gradient":
        return prune_model(load(source, device=device, dtype=dtype), recipe, tokens)
    model = skeleton(source.config, source.origin, ranks, dtype)
    for _ in placed(model, source, recipe, device, tokens):
        pass
    return model


def check_arguments(
    source: Source,
    recipe: Recipe,
    ranks: Ranks,
    device: torch.device | str,
    dtype: torch.dtype,
    tokens: Tensor | None,
) -> None:
    """Raise ValueError unless `load` can do with these, as far as is known without the weights."""
    check_source(source)
    check_place(device, dtype)
    check_recipe(recipe)
    if not isinstance(ranks, Ranks):
        raise ValueError(f"ranks={ranks!r:.60}; allowed: Ranks(rank, world)")
    recipe.check(source.config, dtype, tokens, ranks)


def placed(
    model: OPT, source: Source, recipe: Recipe, device: torch.device | str, tokens: Tensor | None
) -> Iterator[Layer]:
    """Fill the skeleton `model`; yields each layer as soon as it is there, pruned and encoded."""
    reader = _Reader(source, recipe, model.ranks, torch.device(device), model.dtype)
    for name, module in model.named_children():
        if name != "layers":
            reader.fill(module, name)
    calibration = Calibration(model, tokens) if recipe.statistic else None
    pool = BuildPool(reader.device)
    for layer in model.layers:
        for name in ("attention_norm", "mlp_norm"):
            reader.fill(layer.get_submodule(name), layer.full_name(name))
        with pool.active():
            _make_matrices(layer, reader, calibration)
        pool.move_out(layer)
        yield layer


def _make_matrices(layer: Layer, reader: "_Reader", calibration: Calibration | None) -> None:
    """Those of one layer: read, pruned and encoded."""
    for name in MATRICES:
        linear = reader.linear(full := layer.full_name(name))
        setattr(layer, name, linear if calibration else reader.recipe.encoded(full, linear))
    if calibration:
        prune_layer(layer, reader.recipe, calibration)
        encode_layer(layer, reader.recipe)


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
            weight = self.recipe.pruned(name, own_copy(weight, self.device, self.dtype))
        weight, bias = cut(name.rpartition(".")[2], weight, bias, self.ranks)
        bias = None if bias is None else self._placed(f"{name}.bias", bias)
        return linear_of(self._placed(f"{name}.weight", weight), bias)

    def fill(self, module: nn.Module, name: str) -> None:
        """Read the parameters of `module`, which is whole on every rank."""
        for own, _ in list(module.named_parameters()):
            values = self.source.read(full := f"{name}.{own}")
            set_parameter(module, own, self._placed(full, values))

    def _placed(self, name: str, values: Tensor) -> Tensor:
        """Where and as the model has them: one that overflows would make all logits NaN."""
        mine = own_copy(values, self.device, self.dtype)
        check_finite(f"{name} in {str(self.dtype).removeprefix('torch.')}", mine)
        return mine
