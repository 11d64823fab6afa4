"""Writing models with sparse matrices: a folder with a file for each layer (see `layout`).

The folder appears, under its name, when all of it is written. No file is larger than a layer or
the embeddings.
"""

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from lab_utils.formats import storage
from lab_utils.llm.checkpoint.layout import FORMAT, TOP, VERSION, Index, entries_of, file_of
from lab_utils.llm.checkpoint.loading import check_arguments, load, placed
from lab_utils.llm.checkpoint.skeleton import skeleton
from lab_utils.llm.checkpoint.sources import Source
from lab_utils.llm.model import OPT, Layer
from lab_utils.llm.parallel import ALONE
from lab_utils.llm.pruning.recipe import Recipe


def save(model: OPT, folder: str | Path) -> None:
    """Write `model`, dense and sparse matrices alike, into the new `folder`.

    Raises ValueError where `folder` exists or the model is one of several ranks' shares, and
    RuntimeError where it cannot be written; nothing of it then remains.
    """
    _write(model, Path(folder), model.layers)


def convert(
    source: Source,
    folder: str | Path,
    recipe: Recipe,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float16,
    tokens: Tensor | None = None,
    beside: Iterable[Path] = (),
) -> None:
    """Write the model that `loading.load` would make of `source`, without ever holding it.

    Each layer is written and forgotten as soon as it is pruned and encoded (first-order Taylor
    holds the model, as there). `beside`: files, such as those of a tokenizer, of which the folder
    gets copies. Other arguments as of `load`, errors as of `load` and `save`.
    """
    _check_new(Path(folder))
    check_arguments(source, recipe, ALONE, device, dtype, tokens)
    model = skeleton(source.config, source.origin, ALONE, dtype)
    if recipe.statistic == "gradient":
        layers = _held(model, source, recipe, device, tokens)
    else:
        layers = _forgotten(model, placed(model, source, recipe, device, tokens))
    _write(model, Path(folder), layers, beside)


def _held(
    model: OPT, source: Source, recipe: Recipe, device: torch.device | str, tokens: Tensor | None
) -> Iterator[Layer]:
    """The layers of a model that has to be there whole; none is made before one is asked for."""
    whole = load(source, recipe, device=device, dtype=model.dtype, tokens=tokens)
    for name, module in whole.named_children():
        setattr(model, name, module)
    yield from model.layers


def _forgotten(model: OPT, layers: Iterable[Layer]) -> Iterator[Layer]:
    for layer in layers:
        yield layer
        model.layers[layer.index] = Layer(model.config, layer.index, device="meta")


def _write(model: OPT, folder: Path, layers: Iterable[Layer], beside: Iterable[Path] = ()) -> None:
    model.check_whole()
    common = {"format": FORMAT, "version": VERSION, "id": uuid.uuid4().hex}
    common |= {"dtype": str(model.dtype).removeprefix("torch.")}
    described = {**common, "weights": model.weights_origin, "config": asdict(model.config)}
    index: Index = {TOP: {}}
    with _new(folder) as partial:
        for file in beside:
            _copy(file, partial)
        for layer in layers:  # which may fill in the rest of the model before the first of them
            file = file_of(layer.index)
            index[file] = entries_of(layer)
            found = {**common, "file": file, "matrices": index[file]}
            _write_file(partial / file, layer.state_dict(), found)
        top = {n: t for n, t in model.state_dict().items() if not n.startswith("layers.")}
        _write_file(partial / TOP, top, {**described, "file": TOP, "matrices": {}})
        for name, content in (("config.json", described), ("index.json", index)):
            (partial / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _write_file(path: Path, state: dict[str, Tensor], metadata: dict) -> None:
    arrays = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in state.items()
        if not name.endswith("_extra_state")  # version, M, K: the index has them
    }
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    storage.write(path, {**metadata, "shape": shapes}, arrays)


def _copy(file: Path, folder: Path) -> None:
    try:
        shutil.copy(file, folder)
    except OSError as error:
        raise OSError(error.errno, f"{file}: {error.strerror or error}") from error


@contextmanager
def _new(folder: Path) -> Iterator[Path]:
    """A folder under another name, which becomes `folder` at the end, or is removed."""
    _check_new(folder)
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(folder)
    except OSError as error:
        raise RuntimeError(f"cannot write folder={str(folder)!r}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_new(folder: Path) -> None:
    if not folder.name or folder.exists():
        raise ValueError(f"folder={str(folder)!r} exists; allowed: the name of a new folder")
