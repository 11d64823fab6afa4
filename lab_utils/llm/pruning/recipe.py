"""What happens to each matrix of a model between being read and being placed: prune, encode."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab_utils.analysis.memory import no_matrix
from lab_utils.analysis.variants import variant_of
from lab_utils.formats import check_variant
from lab_utils.formats.checks import DTYPES
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.model import matrix_names
from lab_utils.llm.parallel import Ranks
from lab_utils.llm.pruning.masks import Target
from lab_utils.llm.pruning.methods import method_of, prune
from lab_utils.nn import SparseLinear


@dataclass(frozen=True)
class Recipe:
    """Prune to `target` by `method`, and encode in `format`; None leaves either out.

    `format` names a format or a variant of one (`analysis.variants`). It may also be a function of
    the matrix's name, such as "layers.3.fc1", that returns such a name or None. Matrices of which
    `dense(name)` is true are neither pruned nor encoded.
    Raises ValueError for an unknown method or format, and for arguments of another kind.
    """

    format: str | Callable[[str], str | None] | None = None
    target: Target | None = None
    method: str = "magnitude"
    dense: Callable[[str], bool] = no_matrix

    def __post_init__(self) -> None:
        method_of(self.method)
        if not (self.format is None or _is_function(self.format)):
            check_variant(self.format)
        if not isinstance(self.target, Target | None):
            raise ValueError(f"target={self.target!r:.60}; allowed: None, or Target(sparsity)")
        if not _is_function(self.dense):
            raise ValueError(f"dense={self.dense!r:.60}; allowed: a function of a matrix's name")

    def prunes(self, name: str) -> bool:
        return self.target is not None and not self.dense(name)

    def format_of(self, name: str) -> str | None:
        """The format of that matrix; None for a dense one."""
        if self.dense(name):
            return None
        return self.format(name) if callable(self.format) else self.format

    @property
    def statistic(self) -> str:
        """What calibration has to gather for `method`; "" for nothing."""
        return method_of(self.method).statistic if self.target is not None else ""

    def pruned(self, name: str, weight: Tensor, statistic: Tensor | None = None) -> Tensor:
        """That `weight` [M, K] with the zeros of the target; what is wrong with it is named."""
        try:
            return prune(weight, self.target, self.method, statistic)
        except (ValueError, RuntimeError) as error:
            raise type(error)(f"{name}: {error}") from error

    def encoded(self, name: str, linear: nn.Linear) -> nn.Module:
        """That layer, or its sparse form if it is to have one; what is wrong with it is named."""
        if (chosen := self.format_of(name)) is None:
            return linear
        format, options = variant_of(chosen)
        try:
            return SparseLinear.from_linear(linear, format, **options)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def check(
        self, config: OPTConfig, dtype: torch.dtype, tokens: Tensor | None, ranks: Ranks
    ) -> None:
        """Raise ValueError for what would fail only in the middle of a model."""
        chosen = [self.format_of(name) for name in matrix_names(config)]
        for format in chosen:
            if format is not None:
                check_variant(format)
        formats = set(chosen) - {None}
        if formats and dtype not in DTYPES.values():
            raise ValueError(f"dtype={dtype}; allowed for {', '.join(formats)}: float16, bfloat16")
        if self.target is not None:
            for K in (config.hidden, config.ffn):
                self.target.group(K)
            if "2:4" in formats and not self.target.holds(2, 4):
                raise ValueError(
                    f"within={self.target.within!r} may leave more than two of four neighbours; "
                    "allowed for format='2:4': within='2:4', or fewer"
                )
        self._check_calibration(config, tokens, ranks)

    def _check_calibration(self, config: OPTConfig, tokens: Tensor | None, ranks: Ranks) -> None:
        if not self.statistic:
            if tokens is not None:
                raise ValueError(f"tokens are given, but method={self.method!r} needs none")
            return
        if ranks.world > 1:
            raise ValueError(
                f"method={self.method!r} on world={ranks.world} ranks; allowed: one rank, which "
                "saves the pruned model for all"
            )
        check_tokens(config, tokens, self.method)


def check_recipe(recipe: Recipe) -> None:
    """Raise ValueError unless it is one."""
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe={recipe!r:.60}; allowed: Recipe(format, target, …)")


def check_tokens(config: OPTConfig, tokens: Tensor | None, method: str) -> None:
    """Raise ValueError unless `tokens` are integers [sequences, length] that the model knows."""
    if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.numel() == 0:
        found = tuple(tokens.shape) if isinstance(tokens, Tensor) else tokens
        raise ValueError(f"tokens={found!r:.60}; {method} needs a tensor [sequences, length]")
    if tokens.is_floating_point() or tokens.min() < 0 or tokens.max() >= config.vocab:
        found = f"{tokens.dtype} from {tokens.min()} to {tokens.max()}"
        raise ValueError(f"tokens are {found}; allowed: integers from 0 to {config.vocab - 1}")
    if not 2 <= (length := tokens.shape[1]) <= config.max_positions:
        raise ValueError(f"tokens have length {length}; allowed: 2 to {config.max_positions}")


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type)  # as a format's class would be
