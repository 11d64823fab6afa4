"""What every sparse format offers: encode, decode, validate, count its bytes, travel, be stored."""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
WEIGHT = None  # in SparseMatrix.ARRAYS: "the dtype of the weights"
INT32_MAX = 2**31 - 1


class SparseMatrix(ABC):
    """An encoded weight matrix A [M, K], fp16 or bf16: a handful of 1-D arrays and a shape.

    A weight is zero when its bits are +0; all other values (-0, NaN, infinities, subnormals)
    survive `encode` and `decode` bit for bit. Instances are made by `encode` or `load`; the
    constructor takes arrays that already are an encoding and validates them.

    Attributes: `shape` (M, K); `dtype` of the weights; `arrays`, the encoding, by name.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    ARRAYS: ClassVar[dict[str, torch.dtype | None]]

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, arrays: dict[str, Tensor]):
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = dtype
        self.arrays = dict(arrays)
        self._validated: tuple | None = None
        self.ensure_valid()

    # --- what a format defines -------------------------------------------------------------

    @classmethod
    @abstractmethod
    def encode(cls, dense: Tensor) -> Self:
        """Encode `dense` [M, K], fp16 or bf16, any strides, on the CPU.

        Raises ValueError for another dtype, rank or an empty shape, and where 32-bit offsets
        cannot hold the encoding.
        """

    @abstractmethod
    def decode(self) -> Tensor:
        """The dense matrix [M, K], bit for bit what was encoded."""

    @property
    @abstractmethod
    def nnz(self) -> int:
        """Number of stored non-zeros."""

    @classmethod
    @abstractmethod
    def expected_nbytes(cls, M: int, K: int, sparsity: float) -> float:
        """Bytes by the paper's formula, for a random mask of that sparsity (0 to 1)."""

    @abstractmethod
    def _lengths(self) -> dict[str, int | None]:
        """Number of elements each array must have; None where the encoding itself says."""

    @abstractmethod
    def _check(self) -> None:
        """Raise ValueError unless the contents of the arrays are a legal encoding."""

    # --- what all formats share ------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(iter(self.arrays.values())).device

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def sparsity(self) -> float:
        """Fraction of zeros in the [M, K] matrix."""
        return 1 - self.nnz / (self.shape[0] * self.shape[1])

    def validate(self) -> None:
        """Check every structural invariant; raises ValueError naming the first that is broken."""
        self._check_arrays()
        if self.device.type != "cpu":
            self.to("cpu")  # whose constructor validates
            return
        for name, expected in self._lengths().items():
            self.require(
                expected is None or self.arrays[name].numel() == expected,
                f"array {name!r} has {self.arrays[name].numel()} elements, needs {expected}",
            )
        self._check()

    def ensure_valid(self) -> None:
        """Validate, unless no array was replaced or written to since the last time.

        Cheap enough for every launch, so that a kernel never sees a corrupted encoding. (Writes
        through a NumPy view are invisible to torch: call `validate` after those.)
        """
        state = tuple((n, a.data_ptr(), a.numel(), a._version) for n, a in self.arrays.items())
        if state != self._validated:
            self.validate()
            self._validated = state

    def to(self, device: torch.device | str) -> Self:
        """The same encoding on another device (itself, if it is there already)."""
        if torch.device(device) == self.device:
            return self
        return self._like({name: array.to(device) for name, array in self.arrays.items()})

    def save(self, path: str | Path) -> None:
        """Write the encoding as safetensors, with format, version, shape, dtype and checksums."""
        path, arrays = Path(path), {n: a.cpu().contiguous() for n, a in self.arrays.items()}
        partial = path.with_name(path.name + ".partial")
        try:
            save_file(arrays, partial, metadata={"lscd": json.dumps(self._metadata(arrays))})
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote. Raises ValueError if the file is damaged or of another format."""
        metadata, arrays = _read(Path(path))
        for key, mine in (("format", cls.name), ("version", cls.version)):
            if metadata[key] != mine:
                raise ValueError(f"{path}: {key} is {metadata[key]!r}, this class reads {mine!r}")
        for name, array in arrays.items():
            if metadata["crc32"].get(name) != _crc32(array):
                raise ValueError(f"{path}: array {name!r} is damaged (checksum differs)")
        return cls(tuple(metadata["shape"]), DTYPES[metadata["dtype"]], arrays)

    def require(self, condition: bool, message: str) -> None:
        """Raise ValueError with the format's name and shape unless `condition` holds."""
        if not condition:
            M, K = self.shape
            raise ValueError(f"invalid {self.name} encoding of a {M}x{K} matrix: {message}")

    def __repr__(self) -> str:
        M, K = self.shape
        return (
            f"<{type(self).__name__} {M}x{K} {str(self.dtype).removeprefix('torch.')}, "
            f"{self.sparsity:.1%} zeros, {self.nbytes / 1e6:.2f} MB on {self.device}>"
        )

    def _like(self, arrays: dict[str, Tensor]) -> Self:
        return type(self)(self.shape, self.dtype, arrays)

    def _metadata(self, arrays: dict[str, Tensor]) -> dict:
        return {
            "format": self.name,
            "version": self.version,
            "shape": self.shape,
            "dtype": str(self.dtype).removeprefix("torch."),
            "crc32": {name: _crc32(array) for name, array in arrays.items()},
        }

    def _check_arrays(self) -> None:
        self.require(min(self.shape) >= 1, "M and K must be at least 1")
        self.require(self.dtype in DTYPES.values(), f"dtype {self.dtype}; allowed: fp16, bf16")
        self.require(
            self.arrays.keys() == self.ARRAYS.keys(),
            f"arrays {sorted(self.arrays)}, needs {sorted(self.ARRAYS)}",
        )
        for name, array in self.arrays.items():
            dtype = self.ARRAYS[name] or self.dtype
            self.require(
                array.dtype == dtype and array.ndim == 1 and array.is_contiguous(),
                f"array {name!r} must be 1-D, contiguous, {dtype}; it is {array.ndim}-D {array.dtype}",
            )
            self.require(
                array.device == self.device, f"array {name!r} is on {array.device}, not {self.device}"
            )


