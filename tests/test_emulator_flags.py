"""Flags between blocks of a grid, in the emulator: who may see what another block has stored."""

import pytest
import torch
from emulated import launch, machine_of

from lab_utils.backends.simt import KernelFault, Machine

FLAG_IS_SET = 0x4F9710409983DCBA  # kernels/common/ptx.cuh
FAULTS = {  # whichever of the blocks comes first
    "no_wait_for_the_flag": "(stored by block 0 of the grid, no (wait between|flag tells of it)"
    "|read by block [12] of the grid, no wait between)",
    "a_flag_before_others_have_stored": "lane 0: load .*stored by block 0 of .*no flag tells of it",
    "a_wait_for_a_later_block": "waits for a flag that no block before it sets: deadlock",
    "a_flag_set_twice": "sets a flag that is set",
    "a_flag_that_stays_set": "sets a flag that nobody takes away",
    "a_flag_taken_away_before_others_have_seen_it": "waits for a flag that no block before it sets",
    "a_flag_taken_away_unseen": "takes away a flag that it has not seen set",
    "two_store_one_word": "stored by block [012] of the grid, no wait between",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("flags", tmp_path_factory.mktemp("flags"))


def test_a_block_sees_what_a_flag_tells_of_and_takes_it_away(machine) -> None:
    """Twice, in the same memory, which is anything before."""
    C = torch.arange(192, dtype=torch.int32)
    for _ in range(2):
        C[96:] = -1
        launch(machine, "one_waits_for_another", torch.zeros(1), C)
        assert not C[64:66].any() and torch.equal(C[96:128], torch.arange(32, dtype=torch.int32))


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_told(machine, kernel) -> None:
    with pytest.raises(KernelFault, match=rf"^{kernel}: flags.cu:\d+, .*{FAULTS[kernel]}"):
        launch(machine, kernel, torch.zeros(1), torch.zeros(192, dtype=torch.int32))


def test_a_flag_that_is_left_from_before_is_told(machine) -> None:
    C = torch.zeros(192, dtype=torch.int32)
    C[64:66] = torch.tensor([FLAG_IS_SET]).view(torch.int32)
    with pytest.raises(KernelFault, match="sets a flag that is set"):
        launch(machine, "one_waits_for_another", torch.zeros(1), C)
