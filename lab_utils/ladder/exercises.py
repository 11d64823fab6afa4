"""The exercises of notebook 23: what a reader starts from, and checks that know a right answer.

`check_…` prints what is right, or raises an AssertionError that says what is wrong. For what the
notebook starts with, it says so without failing, once the solution at the end has passed.
"""

import ctypes
import functools
import re
import subprocess
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.analysis.kernel_trace import KernelTrace, Request
from lab_utils.backends.problem import Problem
from lab_utils.backends.simt import KernelFault, Machine
from lab_utils.ladder.launch import emulate, encode
from lab_utils.patterns import random_sparse
from lab_utils.toolchains import SOURCES

BANKS = 32
TILES, THREADS = 5, 64  # of the exercise `wait`


def kernel(name: str) -> str:
    """The kernel of an exercise, as it stands in kernels/exercises."""
    source = (SOURCES / "exercises" / f"{name}.cu").read_text()
    return source.partition("namespace {\n\n")[2].partition("\n\n}  // namespace")[0]


def check_bank(bank: Callable[[int], int | None]) -> None:
    """Whether `bank(location)` gives the bank of a 16-bit element; None is no answer yet."""
    _check(_judge_bank, bank, _solved_bank, bank(0) is None)


def check_swizzle(place: str) -> None:
    """Whether `place`, C++ of row and col, stores a tile so that no access has a conflict."""
    _check(_judge_swizzle, place, SOLVED_PLACE, place == START_PLACE)


def check_wait(pending: int) -> None:
    """Whether waiting until `pending` groups are under way is right, and lets loads overlap."""
    _check(_judge_wait, pending, SOLVED_PENDING, pending == START_PENDING)


def _check(judge: Callable[[object], str], answer: object, solution: object, start: bool) -> None:
    try:
        print(f"Right: {judge(answer)}")
    except AssertionError as wrong:
        if not start:
            raise
        judge(solution)
        print(f"Your turn. As it stands: {wrong}")


def _judge_bank(bank: Callable[[int], int | None]) -> str:
    requests = scattered()
    for number, request in enumerate(requests):
        locations = [offset // 2 for offset in request.shared]
        banks = [bank(location) for location in locations]
        for location, one in zip(locations, banks, strict=True):
            known = isinstance(one, int) and 0 <= one < BANKS
            assert known, f"bank({location}) is {one!r}; a bank is a whole number from 0 to 31"
        words = {(one, at // 2) for one, at in zip(banks, locations, strict=True)}
        fullest = max(sum(one == mine for mine, _ in words) for one in range(BANKS))
        assert fullest == request.counts.wavefronts, (
            f"request {number} of warp 0 stores to {locations}: your banks make "
            f"{fullest} wavefronts of it, the emulator counted {request.counts.wavefronts}"
        )
    return f"your banks explain the wavefronts of all {len(requests)} requests"


def _judge_swizzle(place: str) -> str:
    _check_places(place)
    tile = torch.arange(16 * 64, dtype=torch.int16).view(16, 64)
    found = torch.zeros(4, 4, 32, dtype=torch.int32)
    trace = _run("swizzle", f"PLACE={place}", tile, found)
    # [k16, right half, lower half, g, t, pair]: register i of lane 4 g + t, as ldmatrix gives it
    parts = tile.view(2, 8, 4, 2, 4, 2).permute(2, 3, 0, 1, 4, 5).reshape(4, 4, 32, 2)
    assert torch.equal(found.view(torch.int16).view(4, 4, 32, 2), parts), "fragments are wrong"
    for operation in ("cp_async", "ldmatrix"):
        counts = trace.total(operation)
        assert counts.wavefronts == counts.least_wavefronts, (
            f"{operation} takes {counts.wavefronts} wavefronts; "
            f"{counts.least_wavefronts} could carry the same bytes"
        )
    return f"{counts.wavefronts} wavefronts for {counts.requests} ldmatrix, no conflict"


PLACES = """
import ctypes, sys
place = ctypes.CDLL(sys.argv[1]).lscd_exercise_place
[place(row, col) for row in range(16) for col in range(0, 64, 8)]
"""


def _check_places(place: str) -> None:
    """Raise AssertionError unless there is a place for each row and col.

    In a process of its own: dividing by zero ends it.
    """
    try:
        library = build.build("exercises", definitions=(f"PLACE={place}",))
    except RuntimeError as error:
        wrong = re.search(r"error: (.*)", str(error))
        if wrong is None:
            raise
        raise AssertionError(f"{place!r} is no C++ of row and col: {wrong[1]}") from None
    done = subprocess.run([sys.executable, "-c", PLACES, str(library)])
    assert done.returncode == 0, f"{place!r} divides by zero for some row and col"


def _judge_wait(pending: int) -> str:
    assert isinstance(pending, int) and 0 <= pending < 8, f"{pending!r} groups; allowed: 0 to 7"
    tiles = torch.arange(TILES * THREADS * 4, dtype=torch.int32).view(TILES, THREADS, 4)
    sums = torch.zeros(THREADS, dtype=torch.int32)
    _run("wait", f"PENDING={pending}", tiles, sums)
    assert torch.equal(sums, tiles.sum((0, 2)).roll(-1).int()), "sums are wrong"
    assert pending, (
        "the sums are right, but each turn waits for the tile that it has just asked for: "
        "nothing overlaps"
    )
    return "each tile has come when it is read, and the next one is still on its way"


@functools.cache
def scattered() -> tuple[Request, ...]:
    """What warp 0 of rung 5 stores of its words, one tile, half zeros: 32 elements at a time."""
    W = random_sparse(128, 64, 0.5)
    _, trace = emulate(encode("tiled_csl_5_double_buffer", W), W[:1].T, watch=0)
    return tuple(r for r in trace.requests
                 if r.place.operation == "shared_store" and r.shared_bytes == 2 and r.warp == 0
                 )  # fmt: skip


def _run(name: str, definition: str, A: Tensor, C: Tensor) -> KernelTrace:
    """Run an exercise with an answer. Raises AssertionError where the emulator finds a fault."""
    problem = Problem(M=1, K=A.shape[0], N=1, C=C.data_ptr())
    problem.A[0] = A.data_ptr()
    arrays = {"read": {"A": A}, "written": {"C": C}}
    try:
        return _machine(definition).run(f"lscd_exercise_{name}", ctypes.byref(problem), **arrays)
    except KernelFault as fault:
        raise AssertionError(f"the emulator found a fault in {fault}") from fault


@functools.cache
def _machine(definition: str) -> Machine:
    return Machine(build.load("exercises", (definition,)))


# --- Solutions below: try first -----------------------------------------------------------------

START_PLACE, START_PENDING = "row * 64 + col", 2


def _solved_bank(location: int) -> int:
    return location // 2 % BANKS


SOLVED_PLACE = "row * 64 + (col ^ 8 * (row % 8))"
SOLVED_PENDING = 1
