"""Prompts, checked, as one tensor: those of different lengths are filled up on the left."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lab_utils.llm.checks import check_count
from lab_utils.llm.config import OPTConfig

FILLER = 0  # any token: what stands before a prompt's start is masked
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class Prompts:
    """`tokens` [batch, longest], int64; `starts` [batch], the column of each one's first token."""

    tokens: Tensor
    starts: Tensor

    @classmethod
    def of(
        cls,
        tokens: Tensor | Sequence[Sequence[int]],
        config: OPTConfig,
        max_new: int,
        device: torch.device | str = "cpu",
    ) -> Self:
        """Prompts of equal length as a tensor [batch, prompt], or of any lengths as lists.

        Raises ValueError for no prompt, an empty one, token ids outside the vocabulary, a `max_new`
        that is no integer from 1 on, and more tokens, those further ones included, than the model
        has positions.
        """
        check_count("max_new", max_new, 1)
        rows = tokens.cpu() if isinstance(tokens, Tensor) else _rows(tokens)
        lengths = _lengths(rows)
        if max(lengths) + max_new > config.max_positions:
            raise ValueError(
                f"max_new={max_new} after a prompt of {max(lengths)} tokens; allowed: "
                f"{config.max_positions} positions of {config.name} together"
            )
        starts = torch.tensor([max(lengths) - length for length in lengths])
        filled = torch.full((len(lengths), max(lengths)), FILLER)
        for row, tokens_of_it, start in zip(filled, rows, starts.tolist(), strict=True):
            row[start:] = tokens_of_it
        _check_ids(filled, config)
        return cls(filled.to(device), starts.to(device))

    @property
    def ragged(self) -> bool:
        """Whether the prompts differ in length."""
        return bool(self.starts.any())


def _rows(tokens: Sequence[Sequence[int]]) -> list[Tensor]:
    try:
        return [torch.tensor(list(prompt)) for prompt in tokens]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"tokens is {tokens!r:.60}; allowed: a tensor [batch, prompt] or lists of token ids"
        ) from error


def _lengths(rows: Tensor | list[Tensor]) -> list[int]:
    """The number of tokens of each prompt, once it is clear that there are some."""
    if isinstance(rows, Tensor) and rows.ndim != 2:
        raise ValueError(f"tokens has shape {tuple(rows.shape)}; allowed: [batch, prompt]")
    if len(rows) == 0:
        raise ValueError("tokens has batch 0; allowed: 1 or more prompts")
    for index, row in enumerate(rows):
        if len(row) == 0:
            raise ValueError(f"prompt {index} is empty; allowed: 1 or more tokens")
        if row.ndim != 1 or row.dtype not in INTEGERS:
            raise ValueError(f"prompt {index} is {row.dtype} {list(row.shape)}; allowed: integers")
    return [len(row) for row in rows]


def _check_ids(tokens: Tensor, config: OPTConfig) -> None:
    outside = (tokens < 0) | (tokens >= config.vocab)
    if outside.any():
        raise ValueError(
            f"token id {int(tokens[outside][0])}; allowed: 0 to {config.vocab - 1}, the vocabulary "
            f"of {config.name}"
        )
