"""The GPU kernels compile for every architecture, without spilling a register."""

import re
import subprocess

import pytest
from sass import PRODUCT, cuobjdump, disassemble, kernels_of, metadata_not_kept

from lab_utils import build
from lab_utils.toolchains import Nvcc


@pytest.fixture(scope="module")
def nvcc() -> str:
    try:
        return Nvcc().compiler()
    except RuntimeError as error:
        pytest.skip(str(error))


SOURCES = [
    source
    for library in build.LIBRARIES.values()
    if isinstance(library.toolchain, Nvcc)
    for source in library.sources()
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_kernel_spills_on_any_architecture(nvcc, source, tmp_path):
    command = Nvcc().compile_command(source, tmp_path / "kernel.o")
    done = subprocess.run([*command, "--resource-usage"], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    kernels = re.findall(r"Compiling entry function '(\w+)' for '(\w+)'", said)
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said)
    assert {arch for _, arch in kernels} == {f"sm_{a}" for a in Nvcc.ARCHITECTURES}
    assert len(spills) >= len(kernels)
    assert set(spills) == {("0", "0")}


# --- sparse products of warpgroups read their metadata late ---

SPARSE_WARPGROUPS = [
    source for source in SOURCES if source.name in ("hopper_wgmma.cu", "hopper_wgmma_lanes.cu")
]


@pytest.fixture(scope="module")
def tool() -> str:
    if not (found := cuobjdump()):
        pytest.skip("no cuobjdump, CUDA's or Triton's")
    return found


@pytest.mark.parametrize("source", SPARSE_WARPGROUPS, ids=lambda path: path.name)
def test_metadata_of_products_are_kept_until_the_wait(nvcc, tool, source, tmp_path):
    binary = tmp_path / "kernel.o"
    command = Nvcc().compile_command(source, binary)
    for_hopper = [part for part in command if "-gencode" not in part or "=sm_90a" in part]
    subprocess.run(for_hopper, capture_output=True, check=True)
    found = kernels_of(disassemble(binary, "sm_90a", tool))
    sparse = {name for name, code in found.items() if any(PRODUCT.search(i.text) for i in code)}
    assert sparse
    for name in sparse:
        assert not metadata_not_kept(found[name]), name


LOOP = """
    Function : kernel
        /*0000*/  LDS.128 R{next}, [R40] ;                                          /* 0x0 */
                                                                                    /* 0x0 */
        /*0010*/  WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0020*/  IMAD.MOV.U32 R56, RZ, RZ, R60 ;
        /*0030*/  HGMMA.SP.64x16x32.F32 R24, R72, gdesc[UR4].tnspB, R24, R56, 0x0, gsb0 ;
        /*0040*/  @!P0 BRA 0x0 ;
        /*0050*/  STG.E.128 desc[UR6][R56.64], R24 ;
        /*0060*/  EXIT ;
"""


def test_metadata_that_are_not_kept_are_found():
    kept, lost = (kernels_of(LOOP.format(next=next))["kernel"] for next in (60, 54))
    assert len(kept) == 7 and metadata_not_kept(kept) == []
    [(product, load)] = metadata_not_kept(lost)
    assert product.address == 0x30 and load.text == "LDS.128 R54, [R40]"
