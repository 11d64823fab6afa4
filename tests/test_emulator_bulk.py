"""mbarriers and bulk copies in the emulator: what is right works, planted faults are told."""

import pytest
import torch
from emulated import SOURCES, launch, machine_of

from lab_utils.backends.simt import KernelFault, Machine

COPY = "a bulk copy by warp 0, lane 0 at bulk.cu:"
# The first thread that does it; what it is told begins with its place.
FAULTS = {
    "no_wait": f"warp 0, lane 0: load of 4 bytes at shared address 1024: {COPY}",
    "wait_for_the_phase_before": f"warp 0, lane 0: load of 4 bytes at shared address 1024: {COPY}",
    "one_lane_waits": f"warp 0, lane 1: load of 4 bytes at shared address 1028: {COPY}",
    "store_into_a_copy": f"warp 0, lane 0: store of 4 bytes at shared address 1024: {COPY}",
    "copy_into_a_copy": f"warp 1, lane 0: bulk copy of 16 bytes at shared address 1152: {COPY}",
    "refilled_too_early": "warp 1, lane 8: bulk copy of 128 bytes at shared address 1024: "
    "a race: read by warp ",
    "read_after_arriving": "warp 1, lane 0: store of 4 bytes at shared address 1024: "
    "a race: read by warp 0, lane 0 at bulk.cu:",
    "filled_by_the_first": f"warp 1, lane 0: load of 4 bytes at shared address 1152: {COPY}",
    "asked_for_several": "warp 0: lane 16 asks for another copy than lane 0",
    "too_many_arrivals": "warp 0, lane 1: arrives at the mbarrier at shared address 0 once more "
    "than the 1 arrivals of a phase",
    "no_mbarrier": "warp 0, lane 0: no mbarrier has been made at shared address 8",
    "no_arrivals": "warp 0, lane 0: mbarrier at shared address 0 of no arrivals",
    "mbarrier_not_shared_yet": "warp 0, lane 1: mbarrier of 8 bytes at shared address 0: "
    "a race: written by warp 0, lane 0 at bulk.cu:",
    "no_fence": "warp 0, lane 0: a bulk copy uses the mbarrier at shared address 0 that was made "
    "at bulk.cu:",
    "odd_bytes": "warp 0, lane 0: bulk copy of 24 bytes: allowed: multiples of 16",
    "misaligned_target": "warp 0, lane 0: bulk copy of 16 bytes at shared address 1032: misaligned",
    "misaligned_source": "warp 0, lane 0: bulk copy of 16 bytes at byte 8 of A: misaligned",
    "misaligned_mbarrier": "warp 0, lane 0: mbarrier of 8 bytes at shared address 4: misaligned",
    "beyond_shared_memory": "warp 0, lane 0: bulk copy of 64 bytes at shared address 16352: "
    "out of bounds, the block has 16384 bytes",
    "beyond_the_array": "warp 0, lane 0: bulk copy of 64 bytes at byte 976 of A: out of bounds",
    "before_the_grid_before": "warp 0, lane 0: store of 4 bytes at byte 0 of C: "
    "the grid before may still use it, no griddepcontrol.wait before",
    "loaded_by_ldg": "warp 0, lane 0: load of 4 bytes at byte 0 of C: "
    "the grid before may still use it, compilers move __ldg to before griddepcontrol.wait",
}
DEADLOCKS = {
    "bytes_that_nobody_copies": "; warp 0, lanes 0-31 wait for the mbarrier at shared address 0 at "
    "bulk.cu:{here} (phase 0: 1 of 1 arrivals, 32 bytes expected that nobody copies)",
    "bytes_that_nobody_expects": "; warp 0, lanes 0-31 wait for the mbarrier at shared address 0 "
    "at bulk.cu:{here} (phase 0: 1 of 1 arrivals, 32 bytes copied that nobody expects)",
    "too_few_arrivals": "; warp 1, lanes 0-31 wait for the mbarrier at shared address 0 at "
    "bulk.cu:{here} (phase 0: 2 of 3 arrivals, 0 bytes expected that nobody copies)",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("bulk", tmp_path_factory.mktemp("bulk"))


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    """A [256] of numbers, at an address that bulk copies can read, and C [256]."""
    memory = torch.zeros(512, dtype=torch.int32)
    A = memory[(-memory.data_ptr() % 128) // 4 :][:256]
    return A.copy_(torch.arange(256)), torch.zeros(256, dtype=torch.int32)


def fault(machine: Machine, kernel: str) -> str:
    with pytest.raises(KernelFault) as caught:
        launch(machine, kernel, *operands(), M=1)
    return str(caught.value)


def line(kernel: str) -> int:
    """The line marked `here` in a kernel of bulk.cu."""
    text = (SOURCES / "bulk.cu").read_text()
    return text[: text.index("// here", text.index(f" {kernel}("))].count("\n") + 1


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_told_with_its_place(machine, kernel) -> None:
    where = f"{kernel}: bulk.cu:{line(kernel)}, block (0, 0, 0), "
    assert fault(machine, kernel).startswith(where + FAULTS[kernel])


@pytest.mark.parametrize("kernel", DEADLOCKS)
def test_a_phase_that_never_ends_is_a_deadlock(machine, kernel) -> None:
    told = fault(machine, kernel)
    assert told.startswith(f"{kernel}: deadlock in block (0, 0, 0); ")
    assert DEADLOCKS[kernel].format(here=line(kernel)) in told


def test_copies_do_not_outlive_their_block(machine) -> None:
    told = fault(machine, "left_under_way")
    here = line("left_under_way")
    assert told.startswith(f"left_under_way: bulk.cu:{here}, block (0, 0, 0): ends while")


def test_a_buffer_is_filled_again_and_again(machine) -> None:
    A, C = operands()
    trace = launch(machine, "refilled", A, C, M=4)
    assert torch.equal(C[:64], A.view(4, 64).sum(0).int())
    copies = trace.total("bulk_copy")
    assert (copies.requests, copies.lanes) == (4, 4)
    assert copies.sectors == copies.least_sectors == 4 * 256 // 32
    assert copies.wavefronts == copies.least_wavefronts == 4 * 256 // 128
    assert trace.total("mbarrier").requests == 1 + 4 + 4 * 2  # made, expected, waited for


def test_arriving_passes_on_what_was_done_before(machine) -> None:
    A, C = operands()
    launch(machine, "producer_and_consumer", A, C, M=5)
    assert torch.equal(C[:160], A[:160]) and not C[160:].any()


def test_who_counts_last_knows_of_the_others(machine) -> None:
    A, C = operands()
    launch(machine, "filled_by_the_last", A, C, M=4)
    assert torch.equal(C[:64], A.view(4, 64).sum(0).int())


def test_lanes_tell_their_warp_of_a_phase(machine) -> None:
    A, C = operands()
    launch(machine, "told_by_the_warp", A, C)
    assert torch.equal(C[:32], A[:32])


def test_counters_begin_again_and_count_who_counts(machine) -> None:
    A, C = operands()
    launch(machine, "counted", A, C, K=4)
    assert C[:64:2].bincount().tolist() == [7, 7, 6, 6, 6] and not C[1:64:2].any()


def test_one_lane_copies_for_a_warp(machine) -> None:
    A, C = operands()
    launch(machine, "copied_by_a_warp", A, C)
    assert torch.equal(C[:64], A[:64])


def test_all_lanes_ask_for_their_warps_copy(machine) -> None:
    told = fault(machine, "asked_by_some")
    assert f"bulk.cu:{line('asked_by_some')}" in told and "lanes 16-31" in told, told
