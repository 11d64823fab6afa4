"""What every sparse format offers: encode, decode, validate, count its bytes, travel, be stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.analysis.checked import is_integer
from lab_utils.analysis.compression import format_bytes
from lab_utils.formats import checks, native, storage
from lab_utils.formats.checks import DTYPES, array_problem, tracked
from lab_utils.formats.named import key_of
from lab_utils.formats.validated import Validated

WEIGHT = None  # in SparseMatrix.ARRAYS: "the dtype of the weights"


class SparseMatrix(ABC):
    """An encoded weight matrix A [M, K], fp16 or bf16: a handful of 1-D arrays and a shape.

    A weight is zero when its bits are +0; all other values (-0, NaN, infinities, subnormals)
    survive `encode` and `decode` bit for bit. Instances are made by `encode` or `load`; the
    constructor takes arrays that already are an encoding and validates them.

    Attributes: `shape` (M, K); `dtype` of the weights; `arrays`, the encoding, by name;
    `constants`, numbers in the arrays that a launch needs on the host. They are read when the
    arrays are checked, so that no launch waits for the GPU, and CUDA graphs can capture it.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    LEAST_SPARSITY: ClassVar[float] = 0.0  # of matrices that fit
    ROW_BLOCK: ClassVar[int] = 1  # rows that are encoded together
    WRITES_ZEROS: ClassVar[bool] = False  # whether `_unpack` does, on a GPU
    ARRAYS: ClassVar[dict[str, torch.dtype | None]]
    key: str | None = None  # in graphs of torch.compile; once the arrays have been validated

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, arrays: dict[str, Tensor]):
        self.shape = checks.checked_shape(shape)
        self.dtype = dtype
        self.arrays = {name: tracked(array) for name, array in arrays.items()}
        self.validated: Validated | None = None
        self.ensure_valid()

    # --- what a format defines -------------------------------------------------------------

    @classmethod
    @abstractmethod
    def encode(cls, dense: Tensor) -> Self:
        """Encode `dense` [M, K], fp16 or bf16, any strides, on its device: the CPU or a GPU.

        Both give the same bytes. Raises ValueError for another device, dtype, rank or an empty
        shape, and where 32-bit offsets cannot hold the encoding.
        """

    @abstractmethod
    def _unpack(self, dense: Tensor, first: int) -> None:
        """Write the non-zeros of the rows from `first` on into `dense` [rows, K].

        It holds zeros, but on a GPU with WRITES_ZEROS; its rows are as `decode_rows` takes them.
        """

    @abstractmethod
    def _lengths(self) -> dict[str, int | None]:
        """Number of elements each array must have; None where the encoding itself says."""

    @abstractmethod
    def _check(self) -> None:
        """Raise ValueError unless the contents of the arrays are a legal encoding."""

    # --- what all formats share ------------------------------------------------------------

    def decode(self, out: Tensor | None = None) -> Tensor:
        """The dense matrix [M, K], bit for bit what was encoded, on the device of the arrays.

        `out`: where to write it, contiguous, as it would be made, in memory of its own. Raises
        ValueError otherwise.
        """
        self.ensure_valid()
        place = {"dtype": self.dtype, "device": self.device}
        dense = torch.empty(self.shape, **place) if out is None else out
        checks.require_output(dense, self.shape, self.dtype, self.arrays.values())
        self._unpack(self._cleared(dense), 0)
        return dense

    def decode_rows(self, first: int, out: Tensor) -> Tensor:
        """Rows `first` to `first + len(out)` of the dense matrix, into `out` [rows, K], contiguous.

        Raises ValueError unless they are whole blocks of ROW_BLOCK rows, but for A's last ones.
        """
        self.ensure_valid()
        checks.require_matrix(out)
        (M, K), rows = self.shape, len(out)
        start = int(first) if is_integer(first) else -1
        whole = rows % self.ROW_BLOCK == 0 or start + rows == M
        if not (start >= 0 and start % self.ROW_BLOCK == 0 and 0 < rows <= M - start and whole):
            raise ValueError(
                f"first={first!r:.60}, {rows} rows of {M}; allowed: multiples of {self.ROW_BLOCK} "
                "inside of A, but for its last rows"
            )
        checks.require_output(out, (rows, K), self.dtype, self.arrays.values())
        self._unpack(self._cleared(out), start)
        return out

    def _cleared(self, out: Tensor) -> Tensor:
        return out if out.is_cuda and self.WRITES_ZEROS else out.zero_()

    @classmethod
    def expected_nbytes(cls, M: int, K: int, sparsity: float) -> float:
        """Bytes by the paper's formula, for a random mask of that sparsity (0 to 1)."""
        return float(format_bytes(cls.name, M, K, sparsity))

    @classmethod
    def of_valid(
        cls,
        shape: tuple[int, int],
        dtype: torch.dtype,
        arrays: dict[str, Tensor],
        constants: Sequence[int] | None = None,
    ) -> Self:
        """The constructor without its checks, for arrays (and constants) of a valid encoding.

        Such are those that an encoder has just written: checking them would read them again.
        """
        matrix = cls.__new__(cls)
        matrix.shape, matrix.dtype = shape, dtype
        matrix.arrays = {name: tracked(array) for name, array in arrays.items()}
        matrix._mark_valid(constants)
        return matrix

    def _read_constants(self) -> tuple[int, ...]:
        return ()

    @property
    def device(self) -> torch.device:
        first = next(iter(self.arrays.values()), None)
        if not isinstance(first, Tensor):
            self._check_arrays()  # says what is wrong
        return first.device

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def nnz(self) -> int:
        """Number of non-zeros."""
        weights = [self.arrays[name] for name, dtype in self.ARRAYS.items() if dtype is WEIGHT]
        return sum(int(torch.count_nonzero(bits(array))) for array in weights)

    @property
    def variant(self) -> str:
        """The format's name, or that of the variant that `encode` would not choose by itself."""
        return self.name

    def option(self, name: str) -> object:
        """What `encode` would have been given, by that name, to make this encoding."""
        return getattr(self, name)

    @property
    def sparsity(self) -> float:
        """Fraction of zeros in the [M, K] matrix."""
        return 1 - self.nnz / (self.shape[0] * self.shape[1])

    def validate(self) -> None:
        """Check every structural invariant; raises ValueError naming the first that is broken."""
        self._check_arrays()
        for name, expected in self._lengths().items():
            self.require(
                expected is None or self.arrays[name].numel() == expected,
                f"array {name!r} has {self.arrays[name].numel()} elements, needs {expected}",
            )
        self._check()

    def ensure_valid(self) -> None:
        """Validate, unless shape, dtype and every array are as they were the last time.

        Cheap enough for every launch, so that a kernel never sees a corrupted encoding. (Writes
        into a NumPy view or `.data` are invisible to torch: call `validate` after those.)
        """
        if self.as_validated() is None:
            self.validate()
            self._mark_valid()

    def as_validated(self) -> Validated | None:
        """What was validated last, if shape, dtype and every array are as they were; else None."""
        seen = self.validated
        return seen if seen is not None and seen.holds(self) else None

    def to(self, device: torch.device | str) -> Self:
        """The same encoding on another device (itself, if it is there already).

        Raises ValueError for anything else than a device: the dtype is that of the encoding.
        """
        place = checks.checked_device(device)
        self.ensure_valid()
        moved = {name: array.to(place) for name, array in self.arrays.items()}
        if all(moved[name] is array for name, array in self.arrays.items()):
            return self
        return self.of_valid(self.shape, self.dtype, moved, self.constants)

    def clone(self) -> Self:
        """The same encoding in memory of its own."""
        self.ensure_valid()
        copies = {name: array.clone() for name, array in self.arrays.items()}
        return self.of_valid(self.shape, self.dtype, copies, self.constants)

    def save(self, path: str | Path) -> None:
        """Write the encoding as safetensors, with format, version, shape, dtype and checksums.

        Raises ValueError where `path` is not that of a file or the arrays are on meta, RuntimeError
        where it cannot be written; an older file then stays as it was.
        """
        self.ensure_valid()
        if self.device.type == "meta":
            raise ValueError(f"A is on {self.device}, so it has no values; allowed: cpu, cuda")
        metadata = {
            "format": self.name,
            "version": self.version,
            "shape": self.shape,
            "dtype": _dtype_name(self.dtype),
        }
        storage.write(path, metadata, {n: a.cpu() for n, a in self.arrays.items()})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote. Raises ValueError if the file is damaged or of another format."""
        metadata, arrays = storage.read(path)
        for key, mine in (("format", cls.name), ("version", cls.version)):
            if metadata[key] != mine:
                raise ValueError(f"{path}: {key} is {metadata[key]!r}, this class reads {mine!r}")
        if metadata["dtype"] not in [*DTYPES]:
            raise ValueError(f"{path}: dtype is {metadata['dtype']!r}; allowed: {list(DTYPES)}")
        shape = checks.checked_shape(metadata["shape"], f"{path}: ")
        return cls(shape, DTYPES[metadata["dtype"]], arrays)

    def require(self, condition: bool, message: str) -> None:
        """Raise ValueError with the format's name and shape unless `condition` holds."""
        if not condition:
            M, K = self.shape
            raise ValueError(f"invalid {self.name} encoding of a {M}x{K} matrix: {message}")

    def __repr__(self) -> str:
        M, K = self.shape
        zeros = "no values" if self.device.type == "meta" else f"{self.sparsity:.1%} zeros"
        what = f"{type(self).__name__} {M}x{K} {_dtype_name(self.dtype)}"
        return f"<{what}, {zeros}, {self.nbytes / 1e6:.2f} MB on {self.device}>"

    def __getstate__(self) -> dict:
        return {n: one for n, one in vars(self).items() if n not in ("validated", "key")}

    def __setstate__(self, state: dict) -> None:
        # A copy is checked anew: nobody has seen its arrays, whatever addresses they come to.
        vars(self).update(state, validated=None)
        vars(self).pop("_validated", None)  # of older versions
        self.arrays.update({name: tracked(array) for name, array in self.arrays.items()})

    # --- inside ----------------------------------------------------------------------------

    def _mark_valid(self, constants: Sequence[int] | None = None) -> None:
        validated = Validated(self)
        self.constants = self._read_constants() if constants is None else tuple(constants)
        self.key = self.key or key_of(self)
        self.validated = validated  # not before: other threads launch then

    def _scan(self, unit: str, problems: dict[int, str], function: str, *arguments) -> None:
        """Run a compiled check; raises ValueError naming the `unit` (row, tile) and the problem."""
        found = native.first(function, *arguments)
        if found is not None:
            self.require(False, f"{unit} {found // 16} {problems[found % 16]}")

    def _check_arrays(self) -> None:
        self.require(min(self.shape) >= 1, "M and K must be at least 1")
        self.require(self.dtype in DTYPES.values(), f"dtype {self.dtype}; allowed: fp16, bf16")
        self.require(
            self.arrays.keys() == self.ARRAYS.keys(),
            f"arrays {sorted(self.arrays)}, needs {sorted(self.ARRAYS)}",
        )
        first = next(iter(self.arrays.values()))
        for name, array in self.arrays.items():
            problem = array_problem(array, self.ARRAYS[name] or self.dtype, first)
            self.require(problem is None, f"array {name!r} {problem}")


def bits(array: Tensor) -> Tensor:
    """16-bit floats as int16, so that comparisons see bits and not values."""
    return array.view(torch.int16)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
