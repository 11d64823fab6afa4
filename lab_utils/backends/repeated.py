"""Products again: what was asked of operands like these has the same answers as the last time.

In eager mode Python takes longer to check, plan and launch a product than a GPU takes for many. So
where activations lie as they did before, and the encoding is as it was validated, compiled code
(kernels/torch) asks once more whether they do, and launches.
"""

import ctypes
import functools
import itertools
import warnings
import weakref
from operator import attrgetter

import torch
from torch import Tensor
from torch.autograd import forward_ad

from lab_utils import backends, build
from lab_utils.backends import cuda
from lab_utils.backends.kernels import WITH_EPILOGUE
from lab_utils.backends.launch import ALIGN_BYTES, check_launched, pitch_in_place
from lab_utils.backends.remembered import keep, memo_of
from lab_utils.backends.watched import PLAIN_TYPES, is_thread_watched, is_watched, keys_of_plain
from lab_utils.backends.ways import asked_way
from lab_utils.formats import SparseMatrix
from lab_utils.streams import is_captured, raw_stream

_in_c = attrgetter("_cdata")  # the address of torch's own object behind a tensor of Python's
NOT_ALIKE = -1  # as compiled code says it


class _Launch(ctypes.Structure):
    """`Launch` of kernels/torch/repeat.cpp."""

    __slots__ = ()
    _fields_ = (
        ("launcher", ctypes.c_void_p),
        ("number", ctypes.c_int32),
        ("scratch_fields", ctypes.c_int32),
        ("problem", ctypes.c_void_p),
        ("problem_bytes", ctypes.c_int64),
        ("scratch_bytes", ctypes.c_int64),
        ("at_b", ctypes.c_int64),
        ("at_c", ctypes.c_int64),
        ("at_bias", ctypes.c_int64),
        ("at_relu", ctypes.c_int64),
        ("scratch", ctypes.c_void_p),
    )


class Repeat:
    """A launch for activations of one shape, strides and dtype, on one GPU."""

    def __init__(self, x: Tensor, A: SparseMatrix, ready: cuda.Ready, pitch: int):
        """`pitch`: elements from one token of x to the next."""
        self._library, self._ready, self._device = _library(), ready, x.get_device()
        self._tokens, self._result, self._way = x.shape, (*x.shape[:-1], A.shape[0]), asked_way()
        self._what, self._arrays = _what(A), _arrays(A)
        addresses = (ctypes.c_void_p * len(self._arrays))(*self._arrays.values())
        plain = (ctypes.c_uint64 * 2)(*keys_of_plain(x.device.type))
        launch, _alive = _described(ready, pitch, A)
        self._has_epilogue = launch.at_bias >= 0
        self._in_c = self._library.lscd_repeat_new(
            ctypes.byref(launch), x._cdata, A.shape[0], addresses, len(addresses), plain
        )
        weakref.finalize(self, self._library.lscd_repeat_delete, self._in_c).atexit = False

    def __bool__(self) -> bool:
        """Whether compiled code has it: seldom not, as where an array was freed meanwhile."""
        return self._in_c is not None

    def __call__(
        self, x: Tensor, A: SparseMatrix, bias: Tensor | None, relu: bool
    ) -> Tensor | None:
        """The product; None where an operand, or what is asked for, is another one."""
        if x.shape != self._tokens or x.dtype is not self._what[1] or asked_way() != self._way:
            return None
        if ((bias is not None or relu) and not self._has_epilogue) or not self._is_of(A):
            return None
        if bias is not None:
            bias = bias.contiguous()
        y, added = x.new_empty(self._result), None if bias is None else bias._cdata
        stream = raw_stream(self._device)
        error = self._library.lscd_repeat(self._in_c, x._cdata, y._cdata, added, relu, stream)
        if error == NOT_ALIKE:
            return None
        check_launched("cuda", self._ready.launch.call[0], error)
        return y

    def _is_of(self, A: SparseMatrix) -> bool:
        """Whether A has these arrays; how they are, compiled code asks."""
        try:
            return _arrays(A) == self._arrays and _what(A) == self._what
        except AttributeError:  # some are no tensors: whoever checks A says so
            return False


