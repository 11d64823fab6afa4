"""Flags between blocks of a grid, in the emulator: who may see what another block has stored."""

import pytest
import torch
from emulated import launch, machine_of

from lab_utils.backends.simt import KernelFault, Machine

FAULTS = {  # whichever of the blocks comes first
    "no_wait_for_the_flag": "(stored by block 0 of the grid, no (wait between|flag tells of it)"
    "|read by block [12] of the grid, no wait between)",
    "a_flag_before_others_have_stored": "lane 1: load .*stored by block 0 of .*no flag tells of it",
    "a_wait_for_a_later_block": "waits for a flag that no block before it sets: deadlock",
    "a_flag_set_twice": "sets a flag that is not 0: it has been set, or nobody has cleared it",
    "two_store_one_word": "stored by block [012] of the grid, no wait between",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("flags", tmp_path_factory.mktemp("flags"))


def test_blocks_see_what_a_flag_tells_of(machine) -> None:
    C = torch.zeros(192, dtype=torch.int32)
    launch(machine, "two_wait_for_one", torch.zeros(1), C)
    assert C[64] == 1 and torch.equal(C[128:], torch.arange(32, dtype=torch.int32).repeat(2))


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_told(machine, kernel) -> None:
    with pytest.raises(KernelFault, match=rf"^{kernel}: flags.cu:\d+, .*{FAULTS[kernel]}"):
        launch(machine, kernel, torch.zeros(1), torch.zeros(192, dtype=torch.int32))


def test_a_flag_that_nobody_has_cleared_is_told(machine) -> None:
    C = torch.zeros(192, dtype=torch.int32)
    C[64] = 7
    with pytest.raises(KernelFault, match="a flag that is not 0"):
        launch(machine, "two_wait_for_one", torch.zeros(1), C)
