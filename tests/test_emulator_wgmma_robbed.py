"""The wgmma kernel, each time without one of its waits, fences and barriers: the emulator tells."""

import re

import pytest
import torch
from robbed import Robbed, machines_alone, robbed

from lab_utils import spmm, toolchains
from lab_utils.backends import emulator
from lab_utils.backends.simt import KernelFault, Machine
from lab_utils.formats import BitmapStrips, ZeroRow24Strips
from lab_utils.patterns import random_sparse

SPMM = toolchains.SOURCES / "spmm"
# What all formats have, is robbed with the first one.
OF_BITMAPS = [SPMM / "hopper_wgmma_bitmap.cuh"]
SOURCES = {
    "wgmma": sorted(set(SPMM.glob("hopper_wgmma*.cu*")) - set(OF_BITMAPS)),
    "wgmma_bitmap": OF_BITMAPS,
}
MATRICES = {  # with more rounds than tiles of B' have places
    "wgmma": lambda: ZeroRow24Strips.encode(random_sparse(400, 1400, 0.5, seed=1), levels=1),
    "wgmma_bitmap": lambda: BitmapStrips.encode(random_sparse(400, 2900, 0.5, seed=1)),
}
SYNCHRONISES = re.compile(
    r"__sync(?:threads|warp)\(\)|mbarrier_wait\([^()]*\)|mbarrier_init_fence\(\)|async_proxy_fence\(\)"
    r"|wait_for_flag\(from\.flag\(strip\)\)|st_release\(to\.flag\(strip\), 1u\)"
    r"|(?:sparse|dense)\.wait\(\)|wait_for_previous_grid\(\)|wgmma_(?:fence|commit|wait<\d>)\(\)"
)
# Kernels that the product here does not use: they are not compiled each time.
OTHERS = re.compile(r"case (?:24|32|48|56|64|96|128): return launch<.*;")
BF16 = "launch_width<FORMAT, __nv_bfloat16>(p, stream)"
ROBBED = [
    (launcher, one)
    for launcher, sources in SOURCES.items()
    for one in robbed((s for s in sources if "select" not in s.name), SYNCHRONISES)
    if "only_copies" not in one.source.read_text()[one.at - 60 : one.at]
]
LOST = "|".join(
    (r"no (?:barrier|wait|fence) between|no flag tells of it", "no griddepcontrol.wait before",
     "nothing has been written", "ends while a wgmma is under way", "no block before it sets")
)  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[Robbed, Machine]:
    """By file and place in it, the kernel without what stands there."""

    def fewer(text: str) -> str:
        return OTHERS.sub("", text).replace(BF16, "cudaErrorInvalidValue")

    built = {}
    for launcher in SOURCES:
        folder = tmp_path_factory.mktemp(launcher)
        cases = [case for other, case in ROBBED if other == launcher]
        built |= machines_alone(SPMM / f"hopper_{launcher}.cu", launcher, cases, folder, fewer)
    return built


@pytest.mark.parametrize(("launcher", "case"), ROBBED, ids=str)
def test_no_synchronisation_can_go(machines, monkeypatch, launcher, case) -> None:
    """Each wait, fence and barrier is needed, and losing it is noticed.

    By a product whose row blocks have owners, or by one whose partial sums add_slots adds.
    """
    monkeypatch.setattr(emulator, "machine", lambda: machines[case])
    A = MATRICES[launcher]()
    with pytest.raises(KernelFault, match=rf"^(expand_dense|hopper_wgmma|add_slots)<.* ({LOST})"):
        for split_k in (1.5, 4):
            with emulator.recording(split_k=split_k):
                spmm(A, torch.ones(A.shape[1], 40).half(), backend="emulator")
