"""OPT checkpoints as Hugging Face stores them: opened and checked whole, read tensor by tensor.

A folder holds config.json and either model.safetensors, its shards with
model.safetensors.index.json, or the older pytorch_model.bin and its shards. Opening reads headers
only; weights stay in the files, mapped into memory, until `read` asks for one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from lab_utils.llm.checkpoint.skeleton import shapes
from lab_utils.llm.checks import DTYPES
from lab_utils.llm.config import OPTConfig

FILES = ("model.safetensors", "pytorch_model.bin")  # each may come as shards and an index
OF_MODEL = {  # our modules: theirs; others have the same name
    "embedding": "embed_tokens",
    "positions": "embed_positions",
    "final_norm": "final_layer_norm",
    "head": "lm_head",
}
OF_LAYER = {
    "attention_norm": "self_attn_layer_norm",
    "out": "self_attn.out_proj",
    "mlp_norm": "final_layer_norm",
}
SUPERFLUOUS = {"version"}  # left behind by older converters


class HuggingFace:
    """The dense weights of an OPT checkpoint in `folder`, by the names that `llm.OPT` has for them.

    Opening checks everything that can be checked without reading weights. Raises ValueError for
    another architecture, a missing or damaged file or index, and for tensors that are missing,
    unknown, of another shape or no floats. `config` is the model's.
    """

    origin = "checkpoint"

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.config = OPTConfig.from_folder(folder)
        self._tensors = _open_all(self.folder)
        self._check()

    def read(self, name: str) -> Tensor:
        """The tensor of that name, such as "layers.3.qkv.weight" [3H, H], in the file's dtype.

        It lies on the host, and but for qkv is a window into the file, of which nothing is read
        before it is used.
        """
        parts = [self._tensors[one].to("cpu") for one in theirs(name)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _check(self) -> None:
        found, wanted = self._tensors, {}
        for name, (rows, *columns) in shapes(self.config).items():
            parts = theirs(name)
            wanted |= dict.fromkeys(parts, (rows // len(parts), *columns))
        spare = SUPERFLUOUS | ({"lm_head.weight"} if self.config.tied else set())
        _refuse(self.folder, "has no", [name for name in wanted if name not in found])
        _refuse(self.folder, "has unknown", sorted(found.keys() - wanted.keys() - spare))
        for name, shape in wanted.items():
            if found[name].shape != shape or found[name].dtype not in DTYPES.values():
                raise ValueError(
                    f"{self.folder}: {name} is {found[name].dtype} {tuple(found[name].shape)}; "
                    f"allowed: {shape} of {', '.join(DTYPES)}"
                )


def theirs(name: str) -> list[str]:
    """Hugging Face's names, without "model.decoder.", of our tensor: of q, k, v for qkv."""
    *where, module, kind = name.split(".")  # layers, 3, qkv, weight
    if module == "qkv":
        modules = [f"self_attn.{one}_proj" for one in "qkv"]
    else:
        modules = [(OF_LAYER if where else OF_MODEL).get(module, module)]
    return [".".join((*where, one, kind)) for one in modules]


class Lazy:
    """A tensor in a safetensors file: its shape and dtype are known, its data is opened by `to`."""

    def __init__(self, file: Any, name: str):
        self._file, self._name = file, name
        header = file.get_slice(name)
        self.shape = torch.Size(header.get_shape())
        self.dtype = header[:0].dtype if self.shape else None

    def to(self, device: torch.device | str) -> Tensor:
        return self._file.get_tensor(self._name).to(device)


def _open_all(folder: Path) -> dict[str, Lazy | Tensor]:
    """Every tensor of the folder, unread, by its name without "model." and "decoder."."""
    for name in FILES:
        if (index := folder / f"{name}.index.json").is_file():
            return _open_shards(folder, index)
        if (folder / name).is_file():
            return _short(_open(folder / name))
    allowed = ", ".join(f"{name}, {name}.index.json" for name in FILES)
    raise ValueError(f"folder={str(folder)!r} holds no weights; allowed: {allowed}")


def _open_shards(folder: Path, index: Path) -> dict[str, Lazy | Tensor]:
    try:
        places: dict[str, str] = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        files = sorted({Path(file).name for file in places.values()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{index} is no index of shards: {error!r}") from error
    _refuse(folder, "has no shard", [file for file in files if not (folder / file).is_file()])
    shards = {file: _open(folder / file) for file in files}
    absent = [name for name, file in places.items() if name not in shards[Path(file).name]]
    _refuse(folder, "has, against its index, no", absent)
    return _short({name: shards[Path(file).name][name] for name, file in places.items()})


def _open(file: Path) -> dict[str, Lazy | Tensor]:
    """The tensors of one file; data of a truncated file are missed here, not when they are read."""
    try:
        if file.suffix == ".safetensors":
            opened = safe_open(file, framework="pt")
            return {name: Lazy(opened, name) for name in opened.keys()}  # noqa: SIM118
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # pickles that are cut or flipped raise whatever they lead to
        raise ValueError(
            f"{file} is damaged or no checkpoint: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(state, Mapping) or not all(map(_is_entry, state.items())):
        raise ValueError(f"{file} holds no state of a model; allowed: strided tensors by name")
    return dict(state)


def _is_entry(item: tuple[Any, Any]) -> bool:
    name, tensor = item
    return isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout == torch.strided


def _short(tensors: dict[str, Lazy | Tensor]) -> dict[str, Lazy | Tensor]:
    return {n.removeprefix("model.").removeprefix("decoder."): t for n, t in tensors.items()}


def _refuse(folder: Path, what: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ValueError(f"{folder} {what} {', '.join(names[:3])}{more}")
