"""A launch of a GPU kernel, as backends cuda and emulator make it."""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from lab_utils import build
from lab_utils.backends.problem import Problem

ALIGN = 8  # elements: 16-byte loads of B
ALIGN_BYTES = 2 * ALIGN
SCRATCH_ALIGN = 512  # bytes, as torch's own allocations

# Makes the array that a kernel reads of one of an encoding: itself, or a copy where it must stand.
Place = Callable[[Tensor], Tensor]


def unmoved(array: Tensor) -> Tensor:
    """A `Place`: where it is."""
    return array


class Epilogue(NamedTuple):
    """What a kernel does to sums before it rounds them: adds `bias` [M], then takes max(…, 0)."""

    bias: Tensor | None = None
    relu: bool = False


NO_EPILOGUE = Epilogue()  # sums are rounded, and nothing else


class Selection(NamedTuple):
    """What a kernel needs of the tensor core beyond its documentation, and the test of it."""

    instruction: str
    launcher: str
    probes: int  # results: 0 where the instruction selects as the kernel needs it
    documented: bool = False  # whether `layout_of` knows a kernel that does without


@dataclass
class Launch:
    """The function to call, the size of its scratch memory, and what must live until then."""

    call: tuple[str | int, ...]
    problem: Problem
    sums: tuple[int, ...]  # words of 4 bytes: partial sums, of some kernels flags as well
    arrays: dict[str, Tensor] = field(default_factory=dict)
    more: dict[str, tuple[int, ...]] = field(default_factory=dict)  # other words of 4 bytes

    def set_epilogue(self, epilogue: Epilogue, place: Place = unmoved) -> None:
        """Set the fields of a kernel that has one; others have none, and take NO_EPILOGUE alone."""
        if epilogue is NO_EPILOGUE:
            return
        if not hasattr(self.problem, "relu"):
            raise RuntimeError(f"{self.call[0]} only rounds its sums; allowed: NO_EPILOGUE")
        self.problem.relu = int(epilogue.relu)
        if epilogue.bias is not None:
            self.arrays["bias"] = place(epilogue.bias.contiguous())
            self.problem.bias = self.arrays["bias"].data_ptr()

    def copy(self) -> "Launch":
        """One to fill in, for a call: others may be made of this one at the same time."""
        problem = type(self.problem).from_buffer_copy(self.problem)
        return Launch(self.call, problem, self.sums, arrays=self.arrays.copy(), more=self.more)

    def scratch_in_one(self) -> tuple[dict[str, int], int]:
        """Where each begins in one stretch of that memory, in bytes, and the bytes of all.

        For GPUs, where to ask for memory takes time; the emulator asks for each by `scratch`, whose
        ends it then knows.
        """
        begins, end = {}, 0
        for name, shape in self._scratch_shapes().items():
            begins[name], end = end, end + -(-4 * math.prod(shape) // SCRATCH_ALIGN) * SCRATCH_ALIGN
        return begins, end

    def scratch(self, new: Callable[[tuple[int, ...]], Tensor]) -> dict[str, Tensor]:
        """Memory that kernels write and read again, each made by `new`; its addresses are set."""
        arrays = {name: new(shape) for name, shape in self._scratch_shapes().items()}
        for name, array in arrays.items():
            setattr(self.problem, name, array.data_ptr())
        return arrays

    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"partial": self.sums, **self.more}


def pitch_in_place(B: Tensor, block: int = 1) -> int | None:
    """Elements from one column of B [K, N] to the next, where kernels can read it as it lies.

    So they can where columns are contiguous, on 16 bytes, one behind the other: activations are.
    `block`: of how many rows of B the kernel reads all, so that K must be a multiple of it.
    """
    (K, N), (within, pitch) = B.shape, B.stride()
    if N == 1:  # its pitch may be any
        pitch = K
    lies_so = within == 1 and pitch >= K and pitch % ALIGN == 0 and B.data_ptr() % ALIGN_BYTES == 0
    return pitch if lies_so and K % block == 0 else None


def aligned_columns(B: Tensor, block: int = 1) -> tuple[Tensor, int]:
    """Memory that begins with B's first column, on 16 bytes, and the elements from it to the next.

    B itself where it lies so, else a copy, whose columns are as long as whole blocks are, zeros
    behind K.
    """
    if (pitch := pitch_in_place(B, block)) is not None:
        return B, pitch
    K, N = B.shape
    padded = B.new_zeros(N, whole_blocks(K, block))
    padded[:, :K] = B.T
    return padded, padded.stride(0)


def whole_blocks(K: int, block: int) -> int:
    """Rows of B with zeros behind its own: whole blocks, and 16 bytes of each column."""
    multiple = math.lcm(ALIGN, block)
    return -(-K // multiple) * multiple


def copies(B: Tensor, block: int = 1) -> dict[str, str]:
    """What a plan says of operands that are copied around the kernel; nothing where none is."""
    if pitch_in_place(B, block) is not None:
        return {}
    result = ", and C behind it" * (B.shape[1] > 1 and B.stride(0) != 1)
    why = "its columns are not contiguous on 16 bytes, as those of xᵀ are"
    if pitch_in_place(B) is not None:
        why = f"it has {B.shape[0]} rows, of which the kernel reads whole blocks of {block}"
    return {"copies": f"B before the kernel{result}: {why}"}


def call(library: str, function: str, *arguments: object, defines: tuple[str, ...] = ()) -> None:
    """Call a launcher of a compiled library, which returns a cudaError_t.

    Raises RuntimeError with its name where it is one.
    """
    check_launched(library, function, getattr(build.load(library, defines), function)(*arguments))


def check_launched(library: str, function: str, error: int) -> None:
    """Raise RuntimeError with the name of what a launcher returned, where it is an error."""
    if error:
        name = build.load(library).lscd_cuda_error
        name.restype = ctypes.c_char_p
        raise RuntimeError(f"{function} failed: {name(error).decode()}")
