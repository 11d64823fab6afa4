"""The GPU kernels compile for every architecture, without spilling a register."""

import re

import pytest

from lab_utils import build, toolchains
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
    done = toolchains.run([*command, "--resource-usage"], merged=True)
    kernels = re.findall(r"Compiling entry function '(\w+)' for '(\w+)'", done)
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", done)
    assert {arch for _, arch in kernels} == {f"sm_{a}" for a in Nvcc.ARCHITECTURES}
    assert len(spills) >= len(kernels)
    assert set(spills) == {("0", "0")}
