"""What pruning needs to know of the data: calibration tokens go through a model layer by layer.

Each layer is pruned before the inputs of the next are computed, which therefore see what pruning
has done so far, as in SparseGPT and Wanda. Only one layer's statistics and one hidden state for
each sequence are held; a layer's four matrices are judged by the same forward pass.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from lab_utils.llm.model import OPT, Layer
from lab_utils.llm.residual import Residual

ACCUMULATE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # total and x [tokens, K], fp32
    "squares": lambda total, x: total.add_(x.square().sum(0)),
    "hessian": lambda total, x: total.addmm_(x.T, x),
}


class Calibration:
    """Calibration `tokens` [sequences, length] on their way through `model`, sequence by sequence.

    `states` are the inputs of the next layer. Its matrices are dense, and need to be there only
    when its turn comes (for gradients, all later layers too); the embeddings from the start.
    """

    def __init__(self, model: OPT, tokens: Tensor):
        self.model, self.tokens = model, tokens.to(model.device)
        places = torch.arange(tokens.shape[1], device=model.device)
        with torch.no_grad():
            self.states = [model.embed(row[None], places) for row in self.tokens]

    def statistics(self, layer: Layer, names: list[str], kind: str) -> dict[str, Tensor]:
        """By matrix, fp32: "squares" [K] or "hessian" [K, K] of the inputs, "gradient" [M, K]."""
        if kind == "gradient":
            return self._gradients(layer, names)
        totals = {name: _zeros(layer.get_submodule(name), kind) for name in names}
        with torch.no_grad(), _watched(layer, totals, ACCUMULATE[kind]):
            for x in self.states:
                layer(x)
        return totals

    def _gradients(self, layer: Layer, names: list[str]) -> dict[str, Tensor]:
        """∂L/∂W of the loss L of the next token; the root mean square over the sequences.

        Of their mean nothing would be left in a trained model. All layers from this one on must be
        there, and dense. In fp16 small gradients vanish: prune in fp32 or bf16.
        """
        weights = [layer.get_submodule(name).weight.requires_grad_() for name in names]
        totals = [torch.zeros_like(weight, dtype=torch.float32) for weight in weights]
        for x, row in zip(self.states, self.tokens, strict=True):
            with torch.enable_grad():
                for later in self.model.layers[layer.index :]:
                    x = later(x)
                normed = self.model.normed(Residual(x))
                logits = self.model.logits(normed)[0, :-1].float()  # [length - 1, vocab]
                gradients = torch.autograd.grad(F.cross_entropy(logits, row[1:]), weights)
            for total, gradient in zip(totals, gradients, strict=True):
                total += gradient.float().square() / len(self.tokens)
        return {name: total.sqrt_() for name, total in zip(names, totals, strict=True)}

    def advance(self, layer: Layer) -> None:
        """Move on: the states become the outputs of `layer`."""
        with torch.no_grad():
            self.states = [layer(x) for x in self.states]


def _zeros(linear: nn.Linear, kind: str) -> Tensor:
    K = linear.in_features
    shape = (K,) if kind == "squares" else (K, K)
    return torch.zeros(shape, dtype=torch.float32, device=linear.weight.device)


@contextmanager
def _watched(layer: Layer, totals: dict[str, Tensor], add: Callable) -> Iterator[None]:
    """While inside, what goes into each matrix is added to its total."""

    def watch(linear: nn.Linear, total: Tensor) -> RemovableHandle:
        def note(_: nn.Module, inputs: tuple[Tensor]) -> None:
            add(total, inputs[0].reshape(-1, linear.in_features).float())

        return linear.register_forward_pre_hook(note)

    handles = [watch(layer.get_submodule(name), total) for name, total in totals.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
