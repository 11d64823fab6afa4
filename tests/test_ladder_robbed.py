"""The ladder's kernels, each time without one of their waits and barriers: the emulator tells."""

import re

import pytest
import torch
from robbed import Robbed, machines_of, robbed

from lab_utils import ladder
from lab_utils.backends.simt import KernelFault, Machine
from lab_utils.ladder import RUNGS
from lab_utils.ladder.rungs import SOURCES
from lab_utils.patterns import random_sparse

SYNCHRONISES = re.compile(r"__sync(?:threads|warp)\(\)|cp_async_wait<\w+>\(\)")
RUNG_OF = {rung.kernel: name for name, rung in RUNGS.items()}  # one of those that launch it
ROBBED = robbed((SOURCES / f"{kernel}.cu" for kernel in RUNG_OF), SYNCHRONISES)
LOST = r"no (barrier|wait) between|nothing has been written"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[Robbed, Machine]:
    """By kernel and place in its source, the ladder without what stands there."""
    return machines_of(SOURCES, ROBBED, tmp_path_factory.mktemp("robbed"))


@pytest.mark.parametrize("case", ROBBED, ids=str)
def test_no_synchronisation_of_a_rung_can_go(machines, monkeypatch, case) -> None:
    monkeypatch.setattr(ladder.launch, "machine", lambda: machines[case])
    kernel = case.source.stem
    A = ladder.encode(RUNG_OF[kernel], random_sparse(200, 330, 0.5, seed=1))
    with pytest.raises(KernelFault, match=rf"^{kernel}<.* ({LOST})"):
        ladder.emulate(A, torch.ones(330, 16).half())
