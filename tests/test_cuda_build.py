"""The GPU kernels compile for every architecture, without spilling a register."""

import re
import subprocess

import pytest

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
