"""The GPU kernels compile for every architecture, without spilling a register."""

import re
import subprocess

import pytest
from sass import (
    FLAG_LOAD,
    FLAG_STORE,
    PRODUCT,
    Instruction,
    cuobjdump,
    disassemble,
    flags_out_of_order,
    kernels_of,
    metadata_not_kept,
)

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
    assert "serialized" not in said  # ptxas, of wgmma whose registers others use meanwhile
    assert ": warning" not in said  # nvcc's and g++'s; ptxas has its own, of GPUs with fewer warps


# --- the machine code of products in strips ---

STRIPS = [
    source
    for source in SOURCES
    if re.fullmatch(r"hopper_wgmma(|_lanes|_bitmap|_coded)\.cu", source.name)
]


@pytest.fixture(scope="module", params=STRIPS, ids=lambda path: path.name)
def kernels(request, nvcc, tmp_path_factory) -> dict[str, list[Instruction]]:
    """The kernels of a source for sm_90a, by name."""
    if not (tool := cuobjdump()):
        pytest.skip("no cuobjdump, CUDA's or Triton's")
    binary = tmp_path_factory.mktemp("strips") / "kernel.o"
    command = Nvcc().compile_command(request.param, binary)
    for_hopper = [part for part in command if "-gencode" not in part or "=sm_90a" in part]
    subprocess.run(for_hopper, capture_output=True, check=True)
    return kernels_of(disassemble(binary, "sm_90a", tool))


def products_of(kernels: dict[str, list[Instruction]]) -> set[str]:
    """Their names."""
    products = {name for name in kernels if "12hopper_wgmmaI" in name}
    assert products
    return products


def test_metadata_of_products_are_kept_until_the_wait(kernels):
    """Sparse products of warpgroups read it late; those of bitmaps and codes are dense."""
    sparse = {name for name, code in kernels.items() if any(PRODUCT.search(i.text) for i in code)}
    assert sparse == {name for name in products_of(kernels) if "StreamStrips" not in name}
    for name in sparse:
        assert not metadata_not_kept(kernels[name]), name


def test_flags_say_that_what_was_stored_before_is_there(kernels):
    """Neither the emulator nor a GPU would notice, but by chance, a store that is no release."""
    for name in products_of(kernels):
        for flag in (FLAG_STORE, FLAG_LOAD):
            assert any(flag in one.text for one in kernels[name]), name
    for name, code in kernels.items():
        assert not flags_out_of_order(code), name


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


FLAG = """
    Function : kernel
        /*0000*/  @!P2 {release} ;
        /*0010*/  @!P2 ERRBAR ;
        /*0020*/  @!P2 STG.E.64.STRONG.GPU desc[UR10][R8.64+0x18000], R10 ;
        /*0030*/  LDG.E.64.STRONG.GPU R8, desc[UR10][R112.64] ;
        /*0040*/  {acquire} ;
        /*0050*/  EXIT ;
"""


def test_flags_out_of_order_are_found():
    kept, lost = (
        kernels_of(FLAG.format(release=release, acquire=acquire))["kernel"]
        for release, acquire in (("MEMBAR.ALL.GPU", "CCTL.IVALL"), ("MEMBAR.ALL.CTA", "NOP"))
    )
    assert flags_out_of_order(kept) == []
    assert [one.address for one in flags_out_of_order(lost)] == [0x20, 0x30]