def check_dense(dense: Tensor) -> Tensor:
    """`dense` as a contiguous [M, K] CPU tensor of fp16 or bf16, or a ValueError saying why not."""
    if not isinstance(dense, Tensor):
        raise ValueError(f"dense is a {type(dense).__name__}; allowed: a torch.Tensor [M, K]")
    if dense.layout != torch.strided or dense.ndim != 2 or dense.numel() == 0:
        raise ValueError(
            f"dense has shape {tuple(dense.shape)}, layout {dense.layout}; "
            "allowed: a strided [M, K] with M, K >= 1"
        )
    if dense.dtype not in DTYPES.values():
        raise ValueError(f"dense is {dense.dtype}; allowed: torch.float16, torch.bfloat16")
    if dense.device.type != "cpu":
        raise ValueError(f"dense is on {dense.device}; the encoders run on the CPU: pass dense.cpu()")
    return dense.detach().contiguous()


def offsets_from_counts(counts: Tensor, what: str) -> Tensor:
    """Exclusive prefix sum of int `counts` [n] as int32 [n + 1].

    Raises ValueError, naming the size, where the total does not fit 32 bits.
    """
    offsets = torch.zeros(counts.numel() + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=offsets[1:])
    if (total := int(offsets[-1])) > INT32_MAX:
        raise ValueError(f"{what}: {total} do not fit 32-bit offsets (at most {INT32_MAX}); split A")
    return offsets.int()


def bits(array: Tensor) -> Tensor:
    """16-bit floats as int16, so that comparisons see bits and not values."""
    return array.view(torch.int16)


def _crc32(array: Tensor) -> int:
    return zlib.crc32(array.contiguous().view(torch.uint8).numpy())


def _read(path: Path) -> tuple[dict, dict[str, Tensor]]:
    """Metadata and arrays of a stored matrix; ValueError if the file is not one."""
    if not path.is_file():
        raise ValueError(f"path={str(path)!r}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})["lscd"])
            return metadata, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: not a stored sparse matrix, or truncated ({error})") from error


def stored_format(path: str | Path) -> str:
    """Name of the format of a stored matrix."""
    return _read(Path(path))[0]["format"]