def repeated(
    x: Tensor, A: SparseMatrix, bias: Tensor | None = None, relu: bool = False
) -> Tensor | None:
    """y[..., M] = x[..., K] · Aᵀ + bias, with `relu` the maximum of 0 and that, if one is known.

    None where none is, and where any operand is not as it was then, whatever it is.
    """
    if torch.compiler.is_compiling() or type(x) is not Tensor or x.layout is not torch.strided:
        return None
    memo = getattr(getattr(A, "validated", None), "memo", None)
    if memo is None or (relu if bias is None else type(bias) not in PLAIN_TYPES):
        return None
    if forward_ad._current_level >= 0 or is_thread_watched():
        return None
    last = memo.last
    if last is not None and (y := last(x, A, bias, relu)) is not None:
        return y
    repeat = memo.repeats.get(_like(x))
    if repeat is None or repeat is last:
        return None
    memo.last = repeat
    return repeat(x, A, bias, relu)


def remember(x: Tensor, A: SparseMatrix) -> None:
    """Remember the product of these, which has just been made, where it can go to its launch.

    That is where a kernel of A's format reads x as it lies, and nobody watches.
    """
    if torch.compiler.is_compiling() or backends.for_device(A.device) is not cuda:
        return
    if type(x) is not Tensor or x.dtype != A.dtype or is_watched(A, x) or _library() is None:
        return
    known, like = memo_of(A).repeats, _like(x)
    # What is captured may be launched in another way later (`prepared`).
    if like in known or x.data_ptr() % ALIGN_BYTES or is_captured(A.device):
        return
    B = x.reshape(-1, x.shape[-1]).T
    ready = cuda.ready_for(A, B.shape[1])
    pitch = None
    if ready is not None and B.data_ptr() == x.data_ptr():  # else A is decoded first, or x copied
        pitch = pitch_in_place(B, ready.block_rows)
    repeat = None if pitch is None else Repeat(x, A, ready, pitch) or None
    if A.as_validated() is not None:  # nor has another thread written into what `repeat` found
        keep(known, like, repeat)


def _like(x: Tensor) -> tuple:
    """What products of x have in common with those of others."""
    return x.shape, x.stride(), x.dtype, x.device, asked_way()


def _what(A: SparseMatrix) -> tuple:
    return A.shape, A.dtype


def _arrays(A: SparseMatrix) -> dict[str, int]:
    """Where torch's own objects behind A's arrays are."""
    return dict(zip(A.arrays, map(_in_c, A.arrays.values()), strict=True))


def _described(ready: cuda.Ready, pitch: int, A: SparseMatrix) -> tuple[_Launch, object]:
    """What compiled code needs of a launch, and what must live until it has read that."""
    (name, *numbers), problem = ready.launch.call, type(ready.launch.problem)
    filled = ready.launch.copy().problem
    filled.ldb, filled.ldc = pitch, A.shape[0]
    pairs = [(getattr(problem, field).offset, at) for field, at in ready.scratch.items()]
    scratch = (ctypes.c_int64 * (2 * len(pairs)))(*itertools.chain.from_iterable(pairs))
    at_bias, at_relu = (
        getattr(problem, field).offset if A.name in WITH_EPILOGUE else -1
        for field in ("bias", "relu")
    )
    launch = _Launch(
        launcher=_address_of(name), number=numbers[0] if numbers else -1,
        problem=ctypes.addressof(filled), problem_bytes=ctypes.sizeof(filled),
        scratch=ctypes.addressof(scratch), scratch_fields=len(pairs),
        scratch_bytes=ready.scratch_bytes, at_b=problem.B.offset, at_c=problem.C.offset,
        at_bias=at_bias, at_relu=at_relu,
    )  # fmt: skip
    return launch, (filled, scratch)


def _address_of(launcher: str) -> int:
    return ctypes.cast(getattr(build.load("cuda"), launcher), ctypes.c_void_p).value


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The compiled code; None, and a warning, once, where the headers of torch are no use to it."""
    try:
        library = build.load("repeat")
    except RuntimeError as error:
        why = f"products called by Python take several times as long as they might: {error}"
        warnings.warn(why, stacklevel=4)
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    library.lscd_repeat_new.restype = pointer
    library.lscd_repeat_new.argtypes = [pointer, pointer, ctypes.c_int64, pointer, number, pointer]
    library.lscd_repeat_delete.argtypes = [pointer]
    library.lscd_repeat.argtypes = [pointer, pointer, pointer, pointer, number, pointer]
    return library
