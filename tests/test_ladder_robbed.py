"""The ladder's kernels, each time without one of their waits and barriers: the emulator tells."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from emulated import compiled, linked

from lab_utils import ladder
from lab_utils.backends.kernel_trace import KernelFault
from lab_utils.backends.simt import Machine
from lab_utils.ladder import RUNGS
from lab_utils.ladder.rungs import SOURCES
from lab_utils.patterns import random_sparse
from lab_utils.toolchains import KERNELS

SYNCHRONISES = re.compile(r"__sync(?:threads|warp)\(\)|cp_async_wait<\w+>\(\)")
RUNG_OF = {rung.kernel: name for name, rung in RUNGS.items()}  # one of those that launch it
ROBBED = [
    (kernel, match.start())
    for kernel in RUNG_OF
    for match in SYNCHRONISES.finditer((SOURCES / f"{kernel}.cu").read_text())
]
LOST = r"no (barrier|wait) between|nothing has been written"


def described(case: tuple[str, int]) -> str:
    text = (SOURCES / f"{case[0]}.cu").read_text()
    line = text.count("\n", 0, case[1]) + 1
    return f"{case[0]}.cu:{line} {SYNCHRONISES.match(text, case[1])[0]}"


@pytest.fixture(scope="module")
def robbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Machine]:
    """By kernel and place in its source, the ladder without what stands there."""
    folder = tmp_path_factory.mktemp("robbed") / "kernels"
    (folder / "ladder").mkdir(parents=True)
    for shared in (KERNELS / "common", KERNELS / "emulator", *SOURCES.glob("*.cuh")):
        (folder / shared.relative_to(KERNELS)).symlink_to(shared)

    def build(name: str, text: str) -> Path:
        copy = folder / "ladder" / f"{name}.cu"
        copy.write_text(text)
        return compiled(copy, copy.with_suffix(".o"))

    def build_robbed(case: tuple[str, int]) -> Path:
        text = (SOURCES / f"{case[0]}.cu").read_text()
        without = SYNCHRONISES.sub("void()", text[case[1] :], count=1)
        return build("_".join(map(str, case)), text[: case[1]] + without)

    with ThreadPoolExecutor(2) as pool:
        whole = list(pool.map(lambda s: build(s.stem, s.read_text()), SOURCES.glob("*.cu")))
        parts = list(pool.map(build_robbed, ROBBED))
    return {
        case: linked([part, *(w for w in whole if w.stem != case[0])], part.with_suffix(".so"))
        for case, part in zip(ROBBED, parts, strict=True)
    }


@pytest.mark.parametrize("case", ROBBED, ids=described)
def test_no_synchronisation_of_a_rung_can_go(robbed, monkeypatch, case) -> None:
    monkeypatch.setattr(ladder.launch, "machine", lambda: robbed[case])
    A = ladder.encode(RUNG_OF[case[0]], random_sparse(200, 330, 0.5, seed=1))
    with pytest.raises(KernelFault, match=rf"^{case[0]}<.* ({LOST})"):
        ladder.emulate(A, torch.ones(330, 16).half())
