"""The ladder's kernels, each time without one of their waits and barriers: the emulator tells."""

import re

import pytest
import torch
from robbed import Kernels, robbed

from lab_utils import ladder
from lab_utils.backends.simt import KernelFault
from lab_utils.ladder import RUNGS
from lab_utils.ladder.rungs import SOURCES
from lab_utils.patterns import random_sparse

SYNCHRONISES = re.compile(r"__sync(?:threads|warp)\(\)|cp_async_wait<\w+>\(\)")
RUNG_OF = {rung.kernel: name for name, rung in RUNGS.items()}  # one of those that launch it
ROBBED = robbed((SOURCES / f"{kernel}.cu" for kernel in RUNG_OF), SYNCHRONISES)
LOST = r"no (barrier|wait) between|nothing has been written"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return Kernels(SOURCES.glob("*.cu"), ROBBED, tmp_path_factory.mktemp("robbed"))


def emulate(kernel: str) -> None:
    A = ladder.encode(RUNG_OF[kernel], random_sparse(200, 330, 0.5, seed=1))
    ladder.emulate(A, torch.ones(330, 16).half())


@pytest.mark.parametrize("case", ROBBED, ids=str)
def test_no_synchronisation_of_a_rung_can_go(kernels, monkeypatch, case) -> None:
    monkeypatch.setattr(ladder.launch, "machine", lambda: kernels.without(case))
    kernel = case.source.stem
    with pytest.raises(KernelFault, match=rf"^{kernel}<.* ({LOST})"):
        emulate(kernel)


@pytest.mark.parametrize("kernel", RUNG_OF)
def test_with_all_of_them_nothing_is_wrong(kernels, monkeypatch, kernel: str) -> None:
    monkeypatch.setattr(ladder.launch, "machine", lambda: kernels.without(None))
    emulate(kernel)
