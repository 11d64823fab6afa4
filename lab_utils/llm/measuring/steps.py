"""Steps of other people's models: blocks of transformers whose linear layers `sparsify` replaced.

A model of transformers has its own code between the products, in eager mode Python's, which
torch.compile takes out of the way. So a step tells what sparse layers are worth to whoever takes
them without our decoder: of Llama as of OPT, as Python calls it and compiled for CUDA graphs.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType

import numpy as np
import torch
from torch import Tensor, nn

from lab_utils import catalog
from lab_utils.analysis.variants import variant_of
from lab_utils.formats.checks import DTYPES
from lab_utils.llm.checks import SHORT, check_count
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.measuring.products import ROUNDINGS, check_multiplied, relative_error
from lab_utils.llm.optional import transformers
from lab_utils.machine import stamp
from lab_utils.nn import sparsify
from lab_utils.results import rounded
from lab_utils.streams import timed

DENSE = "dense"
CALLED = ("by Python", "compiled")
IN_A_ROW = 4  # steps that nobody waits for in between
VOCABULARY = 1024  # of embeddings that are looked up, of which a step reads a few rows


@dataclass(frozen=True)
class Blocks:
    """The first `blocks` of a model of data/models.yaml, with random weights, some of them zero.

    A step is one token of each of `batch` sequences, without a cache and without the head.
    """

    model: str
    blocks: int = 4
    sparsity: float = 0.8
    batch: int = 8

    def __post_init__(self) -> None:
        check_count("blocks", self.blocks, 1, catalog.model(self.model).layers)
        check_count("batch", self.batch, 1)
        if not 0 <= self.sparsity <= 1:
            raise ValueError(f"sparsity={self.sparsity!r}; allowed: 0 to 1")

    def dense(self, device: torch.device, dtype: torch.dtype) -> nn.Module:
        """The blocks, as transformers has them."""
        library, gpus = transformers(), [device] if device.type == "cuda" else []
        with torch.random.fork_rng(gpus), device:
            torch.manual_seed(0)
            model = library.AutoModel.from_config(self._config(library), dtype=dtype).eval()
            for linear in filter(lambda one: type(one) is nn.Linear, model.modules()):
                zero = torch.rand(linear.weight.shape) < self.sparsity
                linear.weight.data.masked_fill_(zero, 0)
        return model

    def _config(self, library: object) -> object:
        one = catalog.model(self.model)
        if one.family == "opt":
            sizes = OPTConfig.of(self.model).as_hugging_face() | {"vocab_size": VOCABULARY}
            return library.OPTConfig(**sizes | {"num_hidden_layers": self.blocks})
        return library.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=one.hidden, intermediate_size=one.ffn,
            num_hidden_layers=self.blocks, num_attention_heads=one.heads,
            num_key_value_heads=one.kv_heads,
        )  # fmt: skip


@dataclass
class Steps:
    """Steps of one model, called in one way, and how long they took."""

    format: str
    called: str
    step: Callable[[], Tensor]
    device: torch.device
    nbytes: int
    error: float = 0.0
    times_ms: list[float] = field(default_factory=list)
    host_ms: list[float] = field(default_factory=list)

    def next(self) -> None:
        """Time some more."""
        host, whole = timed([self.step] * IN_A_ROW, self.device)
        self.host_ms.append(1e3 * host / IN_A_ROW)
        self.times_ms.append(1e3 * whole / IN_A_ROW)


def measure_steps(
    blocks: Blocks,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cuda",
    dtype: torch.dtype = torch.float16,
    repeats: int = 25,
    tell: Callable[[str], object] = str,
) -> list[dict]:
    """Rows of `steps`: dense layers and those of each format, in turns, called in both ways.

    A model whose last hidden states are others than those of dense layers raises RuntimeError.
    Raises ValueError for a format without products on the device, RuntimeError where transformers
    is not installed. `tell` hears what begins.
    """
    device = torch.device(device)
    check_count("repeats", repeats, 1)
    if dtype not in DTYPES.values():
        raise ValueError(f"dtype={dtype}; allowed: {', '.join(map(str, DTYPES.values()))}")
    for format in formats:
        check_multiplied(format, device)
    ids = torch.randint(VOCABULARY, (blocks.batch, 1), device=device)
    rows = []
    with torch.no_grad():
        models = _models(blocks, formats, device, dtype)
        for called in CALLED:
            tell(f"{blocks.model}, {blocks.blocks} blocks, {called}")
            steps = [_steps(format, called, model, ids) for format, model in models.items()]
            _check(steps, dtype)
            for _ in range(repeats):
                for one in steps:
                    one.next()
            rows += _rows(blocks, steps, device, dtype)
    return rows


def step_lines(rows: Sequence[dict]) -> str:
    """Rows of one model for a terminal."""
    head = f"{rows[0]['model']}, {rows[0]['blocks']} blocks, {rows[0]['sparsity']:.0%} zeros, "
    lines = [head + f"batch {rows[0]['batch']}, {rows[0]['dtype']}, on {rows[0]['device']}"]
    for row in rows:
        lines.append(
            f"  {row['called']:9}  {row['format']:18} {row['time_ms']:8.3f} ms, of which the host "
            f"{row['host_ms']:.3f}: {row['dense_ms'] / row['time_ms']:.2f} times as fast as dense"
        )
    return "\n".join(lines)


def _models(
    blocks: Blocks, formats: Sequence[str], device: torch.device, dtype: torch.dtype
) -> dict[str, nn.Module]:
    dense = blocks.dense(device, dtype)
    models = {DENSE: dense}
    for format in dict.fromkeys(formats):
        models[format] = copy.deepcopy(dense)
        one = variant_of(format)
        sparsify(models[format], one.format, select=lambda *_: True, **one.options)
    return models


def _steps(format: str, called: str, model: nn.Module, ids: Tensor) -> Steps:
    def step() -> Tensor:
        return model(input_ids=ids, use_cache=False).last_hidden_state

    if called == "compiled":
        mode = "reduce-overhead" if ids.is_cuda else "default"
        step = torch.compile(_with_own_code(step), fullgraph=True, mode=mode)
    held = [*model.parameters(), *model.buffers()]
    return Steps(format, called, step, ids.device, sum(one.nbytes for one in held))


def _with_own_code(function: FunctionType) -> FunctionType:
    """So that torch looks through the graphs of this one alone, and not of others like it."""
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, closure=function.__closure__)


def _check(steps: Sequence[Steps], dtype: torch.dtype) -> None:
    """The first calls, which compile; RuntimeError where a model says something else than dense."""
    right: Tensor | None = None
    for one in steps:
        one.step()
        states = one.step().float().clone()  # the next call may have its memory
        right = states if right is None else right
        one.error = relative_error(states, right)
        if not one.error <= (limit := ROUNDINGS * torch.finfo(dtype).eps):  # nor NaN
            raise RuntimeError(
                f"{one.format}, {one.called}: hidden states are wrong by {one.error:.1e} of those "
                f"with dense layers; allowed: {limit:.1e}"
            )


def _rows(
    blocks: Blocks, steps: Sequence[Steps], device: torch.device, dtype: torch.dtype
) -> Iterator[dict]:
    dense = next(float(np.median(one.times_ms)) for one in steps if one.format == DENSE)
    common = stamp(device) | vars(blocks) | {"dtype": SHORT[dtype]}
    for one in steps:
        p10, median, p90 = map(float, np.percentile(one.times_ms, [10, 50, 90]))
        numbers = {
            "relative_error": one.error, "time_ms": median, "p10_ms": p10, "p90_ms": p90,
            "host_ms": float(np.median(one.host_ms)), "dense_ms": dense,
        }  # fmt: skip
        told = {"format": one.format, "called": one.called, "model_bytes": one.nbytes}
        yield common | told | rounded(numbers)
