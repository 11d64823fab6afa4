"""What data/ knows: devices, models and the numbers that the papers state.

``devices()`` and ``models()`` return all of them by name, ``device(name)`` and ``model(name)`` one,
``published(name)`` one table as a DataFrame. Unknown names raise ValueError and list the allowed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True)
class Device:
    """One GPU: datasheet figures, their sources, and our own ceilings where we measured them.

    `peak_tflops` is the dense fp16/bf16 tensor-core rate with fp32 accumulation.
    """

    name: str
    title: str
    arch: str  # "sm_80"
    sms: int
    tensor_clock_mhz: int
    peak_tflops: float
    bandwidth_gb_s: float
    capacity_gb: float
    l2_mb: float
    sources: dict[str, str]
    measured: dict[str, Any] = field(default_factory=dict)
    cited: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_measured(self) -> "Device":
        """Return the same device with the measured peak and bandwidth in place of the datasheet's.

        Where only the bandwidth was measured, the peak stays, and the title says so. Raises
        ValueError where data/devices.yaml holds no measurement of it.
        """
        if not self.measured:
            raise ValueError(f"device {self.name!r} has no `measured` block in data/devices.yaml")
        what = "measured" if "peak_tflops" in self.measured else "bandwidth measured"
        return replace(
            self,
            title=f"{self.title}, {what} {self.measured['date']}",
            peak_tflops=self.measured.get("peak_tflops", self.peak_tflops),
            bandwidth_gb_s=self.measured["bandwidth_gb_s"],
        )

    def as_cited_by(self, paper: str) -> "Device":
        """Return the same device with the figures that `paper` calculates with (its ``cited``)."""
        block = dict(_pick(self.cited, paper, f"paper citing {self.name}"))
        where = block.pop("where")
        return replace(self, title=f"{self.title} ({paper}: {where})", **block)


@dataclass(frozen=True)
class Model:
    """Dimensions of one decoder-only transformer (data/models.yaml says what each means)."""

    name: str
    family: str  # "opt" or "llama"
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    max_positions: int
    norm_first: bool
    gated: bool
    tied: bool
    source: str
    embed: int = 0  # width of the token embedding; 0 stands for `hidden`

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def parameters(self) -> int:
        """Weights of all linear layers and embeddings; biases and norms are left out."""
        per_layer = sum(m * k for m, k in layer_shapes(self).values())
        embed = self.embed or self.hidden
        tables = self.vocab * embed * (1 if self.tied else 2)
        if self.family == "opt":  # learned positions, two of them reserved
            tables += (self.max_positions + 2) * self.hidden
        if embed != self.hidden:  # projections into and out of the residual stream
            tables += 2 * embed * self.hidden
        return self.layers * per_layer + tables


def layer_shapes(model: Model | str, gpus: int = 1) -> dict[str, tuple[int, int]]:
    """(M, K) of a layer's weight matrices on each of `gpus` tensor-parallel GPUs.

    OPT has qkv, out, fc1, fc2: M = 3H/g, H, 4H/g, H and K = H, H/g, H, 4H/g (Flash-LLM's
    FasterTransformer layers). Llama's qkv shrinks with its key/value heads, and gate and up are
    one matrix. Raises ValueError where heads or the feed-forward width do not divide by `gpus`.
    """
    m = model if isinstance(model, Model) else _pick(models(), model, "model")
    for what in ("heads", "kv_heads", "ffn"):
        if gpus < 1 or getattr(m, what) % gpus:
            raise ValueError(f"gpus={gpus} must divide {what}={getattr(m, what)} of {m.name}")
    qkv = (m.heads + 2 * m.kv_heads) * m.head_dim // gpus
    first, second = ("gate_up", "down") if m.gated else ("fc1", "fc2")
    return {
        "qkv": (qkv, m.hidden),
        "out": (m.hidden, m.hidden // gpus),
        first: ((2 if m.gated else 1) * m.ffn // gpus, m.hidden),
        second: (m.hidden, m.ffn // gpus),
    }


def opt_matrices() -> list[tuple[int, int]]:
    """(M, K) of the eight matrices that the means of table h200_peers run over.

    All four of an OPT-30B layer, and the feed-forward ones of OPT-66B and OPT-175B.
    """
    shapes = list(layer_shapes("OPT-30B").values())
    for name in ("OPT-66B", "OPT-175B"):
        shapes += [layer_shapes(name)["fc1"], layer_shapes(name)["fc2"]]
    return shapes


@cache
def devices() -> dict[str, Device]:
    """Return every device of data/devices.yaml, by name."""
    return {name: Device(name=name, **entry) for name, entry in _yaml("devices.yaml").items()}


@cache
def models() -> dict[str, Model]:
    """Return every model of data/models.yaml, by name."""
    entries = _yaml("models.yaml")["models"]
    return {name: Model(name=name, **entry) for name, entry in entries.items()}


def device(name: str) -> Device:
    """Return one device; ValueError lists the known names."""
    return _pick(devices(), name, "device")


def model(name: str, family: str | None = None) -> Model:
    """Return one model, of that family if one is named; ValueError lists the known names."""
    fitting = {one.name: one for one in models().values() if family in (None, one.family)}
    found = _pick(models(), name, "model", allowed=fitting)
    if found.name not in fitting:
        raise ValueError(f"model {name!r} is a {found.family}; allowed: {', '.join(fitting)}")
    return found


def published_names() -> list[str]:
    """Names of the tables under data/published, without ``.csv``."""
    return sorted(path.stem for path in (DATA / "published").glob("*.csv"))


def published(name: str) -> pd.DataFrame:
    """One table of published numbers; data/README.md describes the columns of each.

    Every table has `paper`, `table_or_figure`, `hardware` and `provenance`: "stated" (printed in
    the source), "derived" (computed from its equations) or "measured" (by us, on that hardware).
    """
    path = _pick({n: DATA / "published" / f"{n}.csv" for n in published_names()}, name, "table")
    return pd.read_csv(path, dtype={"format": str}, keep_default_na=False, na_values=[""])


def _pick(
    choices: dict[str, Any], name: str, what: str, allowed: Iterable[str] | None = None
) -> Any:
    """That of a name, whatever is upper case in it; else ValueError says which are `allowed`."""
    found = {known.lower(): one for known, one in choices.items()}
    if str(name).lower() not in found:
        named = ", ".join(choices if allowed is None else allowed) or "none"
        raise ValueError(f"{what} {name!r} is unknown; allowed: {named}")
    return found[str(name).lower()]


def _yaml(file: str) -> dict[str, Any]:
    path = DATA / file
    if not path.is_file():
        raise RuntimeError(f"{path} is missing; run from a clone installed with `pip install -e .`")
    return yaml.safe_load(path.read_text(encoding="utf-8"))
