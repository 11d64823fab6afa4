"""Where dense weights are read from, and random ones of any size, for timing."""

import zlib
from typing import Protocol

import torch
from torch import Tensor

from lab_utils.llm.checkpoint.skeleton import check_place, shapes
from lab_utils.llm.config import OPTConfig

DEVIATION = 0.02  # of random weights, as OPT was initialised


class Source(Protocol):
    """Where dense weights come from; `origin` is what rows of results call them."""

    config: OPTConfig
    origin: str

    def read(self, name: str) -> Tensor:
        """The whole tensor of that name, of any float dtype, on any device."""


def check_source(source: Source) -> None:
    """Raise ValueError unless it is one."""
    if not (hasattr(source, "config") and hasattr(source, "read")):
        raise ValueError(f"source={source!r:.60}; allowed: HuggingFace(folder), Random(config)")


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
        check_place(device, dtype)
        self.config, self.seed = config, seed
        self._place, self._shapes = {"device": device, "dtype": dtype}, shapes(config)

    def read(self, name: str) -> Tensor:
        values = torch.empty(self._shapes[name], **self._place)
        if values.ndim == 1:
            return values.fill_(float(name.endswith("norm.weight")))
        generator = torch.Generator(values.device)
        generator.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
        return values.normal_(0, DEVIATION, generator=generator)
