"""What the emulator refuses: planted faults, and the SpMM kernels robbed of each wait in turn."""

import re
from pathlib import Path

import pytest
import torch
from emulated import SOURCES, launch, machine_of
from robbed import Kernels, robbed

from lab_utils import encode, spmm, toolchains
from lab_utils.backends import emulator, hopper, published
from lab_utils.backends.simt import KernelFault, Machine
from lab_utils.patterns import random_sparse

FAULTY = SOURCES / "faulty.cu"

# The first thread that does it, in the order in which the emulator runs them; {here} is the line.
FAULTS = {
    "race_of_warps": "warp 1, lane 0: load of 4 bytes at shared address 0: "
    "a race: written by warp 0, lane 0 at faulty.cu:{before}, no barrier between",
    "race_of_lanes": "warp 0, lane 1: load of 4 bytes at shared address 0: "
    "a race: written by warp 0, lane 0 at faulty.cu:{before}, no barrier between",
    "two_writers": "warp 0, lane 1: store of 4 bytes at shared address 0: "
    "a race: written by warp 0, lane 0 at faulty.cu:{here}, no barrier between",
    "atomic_and_load": "warp 0, lane 1: atomic of 4 bytes at shared address 0: "
    "a race: read by warp 0, lane 0 at faulty.cu:{after}, no barrier between",
    "overwritten_too_early": "warp 1, lane 0: store of 4 bytes at shared address 128: "
    "a race: read by warp 0, lane 0 at",
    "no_wait": "warp 0, lane 0: load of 4 bytes at shared address 0: "
    "a cp.async by warp 0, lane 0 at",
    "wait_for_the_wrong_group": "warp 0, lane 0: load of 4 bytes at shared address 1024: "
    "a cp.async by warp 0, lane 0 at",
    "wait_without_barrier": "warp 1, lane 0: load of 4 bytes at shared address 0: "
    "a race: written by warp 0, lane 0 at",
    "unwritten": "warp 1, lane 8: load of 4 bytes at shared address 160: nothing has been written",
    "out_of_shared_memory": "warp 1, lane 4: store of 4 bytes at shared address 16384: "
    "out of bounds, the block has 16384 bytes",
    "misaligned": "warp 1, lane 31: store of 16 bytes at shared address 1012: misaligned",
    "store_out_of_bounds": "warp 1, lane 4: store of 4 bytes at byte 1024 of C: "
    "out of bounds, it has 1024 bytes",
    "load_out_of_bounds": "warp 1, lane 31: load of 4 bytes at byte 1024 of A: out of bounds",
    "store_to_an_operand": "warp 0, lane 0: store of 4 bytes at byte 0 of A: "
    "a kernel must not write there",
    "shuffle_from_nobody": "warp 0: lane 0 shuffles from lane 8, which takes no part",
    "mma_of_some": "warp 1: mma needs all 32 lanes, not lanes 0-7, 9-31",
}
DIVERGENT = {
    "barrier_of_some": "warp 1, lanes 0-15 wait at the barrier of faulty.cu:{here}; "
    "warp 1, lanes 16-31 have ended",
    "two_barriers": "warp 0, lanes 0-31 wait at the barrier of faulty.cu:{here}; "
    "warp 1, lanes 0-31 wait at the barrier of faulty.cu:{after}",
    "shuffle_of_some": "warp 0, lanes 0-7 wait for lanes 0-31 at faulty.cu:{here}; "
    "warp 0, lanes 8-31 wait at the barrier of faulty.cu:{after}",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("faulty", tmp_path_factory.mktemp("faulty"))


def fault(machine: Machine, kernel: str) -> str:
    A, C = torch.zeros(256, dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
    with pytest.raises(KernelFault) as caught:
        launch(machine, kernel, A, C)
    return str(caught.value)


def lines(kernel: str) -> dict[str, int]:
    """The line marked `here` in a kernel of faulty.cu, and its neighbours."""
    text = FAULTY.read_text()
    here = text[: text.index("// here", text.index(f" {kernel}("))].count("\n") + 1
    return {"before": here - 1, "here": here, "after": here + 1}


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_told_with_its_place(machine, kernel) -> None:
    where = f"{kernel}: faulty.cu:{lines(kernel)['here']}, block (0, 0, 0), "
    assert fault(machine, kernel).startswith(where + FAULTS[kernel].format(**lines(kernel)))


@pytest.mark.parametrize("kernel", DIVERGENT)
def test_lanes_that_never_meet_are_told_one_by_one(machine, kernel) -> None:
    told = fault(machine, kernel)
    assert told.startswith(f"{kernel}: divergent barrier in block (0, 0, 0); ")
    assert DIVERGENT[kernel].format(**lines(kernel)) in told


def test_the_machine_goes_on_after_a_fault(machine) -> None:
    assert fault(machine, "unwritten") == fault(machine, "unwritten")


def test_encodings_that_lie_do_not_reach_other_memory() -> None:
    """Past the checks of `spmm`, an offset that is too large is caught by the emulator."""
    A = encode(random_sparse(128, 64, 0.5), "tiled_csl")
    A.arrays["tile_offsets"][1:] += 64
    B, C = torch.ones(64, 8).half(), torch.empty(128, 8).half()
    with pytest.raises(KernelFault, match=r"tiled_csl<.*load of 16 bytes .* words: out of bounds"):
        emulator.spmm(A, B, C)


# --- the SpMM kernels, each time without one of their synchronisations ---

SYNCHRONISES = re.compile(
    r"__sync(?:threads|warp)\(\)|cp_async_wait<\w+>\(\)|mbarrier_wait\([^()]*\)"
    r"|mbarrier_init_fence\(\)|wait_for_previous_grid\(\)|async_proxy_fence\(\)"
    r"|wgmma_(?:fence|commit|wait<\w+>)\(\)"
)
# What the products here do not use: it is not compiled.
WIDE = re.compile(r"case (?:16|32|64): return launch_streams.*;")
BF16 = "launch_width<__nv_bfloat16>(p, stream)"
OTHERS = re.compile(r"LSCD_EXPORT int lscd_cuda_(?:select|wgmma|tiles)\w*\([^{]*\{[^}]*\}")
SPMM = toolchains.SOURCES / "spmm"
FORMATS_OF_KERNELS = {SPMM / f"{format}.cu": format for format in published.ARRAYS} | {
    SPMM / "hopper_mma.cu": hopper.FORMAT
}
ROBBED = robbed(FORMATS_OF_KERNELS, SYNCHRONISES)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    def fewer(text: str) -> str:
        return OTHERS.sub("", WIDE.sub("", text)).replace(BF16, "cudaErrorInvalidValue")

    sources = (*FORMATS_OF_KERNELS, SPMM / "launch.cu")
    return Kernels(sources, ROBBED, tmp_path_factory.mktemp("robbed"), fewer)


def multiply(source: Path, columns: int) -> None:
    A = encode(random_sparse(130, 300, 0.5, seed=1), FORMATS_OF_KERNELS[source])
    spmm(A, torch.ones(300, columns).half(), backend="emulator")


@pytest.mark.parametrize("case", ROBBED, ids=str)
def test_no_synchronisation_can_go(kernels, monkeypatch, case) -> None:
    """Each wait and barrier of the kernels is needed, and losing it is noticed."""
    monkeypatch.setattr(emulator, "machine", lambda: kernels.without(case))
    columns = 64 if "gmma" in case.lost or "proxy" in case.lost else 8
    kernel = f"({case.source.stem}|add_segments)"
    lost = r"no (barrier|wait|fence) between|no griddepcontrol.wait before|nothing has been written"
    with pytest.raises(KernelFault, match=rf"^{kernel}<.* ({lost})"):
        multiply(case.source, columns)


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        (one, N)
        for one in FORMATS_OF_KERNELS
        for N in (8, 64)
        if (one.stem, N) != ("hopper_mma", 64)
    ],
    ids=str,
)
def test_with_all_of_them_nothing_is_wrong(kernels, monkeypatch, source, columns) -> None:
    monkeypatch.setattr(emulator, "machine", lambda: kernels.without(None))
    multiply(source, columns)


LAUNCHES = {  # probe, rows of blocks, bytes of shared memory: whether a GPU can launch it
    ("always", 1, 48 * 1024): True,
    ("always", 1, 48 * 1024 + 1): False,
    ("allowed", 1, 200 * 1024): True,
    ("allowed", 1, 200 * 1024 + 1): False,
    ("always", 65535, 0): True,
    ("always", 65536, 0): False,
}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("limits", tmp_path_factory.mktemp("limits"))


@pytest.mark.parametrize(("probe", "rows", "shared_bytes"), LAUNCHES)
def test_what_no_gpu_can_launch_is_refused(limited, probe, rows, shared_bytes) -> None:
    operands = torch.zeros(4), torch.zeros(4)
    if LAUNCHES[probe, rows, shared_bytes]:
        launch(limited, probe, *operands, M=rows, K=shared_bytes)
        return
    with pytest.raises(RuntimeError, match="failed with cudaError_t 1, in the emulator"):
        launch(limited, probe, *operands, M=rows, K=shared_bytes)
