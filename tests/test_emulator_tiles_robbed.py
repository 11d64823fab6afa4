"""The kernel by tiles, each time without one of its waits, fences and barriers: the emulator tells.

Or without one of the arrivals that these wait for.
"""

import re

import pytest
import torch
from emulated import tiles_in_parts
from robbed import Kernels, robbed

from lab_utils import spmm, toolchains
from lab_utils.backends import emulator
from lab_utils.backends.simt import KernelFault
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
# What the product here does not use: it is not compiled.
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
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kernels]:
    def fewer(text: str) -> str:
        return OTHERS.sub("", text).replace(BF16, "cudaErrorInvalidValue")

    def of(format: str) -> Kernels:
        cases = [case for other, case in ROBBED if other == format]
        source, folder = SPMM / f"hopper_tiles_{format}.cu", tmp_path_factory.mktemp("robbed")
        return Kernels([source], cases, folder, fewer, launch=f"tiles_{format}")

    return {format: of(format) for format in SOURCES}


def multiply(format: str) -> None:
    """By a product whose pairs have several rounds, of row blocks that several of them have parts
    of; rings come around.
    """
    encoding, W = MATRICES[format]
    with forced("tiles"), tiles_in_parts(), emulator.recording(split_k=1.5):
        spmm(encoding.encode(W), torch.ones(W.shape[1], 300).half(), backend="emulator")


@pytest.mark.parametrize(("format", "case"), ROBBED, ids=str)
def test_no_synchronisation_can_go(kernels, monkeypatch, format, case) -> None:
    """Each wait, fence, barrier and arrival is needed, and losing it is noticed."""
    monkeypatch.setattr(emulator, "machine", lambda: kernels[format].without(case))
    with pytest.raises(KernelFault, match=rf"^(hopper_tiles|add_parts)<.* ({LOST})"):
        multiply(format)


@pytest.mark.parametrize("format", SOURCES)
def test_with_all_of_them_nothing_is_wrong(kernels, monkeypatch, format: str) -> None:
    monkeypatch.setattr(emulator, "machine", lambda: kernels[format].without(None))
    multiply(format)
