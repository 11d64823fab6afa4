"""The kernel by tiles, each time without one of its waits, fences and barriers: the emulator tells.

Or without one of the arrivals that these wait for.
"""

import re

import pytest
import torch
from emulated import tiles_in_parts
from robbed import Robbed, machines_alone, robbed

from lab_utils import spmm, toolchains
from lab_utils.backends import emulator
from lab_utils.backends.simt import KernelFault, Machine
from lab_utils.backends.ways import forced
from lab_utils.formats import Lane24Strips, TcaBme
from lab_utils.patterns import random_sparse

SPMM = toolchains.SOURCES / "spmm"
# Behind a name: what stands in brackets, two more of them inside.
CALL = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?=;)"
SYNCHRONISES = re.compile(
    r"\b(?:__syncwarp|mbarrier_(?:wait|init_fence|arrive|arrive_at|arrive_expect)|async_proxy_fence"
    rf"|cluster_barrier|wait_for_previous_grid|wgmma_(?:fence|commit|wait<\d>)){CALL}"
)
# What the product here does not use: it is not compiled each time.
OTHERS = re.compile(
    r"case (?!160)\d+:\s+(if constexpr \(FORMAT::SETS == 1\) )?"
    r"return launch<FORMAT, T, \d+>\(p, stream\);"
)
BF16 = "launch_width<FORMAT, __nv_bfloat16>(p, stream)"
LOST = "|".join(
    (r"no (?:barrier|wait|fence) between", "no griddepcontrol.wait before",
     "ends while a (?:wgmma|bulk copy from its shared memory) is under way",
     r"wait for the mbarrier .* \(phase \d+: \d+ of \d+ arrivals, ")
)  # fmt: skip


# What both formats have, is robbed with the first one.
OF_TCA_BME = [SPMM / f"hopper_tiles_{part}.cuh" for part in ("tca_bme", "groups")]
SOURCES = {
    "lanes": sorted(set(SPMM.glob("hopper_tiles*.cu*")) - set(OF_TCA_BME)),
    "tca_bme": OF_TCA_BME,
}
MATRICES = {
    "lanes": (Lane24Strips, random_sparse(200, 1200, 0.8, seed=1)),
    "tca_bme": (TcaBme, random_sparse(180, 2500, 0.4, seed=1)),  # its last rows are one block's
}
ROBBED = [(format, case) for format in SOURCES for case in robbed(SOURCES[format], SYNCHRONISES)]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[Robbed, Machine]:
    """By file and place in it, the kernel without what stands there."""

    def fewer(text: str) -> str:
        return OTHERS.sub("", text).replace(BF16, "cudaErrorInvalidValue")

    built = {}
    for format in SOURCES:
        kernel, folder = SPMM / f"hopper_tiles_{format}.cu", tmp_path_factory.mktemp("robbed")
        cases = [case for other, case in ROBBED if other == format]
        built |= machines_alone(kernel, f"tiles_{format}", cases, folder, fewer)
    return built


@pytest.mark.parametrize(("format", "case"), ROBBED, ids=str)
def test_no_synchronisation_can_go(machines, monkeypatch, format, case) -> None:
    """Each wait, fence, barrier and arrival is needed, and losing it is noticed.

    By a product whose pairs have several rounds, of row blocks that several of them have parts of;
    rings come around.
    """
    monkeypatch.setattr(emulator, "machine", lambda: machines[case])
    encoding, W = MATRICES[format]
    fault = rf"^(hopper_tiles|add_parts)<.* ({LOST})"
    with (
        forced("tiles"),
        tiles_in_parts(),
        emulator.recording(split_k=1.5),
        pytest.raises(KernelFault, match=fault),
    ):
        spmm(encoding.encode(W), torch.ones(W.shape[1], 300).half(), backend="emulator")
