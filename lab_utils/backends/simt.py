"""A library of emulated kernels: launching in it, and reading what its machine counted."""

import ctypes
import functools
import re
import shutil
import threading
from pathlib import Path

import torch
from torch import Tensor

from lab_utils import toolchains
from lab_utils.analysis import kernel_trace as traces
from lab_utils.analysis.kernel_trace import Counts, KernelTrace, Place, Request

COUNTS = tuple(Counts.__dataclass_fields__)
LAST_BLOCK = 2**63 - 1  # what an int64 holds
ALIGN, GAP = 512, 1 << 16  # bytes: as CUDA aligns arrays; between any two of them


class KernelFault(RuntimeError):
    """A kernel did what a GPU need not forgive: a race, an access out of bounds, a lost barrier."""


class _Array(ctypes.Structure):
    """An array of global memory (`Array` of kernels/emulator/machine/machine.h)."""

    __slots__ = ()
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_int64),
        ("writable", ctypes.c_int32),
        ("awaited", ctypes.c_int32),
    )


class _Site(ctypes.Structure):
    """`Site`, as what follows, of kernels/emulator/machine/request.h."""

    __slots__ = ()
    _fields_ = (("file", ctypes.c_char_p), ("line", ctypes.c_int32))


class _Span(ctypes.Structure):
    __slots__ = ()
    _fields_ = (("at", ctypes.c_int64), ("bytes", ctypes.c_int64))


class _Counts(ctypes.Structure):
    __slots__ = ()
    _fields_ = tuple((field, ctypes.c_int64) for field in COUNTS)


class _Line(ctypes.Structure):
    __slots__ = ()
    _fields_ = (
        ("operation", ctypes.c_int32),
        ("site", _Site),
        ("launch", ctypes.c_int32),
        ("counts", _Counts),
    )


class _Request(ctypes.Structure):
    __slots__ = ()
    _fields_ = (
        ("line", _Line),
        *((field, ctypes.c_int32) for field in ("block", "warp", "pending")),
        ("lanes", ctypes.c_uint32),
        ("shared", _Span * 32),
        ("touched", _Span * 32),
    )


class Machine:
    """The machine of one library of emulated kernels; it runs one launcher at a time."""

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        self.busy = threading.Lock()
        library.lscd_emulator_reset.argtypes = (
            ctypes.POINTER(_Array), ctypes.c_int32, ctypes.c_int32, ctypes.c_int64,
        )  # fmt: skip
        library.lscd_emulator_reset.restype = None
        library.lscd_emulator_fault.restype = ctypes.c_char_p
        for function in ("kernels", "carveouts", "lines", "requests"):
            getattr(library, f"lscd_emulator_{function}").restype = ctypes.c_int64

    def run(
        self,
        launcher: str,
        *arguments: object,
        read: dict[str, Tensor],
        written: dict[str, Tensor],
        watch: int | None = None,
        awaited: tuple[str, ...] = (),
    ) -> KernelTrace:
        """Call a launcher, which returns a cudaError_t, with these arrays as its global memory.

        A kernel that may begin before the one before it has ended must wait for that before it
        touches what is written, or what `awaited` names: that kernel's results.

        `watch` is the number of the block (x fastest) whose every request the trace keeps. Raises
        KernelFault where a kernel goes wrong, RuntimeError where the launch does, ValueError for a
        `watch` that is no number of a block.
        """
        if watch is not None and not 0 <= watch <= LAST_BLOCK:
            allowed = f"None, or the number of a block, from 0 to {LAST_BLOCK}"
            raise ValueError(f"watch={watch}: allowed: {allowed}")
        arrays = [_array(*item, False, item[0] in awaited) for item in read.items()]
        arrays += [_array(*item, True, True) for item in written.items()]
        with self.busy:
            self.library.lscd_emulator_reset(
                (_Array * len(arrays))(*arrays), len(arrays), torch.get_num_threads(),
                -1 if watch is None else watch,
            )  # fmt: skip
            if error := getattr(self.library, launcher)(*arguments):
                self._fail(launcher, error)
            return self._trace(arrays)

    def _fail(self, launcher: str, error: int) -> None:
        if fault := self.library.lscd_emulator_fault().decode():
            raise KernelFault(f"{self._kernels()[-1]}: {fault}")
        raise RuntimeError(f"{launcher} failed with cudaError_t {error}, in the emulator")

    def _trace(self, arrays: list[_Array]) -> KernelTrace:
        kernels = self._kernels()
        lines: dict[Place, Counts] = {}
        for line in self._items("lines", _Line):
            place = _place(line, kernels)
            lines[place] = lines.get(place, Counts()) + _counts(line)
        order = sorted(lines, key=lambda p: (kernels.index(p.kernel), p.file, p.line, p.operation))
        requests = (_request(one, kernels, arrays) for one in self._items("requests", _Request))
        carveouts = tuple(self._items("carveouts", ctypes.c_int32))
        by_place = {place: lines[place] for place in order}
        return KernelTrace(kernels, by_place, tuple(requests), carveouts)

    def _items(self, what: str, kind: type) -> list:
        first = ctypes.POINTER(kind)()
        count = getattr(self.library, f"lscd_emulator_{what}")(ctypes.byref(first))
        return [first[i] for i in range(count)]

    def _kernels(self) -> tuple[str, ...]:
        """Names of the kernels launched, in order."""
        offsets = (ctypes.c_int64 * self.library.lscd_emulator_kernels(None))()
        self.library.lscd_emulator_kernels(offsets)
        names = _symbols(self.library._name)
        return tuple(names[offset] for offset in offsets)


