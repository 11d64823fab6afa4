"""Pruning, encoding and decoding the matrices of layers and models in memory, in place."""

from torch import Tensor, nn

from lab_utils.llm.model import MATRICES, OPT, Layer, check_model, matrix_names
from lab_utils.llm.pruning.calibration import Calibration
from lab_utils.llm.pruning.checks import check_weight
from lab_utils.llm.pruning.recipe import Recipe, check_recipe
from lab_utils.nn import SparseLinear


def prune_layer(layer: Layer, recipe: Recipe, calibration: Calibration | None = None) -> None:
    """Prune the dense matrices of `layer` in place, and move the calibration on to the next."""
    names = [name for name in MATRICES if recipe.prunes(layer.full_name(name))]
    found = calibration.statistics(layer, names, recipe.statistic) if calibration else {}
    for name in names:
        linear = layer.get_submodule(name)
        pruned = recipe.pruned(layer.full_name(name), linear.weight.detach(), found.get(name))
        linear.weight = nn.Parameter(pruned, requires_grad=False)
    if calibration:
        calibration.advance(layer)


def encode_layer(layer: Layer, recipe: Recipe) -> None:
    """Replace the matrices of `layer` that are to be sparse, one at a time."""
    for name in MATRICES:
        linear = layer.get_submodule(name)
        setattr(layer, name, recipe.encoded(layer.full_name(name), linear))


def prune_model(model: OPT, recipe: Recipe, tokens: Tensor | None = None) -> OPT:
    """Prune and encode, in place, a `model` whose matrices are all dense; returns it.

    Raises ValueError, before anything is changed, where the recipe does not fit the model, its
    method needs `tokens` [sequences, length] that are missing, the model is cut into ranks, or a
    matrix is already encoded.
    """
    check_recipe(recipe)
    check_model(model)
    recipe.check(model.config, model.dtype, tokens, model.ranks)
    model.check_whole()
    for name in matrix_names(model.config):
        if type(found := model.get_submodule(name)) is not nn.Linear:
            raise ValueError(f"{name} is {found}; allowed: torch.nn.Linear")
        if recipe.statistic:  # which one NaN would spoil for every matrix
            check_weight(found.weight, name)
    calibration = Calibration(model, tokens) if recipe.statistic else None
    for layer in model.layers:
        if recipe.target is not None:
            prune_layer(layer, recipe, calibration)
        encode_layer(layer, recipe)
    return model


def decoded(model: OPT) -> OPT:
    """`model` with a `torch.nn.Linear` in place of every sparse matrix, one after the other."""
    for layer in model.layers:
        for name in MATRICES:
            if isinstance(matrix := layer.get_submodule(name), SparseLinear):
                setattr(layer, name, matrix.to_linear().requires_grad_(False))
    return model
