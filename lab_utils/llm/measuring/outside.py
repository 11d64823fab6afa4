"""An outside check of the dense baseline: transformers' own generation with its static cache."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from lab_utils.llm.checks import SHORT
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.measuring.clocks import seconds_of
from lab_utils.llm.measuring.device_memory import out_of_memory_named, peak_bytes, reset_peak
from lab_utils.llm.measuring.energy import Energy, Hear
from lab_utils.llm.measuring.generations import random_tokens, row
from lab_utils.llm.measuring.parts import NO_PARTS
from lab_utils.llm.optional import transformers
from lab_utils.llm.parallel import ALONE
from lab_utils.llm.prompts import Prompts

FORMAT = "transformers"  # what rows call it


class Transformers:
    """A model of transformers on one device: a checkpoint's, or of `config` with random weights.

    Raises RuntimeError where transformers is not installed.
    """

    def __init__(
        self,
        config: OPTConfig,
        folder: Path | None = None,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float16,
    ):
        library, self.config, self.device = transformers(), config, torch.device(device)
        self.origin = "random" if folder is None else "checkpoint"
        with self.device, out_of_memory_named(FORMAT, {"model": config.name}):
            if folder is None:
                described = library.OPTConfig(**config.as_hugging_face())
                model = library.AutoModelForCausalLM.from_config(described, dtype=dtype)
            else:
                model = library.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        self.model = model.to(self.device).eval()

    def measure(
        self,
        batch: int,
        prompt: int = 64,
        output: int = 512,
        *,
        repeats: int = 1,
        energy: Hear | None = None,
        tell: Callable[[str], object] = str,
    ) -> dict:
        """A row of `opt` as `generations.measure` makes them, without a breakdown.

        `energy` and `tell` are those of that function, as is what is raised.
        """
        tokens = random_tokens(self.config, batch, prompt)
        tokens = Prompts.of(tokens, self.config, output, self.device).tokens
        case = {"batch": batch, "prompt": prompt, "output": output}
        meters = Energy(self.device, energy)
        with out_of_memory_named(f"{FORMAT}, {self.config.name}", case):
            reset_peak(self.device)
            self.generate(tokens, output)
            run = partial(self.generate, tokens, output)
            with meters.watched:
                seconds = seconds_of(run, self.device, repeats, ALONE)
            peak = peak_bytes(self.device)
        own = {"format": FORMAT, "sparsity": 0.0, "weights": self.origin,
               "dtype": SHORT[self.model.dtype]}  # fmt: skip
        found = row(self.config, self.device, case, seconds, [peak]) | own | NO_PARTS
        meters.told(found, tell)
        return found

    @torch.no_grad()  # inference mode and the library's own torch.compile are no friends
    def generate(self, tokens: torch.Tensor, output: int) -> torch.Tensor:
        """New tokens [batch, output], greedy, for `tokens` [batch, prompt]."""
        found = self.model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=output,
            min_new_tokens=output,
            do_sample=False,
            cache_implementation="static",
            pad_token_id=0,
        )
        return found[:, tokens.shape[1] :]