def apart(tensor: Tensor) -> Tensor:
    """A contiguous copy as a GPU would place it: aligned, and with a gap to every other array.

    Without the gap, an access out of one array's bounds may lie in the next one unnoticed.
    """
    memory = torch.empty(tensor.nbytes + 2 * GAP + ALIGN, dtype=torch.uint8, device="cpu")
    start = GAP + -(memory.data_ptr() + GAP) % ALIGN
    inner = memory[start : start + tensor.nbytes].view(tensor.dtype)
    return inner.view(tensor.shape).copy_(tensor)


def _array(name: str, tensor: Tensor, writable: bool, awaited: bool) -> _Array:
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    span = 1 + sum((size - 1) * step for size, step in steps) if tensor.numel() else 0
    size = span * tensor.element_size()
    return _Array(name.encode(), tensor.data_ptr(), size, writable, awaited)


def _place(line: _Line, kernels: tuple[str, ...]) -> Place:
    operation, file = traces.OPERATIONS[line.operation], _relative(line.site.file.decode())
    return Place(kernels[line.launch], file, line.site.line, operation)


def _counts(line: _Line) -> Counts:
    return Counts(*(getattr(line.counts, field) for field in COUNTS))


@functools.cache
def _relative(file: str) -> str:
    path = Path(file).resolve()
    return str(path.relative_to(traces.ROOT)) if path.is_relative_to(traces.ROOT) else str(path)


def _request(item: _Request, kernels: tuple[str, ...], arrays: list[_Array]) -> Request:
    lanes = tuple(lane for lane in range(32) if item.lanes >> lane & 1)
    shared, touched = ([spans[lane] for lane in lanes] for spans in (item.shared, item.touched))
    first = next((span.at for span in touched if span.bytes), -1)
    below = [array for array in arrays if array.address <= first]
    array = max(below, key=lambda one: one.address, default=None)
    return Request(
        place=_place(item.line, kernels),
        warp=item.warp,
        lanes=lanes,
        shared=tuple(span.at if span.bytes else None for span in shared),
        shared_bytes=max(span.bytes for span in shared),
        array=array.name.decode() if array else None,
        offsets=tuple(span.at - array.address if span.bytes else None for span in touched),
        counts=_counts(item.line),
        pending=item.pending if item.pending >= 0 else None,
    )


@functools.cache
def _symbols(path: str) -> dict[int, str]:
    """Functions of a library by offset: their names without namespaces and parameters."""
    text = toolchains.run([shutil.which("nm") or "nm", "-C", "--defined-only", path])
    lines = re.sub(r"lscd::|\(anonymous namespace\)::", "", text).splitlines()
    simple = re.compile(r"([0-9a-f]+) [tT] (?:.*[ :])?(\w+(?:<.*>)?)\(.*\)$")
    return {int(match[1], 16): match[2] for match in map(simple.match, lines) if match}
