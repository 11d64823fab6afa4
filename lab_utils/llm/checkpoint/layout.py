"""What the folder of a stored model holds: its files, and the tensors in each.

    config.json               sizes by our names, dtype, where the weights came from, an id
    index.json                by file and matrix: format (null: dense), its version, shape [M, K]
    model.safetensors         embeddings, final norm, head
    layer-00000.safetensors   "qkv.words" … the arrays of each encoding, biases and norms

The safetensors files are those of `formats.storage`, every byte under a checksum; each repeats its
name, its part of the index and the id, so that neither files nor saves mix, and that of the model
all of config.json.
"""

from typing import Any

from lab_utils.formats import FORMATS
from lab_utils.llm.checkpoint.skeleton import shapes
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.model import MATRICES, Layer
from lab_utils.nn import SparseLinear

FORMAT, VERSION = "opt", 2
TOP = "model.safetensors"

Index = dict[str, dict[str, dict[str, Any]]]  # file, matrix, its entry
Tensors = dict[str, list[int] | None]  # shapes by name; None where only the encoding knows


def file_of(layer: int) -> str:
    return f"layer-{layer:05}.safetensors"


def entries_of(layer: Layer) -> dict[str, dict[str, Any]]:
    """The index of a layer: what the arrays of its matrices do not say themselves."""
    found = {}
    for name in MATRICES:
        module = layer.get_submodule(name)
        A = module.weight
        sparse = isinstance(module, SparseLinear)
        how = {"format": A.name, "version": A.version} if sparse else {"format": None}
        found[name] = {**how, "shape": list(A.shape)}
    return found


def expected(config: OPTConfig, index: Index) -> dict[str, Tensors]:
    """The tensors that each file has to hold. Raises ValueError for an index of another model."""
    files: dict[str, Tensors] = {file: {} for file in (TOP, *map(file_of, range(config.layers)))}
    if index.keys() != files.keys():
        wrong = sorted(index.keys() ^ files.keys())
        raise ValueError(f"index.json: {wrong[0]} is missing, or too much")
    if odd := [file for file, entries in index.items() if not isinstance(entries, dict)]:
        raise ValueError(f"index.json: {odd[0]} is {index[odd[0]]!r:.60}; allowed: an object")
    for name, shape in shapes(config).items():
        _, number, inside = name.split(".", 2) if name.startswith("layers.") else ("", "", name)
        file = file_of(int(number)) if number else TOP
        matrix, _, kind = inside.partition(".")
        if number and matrix in MATRICES and kind == "weight":
            files[file] |= _arrays(f"{file}: {matrix}", matrix, index[file].get(matrix), shape)
        else:
            files[file][inside] = list(shape)
    return files


def _arrays(where: str, matrix: str, entry: dict[str, Any] | None, shape: tuple) -> Tensors:
    """What is stored of a matrix: its weight, or the arrays of its encoding."""
    if not isinstance(entry, dict) or entry.get("shape") != list(shape):
        raise ValueError(f"{where} is {entry} in index.json; allowed: shape {list(shape)}")
    if (format := entry.get("format")) is None:
        return {f"{matrix}.weight": list(shape)}
    if format not in list(FORMATS) or entry.get("version") != FORMATS[format].version:
        allowed = ", ".join(f"{name} {cls.version}" for name, cls in FORMATS.items())
        raise ValueError(f"{where}: format {format} {entry.get('version')}; allowed: {allowed}")
    return {f"{matrix}.{array}": None for array in FORMATS[format].ARRAYS}
