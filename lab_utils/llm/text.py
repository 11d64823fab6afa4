"""Text in and out where a checkpoint has a tokenizer; token ids where it has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from lab_utils.llm.optional import transformers

TOKENIZER = ("tokenizer*.json", "vocab.json", "merges.txt", "special_tokens_map.json",
             "added_tokens.json")  # fmt: skip


@dataclass(frozen=True)
class Text:
    """Turns prompts into token ids and back, by transformers' `tokenizer` if there is one."""

    tokenizer: Any = None

    @classmethod
    def of(cls, model: str) -> Self:
        """That of a checkpoint's folder; a model with random weights has none."""
        return cls(tokenizer_of(model))

    @property
    def stop(self) -> int | None:
        """The token that ends a text."""
        return None if self.tokenizer is None else self.tokenizer.eos_token_id

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids of each prompt; ValueError for text without a tokenizer, and for none."""
        if not prompts:
            raise ValueError("no prompt; allowed: text or token ids, as in --prompt 2,31414")
        if self.tokenizer is not None:
            return [list(self.tokenizer(prompt)["input_ids"]) for prompt in prompts]
        return [_ids(prompt) for prompt in prompts]

    def continued(self, prompt: Sequence[int], new: Sequence[int]) -> str:
        """A prompt and what follows, as text; without a tokenizer, the new ids."""
        if self.tokenizer is None:
            return ",".join(map(str, new))
        return self.tokenizer.decode([*prompt, *new], skip_special_tokens=True)

    def sequences(self, file: Path, count: int, length: int) -> Tensor:
        """The first `count` stretches of `length` tokens of a text, [count, length].

        Raises ValueError where there is no tokenizer, or the text is shorter.
        """
        if self.tokenizer is None:
            raise ValueError(f"{file} is text; it needs a checkpoint with a tokenizer")
        if count < 1 or length < 1:
            raise ValueError(f"sequences={count} of length={length}; allowed: 1 or more of each")
        ids = self.tokenizer(_text_of(file))["input_ids"]
        if len(ids) < count * length:
            raise ValueError(
                f"{file} has {len(ids)} tokens; sequences={count} of length={length} need "
                f"{count * length}"
            )
        return torch.tensor(ids[: count * length]).view(count, length)


def tokenizer_of(folder: str | Path) -> Any | None:
    """transformers' tokenizer of a checkpoint; None where the folder has none.

    Raises RuntimeError where transformers is not installed, ValueError for a damaged one.
    """
    if not tokenizer_files(folder):
        return None
    library = transformers()
    try:
        return library.AutoTokenizer.from_pretrained(folder)
    except ImportError as error:
        raise RuntimeError(f"{folder}: its tokenizer needs more packages: {error}") from error
    except Exception as error:  # transformers passes on whatever its parsers raise
        raise ValueError(
            f"{folder}: its tokenizer cannot be read: {type(error).__name__}: {error}"
        ) from error


def tokenizer_files(folder: str | Path) -> list[Path]:
    """The files of a tokenizer in a checkpoint's folder, if there are any."""
    return [file for pattern in TOKENIZER for file in sorted(Path(folder).glob(pattern))]


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{file} is no text in UTF-8: {error}") from error


def _ids(prompt: str) -> list[int]:
    try:
        return [int(part) for part in prompt.split(",")]
    except ValueError as error:
        raise ValueError(
            f"prompt={prompt!r:.60}: there is no tokenizer; allowed: token ids, commas between them"
        ) from error
