"""The kernel by tiles, each time without one of its waits, fences and barriers: the emulator tells.

Or without one of the arrivals that these wait for.
"""

import re

import pytest
import torch
from robbed import Robbed, machines_alone, robbed

from lab_utils import spmm, toolchains
from lab_utils.backends import emulator
from lab_utils.backends.simt import KernelFault, Machine
from lab_utils.backends.ways import forced
from lab_utils.formats import Lane24Strips
from lab_utils.patterns import random_sparse

SPMM = toolchains.SOURCES / "spmm"
SOURCES = sorted(SPMM.glob("hopper_tiles*.cu*"))
# Behind a name: what stands in brackets, two more of them inside.
CALL = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?=;)"
SYNCHRONISES = re.compile(
    r"\b(?:__syncwarp|mbarrier_(?:wait|init_fence|arrive_at|arrive_expect)|async_proxy_fence"
    rf"|cluster_barrier|wait_for_previous_grid|wgmma_(?:fence|commit|wait<\d>)){CALL}"
)
ROBBED = robbed(SOURCES, SYNCHRONISES)
# What the product here does not use: it is not compiled each time.
OTHERS = re.compile(r"case (?!160)\d+: return launch<T, \d+>\(p, stream\);")
BF16 = "launch_width<__nv_bfloat16>(p, stream)"
LOST = "|".join(
    (r"no (?:barrier|wait|fence) between", "no griddepcontrol.wait before",
     "ends while a (?:wgmma|bulk copy from its shared memory) is under way",
     r"wait for the mbarrier .* \(phase \d+: \d+ of \d+ arrivals, ")
)  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[Robbed, Machine]:
    """By file and place in it, the kernel without what stands there."""

    def fewer(text: str) -> str:
        return OTHERS.sub("", text).replace(BF16, "cudaErrorInvalidValue")

    folder = tmp_path_factory.mktemp("robbed")
    return machines_alone(SPMM / "hopper_tiles.cu", "tiles", ROBBED, folder, fewer)


@pytest.mark.parametrize("case", ROBBED, ids=str)
def test_no_synchronisation_can_go(machines, monkeypatch, case) -> None:
    """Each wait, fence, barrier and arrival is needed, and losing it is noticed.

    By a product whose pairs have several rounds, of row blocks that several of them have parts of.
    """
    monkeypatch.setattr(emulator, "machine", lambda: machines[case])
    A = Lane24Strips.encode(random_sparse(200, 1200, 0.8, seed=1))
    fault = rf"^(hopper_tiles|add_parts)<.* ({LOST})"
    with (
        forced("tiles"),
        emulator.recording(split_k=1.5),
        pytest.raises(KernelFault, match=fault),
    ):
        spmm(A, torch.ones(1200, 300).half(), backend="emulator")
