"""What a layer takes in eager mode: Python calls it, again and again, and launches its kernels.

`lab bench` times kernels that a graph launches. A model that is not captured makes Python check,
plan and launch each product, and where that takes longer than the kernel, the GPU waits for it.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from lab_utils.baselines import Baseline, Operand
from lab_utils.bench import cuda, graphs
from lab_utils.bench.cases import Case, check_repeats
from lab_utils.bench.measuring import checked_device
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures, spread
from lab_utils.bench.tables import text_table, times
from lab_utils.formats import encode_variant
from lab_utils.machine import stamp
from lab_utils.nn import SparseLinear
from lab_utils.results import rounded
from lab_utils.streams import timed

DENSE = "dense"  # in the place of a format: torch's own layer
CALLS = 100  # in a row; with three launches each, CUDA does not make Python wait for room


class LayerOperand(Operand):
    """A layer as an operand like those of the baselines."""

    def __init__(self, layer: nn.Module, dense: Tensor):
        super().__init__(dict(layer.named_parameters()) | dict(layer.named_buffers()), dense)
        self.layer = layer

    def clone(self) -> Self:
        return LayerOperand(copy.deepcopy(self.layer), self._dense)


class Layer(Baseline):
    """`torch.nn.Linear`, or `SparseLinear` of a format, behind the calls of a baseline."""

    def __init__(self, format: str):
        self.format, self.dense, self.name = format, format == DENSE, f"{format} layer"
        self._ours = None if self.dense else cuda.Ours(format)

    def problem(self, W: Tensor, N: int) -> str | None:
        return self._ours and self._ours.problem(W, N)

    def prepare(self, W: Tensor) -> LayerOperand:
        if self._ours:
            return LayerOperand(SparseLinear(encode_variant(W, self.format)), W)
        (M, K), place = W.shape, {"device": W.device, "dtype": W.dtype}
        linear = nn.utils.skip_init(nn.Linear, K, M, bias=False, **place)
        linear.weight = nn.Parameter(W, requires_grad=False)
        return LayerOperand(linear, W)

    def bind(self, operand: LayerOperand, B: Tensor) -> Callable[[], Tensor]:
        return lambda: operand.layer(B.T).T


@dataclass
class Calls:
    """Calls in a row, of each layer in turn, with nobody waiting for the GPU in between."""

    functions: Sequence[Callable[[], Tensor]]
    times_us: list[float] = field(default_factory=list)  # of a call, its kernels included
    host_us: list[float] = field(default_factory=list)  # until Python has it back

    def warm(self) -> None:
        """The first calls load kernels, plan, and ask for memory."""
        for function in self.functions:
            function()

    def next(self) -> None:
        """Time one more row of calls."""
        row = islice(cycle(self.functions), CALLS)
        host, whole = timed(row, torch.device("cuda"))
        self.host_us.append(1e6 * host / CALLS)
        self.times_us.append(1e6 * whole / CALLS)


def measure_eager(
    case: Case,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cuda",
    repeats: int = 15,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of `results.COLUMNS["eager"]`: `SparseLinear` of each format, beside `nn.Linear`.

    For `bench.sweep`; takes what `measure` does. Each layer is checked, then called without a bias
    in inference mode, in turns with the others; `graph_us` is what a call takes in a CUDA graph.
    Raises AssertionError where a layer is wrong in any element (unless `leave_out` takes it),
    ValueError for an unknown format, RuntimeError where there is no GPU, and where the dense layer
    was left out.
    """
    device = check(formats, device)
    check_repeats(repeats)
    weights = weights_of(case, seed, device, weights)
    layers = [Layer(format) for format in dict.fromkeys([DENSE, *formats])]
    with cuda.on_stream(device):
        right = list(cuda.checked(case, weights, layers, leave_out))
        if not any(one.dense for one in right):
            raise RuntimeError(f"{case}: no dense layer was measured; rows need dense_us")
        with torch.inference_mode():
            calls = [Calls(_calls_of(one, weights, case.N)) for one in right]
            _time_in_turns(calls, repeats)
            pool = torch.cuda.graph_pool_handle()
            replays = [cuda.replays_of(case, one, repeats, pool) for one in right]
            graphs.time_in_turns(replays)
    return _rows(case, device, list(zip(right, calls, replays, strict=True)))


def check(formats: Sequence[str], device: torch.device | str = "cuda") -> torch.device:
    """The device; ValueError unless layers of these can be measured on it, which is a GPU."""
    if torch.device(device).type != "cuda":
        raise ValueError(f"device={str(device)!r}; allowed: cuda; a CPU has nothing to launch")
    cuda.check(formats, None, ())
    return checked_device(device)


def eager_summary(rows: pd.DataFrame) -> str:
    """Rows of `eager` as a table for a terminal, the fastest layer first in each case."""
    rows = rows.sort_values(["M", "K", "sparsity", "N", "time_us"], kind="stable")
    columns = {
        "N": rows.N,
        "layer": rows.format,
        **times(rows),
        "Python": rows.host_us.map("{:.0f}".format),
        "in a graph": rows.graph_us.map("{:.0f}".format),
        "speed-up": (rows.dense_us / rows.time_us).map("{:.2f}".format),
        "of graphs": (rows.dense_graph_us / rows.graph_us).map("{:.2f}".format),
    }
    return text_table(rows, columns, ", in eager mode")


def _calls_of(one: cuda.Contender, weights: Weights, N: int) -> list[Callable[[], Tensor]]:
    """As a model calls layers: of its copies, on activations [N, K]."""
    x = weights.columns(N).T
    copies = weights.copies(one.way.name, one.way.prepare, len(one.functions))
    return [lambda layer=each.layer: layer(x) for each in copies[: len(one.functions)]]


def _time_in_turns(calls: Sequence[Calls], repeats: int) -> None:
    for one in calls:
        one.warm()
    for _ in range(repeats):
        for one in calls:
            one.next()


def _rows(case: Case, device: torch.device, found: Sequence[tuple]) -> list[dict]:
    """Rows of one case."""
    numbers = [
        (one, spread(calls.times_us) | _medians(host_us=calls.host_us, graph_us=replays.times_us))
        for one, calls, replays in found
    ]
    dense = next(its for one, its in numbers if one.dense)
    best = {"dense_us": dense["time_us"], "dense_graph_us": dense["graph_us"]}
    common = stamp(device) | vars(case)
    return [
        common
        | {"format": one.way.format, "encoded_bytes": one.encoded_bytes}
        | rounded(its | {"relative_error": one.relative_error} | best)
        for one, its in numbers
    ]


def _medians(**times_us: Sequence[float]) -> dict[str, float]:
    return {name: float(np.median(each)) for name, each in times_us.items()}
