"""Reading what `saving` wrote: the folder is checked whole, then placed layer by layer."""

from pathlib import Path

import torch
from torch import Tensor, nn

from lab_utils.formats import FORMATS, check_variant, encode_variant, is_variant, storage
from lab_utils.llm.checkpoint.layout import FORMAT, TOP, VERSION, Index, expected, file_of
from lab_utils.llm.checkpoint.skeleton import (
    check_place,
    linear_of,
    own_copy,
    set_parameter,
    skeleton,
)
from lab_utils.llm.checks import DTYPES
from lab_utils.llm.config import OPTConfig, read_object
from lab_utils.llm.model import OPT
from lab_utils.llm.parallel import ALONE, Ranks, cut
from lab_utils.nn import SparseLinear


class Stored:
    """A folder that `saving.save` wrote: `config`, `dtype` and `origin` of its weights.

    Opening reads headers only. Raises ValueError where a file is missing, truncated, of another
    save or version, or does not hold the tensors of such a model.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        described = read_object(self.folder / "config.json")
        for key, mine in (("format", FORMAT), ("version", VERSION)):
            if (found := described.get(key)) != mine:
                raise ValueError(
                    f"{self.folder}/config.json: {key} is {found!r}; allowed: {mine!r}"
                )
        try:
            self.config, self.dtype = OPTConfig(**described["config"]), DTYPES[described["dtype"]]
            self.origin, self._id = described["weights"], described["id"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.folder}/config.json is damaged: {error!r}") from error
        self._index: Index = read_object(self.folder / "index.json")
        self._check_files(described)

    @property
    def formats(self) -> set[str]:
        """Those of the sparse matrices."""
        entries = [one for file in self._index.values() for one in file.values()]
        return {entry["format"] for entry in entries} - {None}

    def load(
        self,
        *,
        ranks: Ranks = ALONE,
        device: torch.device | str = "cpu",
        format: str | None = None,
    ) -> OPT:
        """The model, or the share of one of `ranks`, on `device`.

        Encodings are validated there. Shares are cut from the decoded matrix, one at a time, and
        encoded each for itself; so is the whole where `format` is not the one it was stored in.
        Raises ValueError for a damaged file, an unknown `format`, and a `device` that is not here.
        """
        check_place(device, self.dtype)
        if format is not None:
            check_variant(format)
        model = skeleton(self.config, self.origin, ranks, self.dtype)
        for name, values in self._read(TOP, device).items():
            set_parameter(model, name, values)
        for layer in model.layers:
            arrays = self._read(file_of(layer.index), device)
            for name, entry in self._index[file_of(layer.index)].items():
                own = {n: arrays.pop(n) for n in list(arrays) if n.startswith(f"{name}.")}
                own = {n.removeprefix(f"{name}."): values for n, values in own.items()}
                setattr(layer, name, self._matrix(name, entry, own, ranks, format))
            for name, values in arrays.items():  # the norms are left
                set_parameter(layer, name, values)
        return model

    def _matrix(
        self, name: str, entry: dict, own: dict[str, Tensor], ranks: Ranks, format: str | None
    ) -> nn.Module:
        bias = own.pop("bias", None)
        if entry["format"] is None:
            weight, bias = cut(name, own["weight"], bias, ranks)
            return linear_of(*(None if t is None else own_copy(t) for t in (weight, bias)))
        A = FORMATS[entry["format"]](tuple(entry["shape"]), self.dtype, own)
        if ranks.world > 1 or not (format is None or is_variant(A, format)):
            weight, bias = cut(name, A.decode(), bias, ranks)
            A = encode_variant(weight, format or A.variant)
        return SparseLinear(A, bias).eval()

    def _read(self, file: str, device: torch.device | str) -> dict[str, Tensor]:
        """The tensors of a file, none of which has changed since it was written, on `device`."""
        metadata, arrays = storage.read(self.folder / file)
        for name, values in arrays.items():
            if list(values.shape) != metadata["shape"][name]:
                raise ValueError(f"{self.folder / file}: {name} has shape {list(values.shape)}")
        return {name: values.to(device) for name, values in arrays.items()}

    def _check_files(self, described: dict) -> None:
        for file, tensors in expected(self.config, self._index).items():
            found = storage.read_metadata(self.folder / file)
            mine = {"id": self._id, "file": file, "matrices": self._index[file]}
            if any(found.get(key) != value for key, value in mine.items()):
                raise ValueError(f"{self.folder / file} belongs to another model, or another save")
            if file == TOP and (odd := [k for k in described if found.get(k) != described[k]]):
                raise ValueError(
                    f"{self.folder}/config.json: {odd[0]} is {described[odd[0]]!r:.300}; it was "
                    f"{found.get(odd[0])!r:.300} when {TOP} was written"
                )
            for name in tensors.keys() ^ found["shape"].keys():
                raise ValueError(f"{self.folder / file}: {name} is missing, or too much")
            for name, shape in tensors.items():
                if shape not in (None, found["shape"][name]):
                    raise ValueError(
                        f"{self.folder / file}: {name} is {found['shape'][name]}; allowed: {shape}"
                    )
