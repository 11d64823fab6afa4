"""Clusters in the emulator: blocks reach each other's shared memory; planted faults are told."""

import re

import pytest
import torch
from emulated import SOURCES, launch, machine_of

from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.backends.simt import KernelFault, Machine

WHOLE = "bulk copy of 256 bytes"
FAULTS = {  # behind its place: the block, the first of it that does it, and what it is told
    "no_proxy_fence": (1, 2, f"lane 0: {WHOLE} at shared address 1024 of rank 1: written by "
    r"warp 2, lane 0 at clusters.cu:\d+ in another proxy, no fence between"),
    "no_wait": (0, 0, "lane 0: load of 4 bytes at shared address 2048 of rank 0: a bulk copy by "
    r"warp 2, lane 0 at clusters.cu:\d+ may still be writing: no wait between"),
    "sent_again": (1, 3, f"lane 0: {WHOLE} at shared address 2048 of rank 0: a bulk copy by "
    r"warp 2, lane 0 at clusters.cu:\d+ may still be writing: no wait between"),
    "freed_too_early": (1, 2, f"lane 0: {WHOLE} at shared address 2048 of rank 0: a race: read by "
    r"warp [01], lanes? [-0-9]+ at clusters.cu:\d+, no barrier between"),
    "source_overwritten": (1, 2, "lane 0: store of 4 bytes at shared address 1024 of rank 1: "
    r"a bulk copy by warp 2, lane 0 at clusters.cu:\d+ may still be reading: no wait between"),
    "beyond_the_own_part": (1, 2, "lane 0: load of 4 bytes at shared address 16384 of rank 1: "
    "out of bounds, the block has 16384 bytes"),
    "in_the_next_part": (0, 0, r"lane 0: store of 4 bytes at shared address \d+: out of"),
    "in_the_next_part_by_pointer": (
        0, 0, r"lane 0: store of 4 bytes at shared address \d+: out of"
    ),
    "in_the_part_before": (1, 2, r"lane 0: load of 4 bytes at shared address -\d+: out of bounds"),
    "beyond_the_other_part": (0, 0, f"lane 0: {WHOLE} at shared address 16256 of rank 1: "
    "out of bounds, the block has 16384 bytes"),
    "no_such_rank": (0, 0, "lane 0: rank 2 of a cluster of 2"),
    "copied_from_the_other": (0, 0, f"lane 0: {WHOLE} at shared address 1024 of rank 1: "
    "it can read its own block's only"),
    "counted_elsewhere": (0, 0, "lane 0: a bulk copy to another block than that of its mbarrier "
    "at shared address 0 of rank 0"),
    "odd_bytes": (0, 0, "lane 0: bulk copy of 24 bytes: allowed: multiples of 16"),
    "not_made_yet": (0, 0, "lane 0: (no mbarrier has been made|mbarrier of 8 bytes) "
    "at shared address 16 of rank 1"),
    "stores_too_early": (1, 2, "lane 0: store of 4 bytes at byte 256 of C: the grid before may "
    "still use it, no griddepcontrol.wait before"),
}  # fmt: skip
ENDS = {  # the block that ends too early
    "ends_before_an_arrival": (1, "another block's arrival there is under way"),
    "ends_before_its_copy": (0, "a bulk copy from its shared memory is under way"),
    "copy_that_nobody_awaits": (1, "a bulk copy that the mbarrier at shared address 0 of rank 1"),
}
STUCK = {
    "too_few_arrive": "deadlock in block (0, 0, 0); warp 0 of the cluster, lanes 0-31 have ended; "
    "warp 1 of the cluster, lanes 0-31 have ended; warp 2 of the cluster, lanes 0-31 wait for the "
    "mbarrier at shared address 8 of rank 1 at clusters.cu:{here} (phase 0: 63 of 64 arrivals, ",
    "some_miss_the_barrier": "divergent barrier in block (0, 0, 0); warp 0 of the cluster, "
    "lanes 0-31 wait at the cluster's barrier of clusters.cu:{here}; ",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("clusters", tmp_path_factory.mktemp("clusters"))


def result(machine: Machine, kernel: str, blocks: int = 2, K: int = 1) -> torch.Tensor:
    """C [2][blocks][64], of a grid of two rows."""
    C = torch.zeros(2, blocks, 64, dtype=torch.int32)
    launch(machine, kernel, torch.zeros(1), C, M=blocks, K=K)
    return C


def fault(machine: Machine, kernel: str) -> str:
    with pytest.raises(KernelFault) as caught:
        result(machine, kernel)
    return str(caught.value)


def line(kernel: str) -> int:
    """The line marked `here` in a kernel of clusters.cu."""
    text = (SOURCES / "clusters.cu").read_text()
    return text[: text.index("// here", text.index(f" {kernel}("))].count("\n") + 1


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_blocks_of_a_cluster_send_to_each_other(machine, turns) -> None:
    C = result(machine, "exchanged", 6, turns)
    other = torch.arange(12).view(2, 6)[:, [1, 0, 3, 2, 5, 4]]
    once = 100 * other[..., None] + torch.arange(64)
    assert torch.equal(C, (turns * once + 1000 * sum(range(turns))).int())


def test_blocks_know_their_rank_and_place(machine) -> None:
    C = result(machine, "numbered", 6)
    x, y = torch.arange(6), torch.arange(2)[:, None]
    assert torch.equal(C[..., 0], (1000 * (x % 2) + 100 * x + 10 * y).int())
    assert torch.equal(C[..., 63], C[..., 0] + 1)


def test_a_cluster_of_one_block_is_a_block(machine) -> None:
    C = result(machine, "clusters_of", 3, K=1)
    assert torch.equal(C[..., 0], (100 * torch.arange(3) + 10 * torch.arange(2)[:, None]).int())


def test_a_barrier_of_one_block_is_not_for_the_other(machine) -> None:
    C = result(machine, "one_meets_alone", 4)
    assert torch.equal(C[:, ::2], (10 * (63 - torch.arange(64)) + 2).int().expand(2, 2, 64))


def test_a_pointer_is_to_the_memory_of_the_own_block(machine) -> None:
    C = result(machine, "by_pointer", 4)
    assert torch.equal(C[..., 1:], torch.arange(8).int().view(2, 4, 1).expand(2, 4, 63))
    assert torch.equal(C[..., 0], torch.full((2, 4), 7).int())


def test_products_of_each_block_are_of_its_own_matrices(machine) -> None:
    A = torch.randn(4, 72, 64, generator=torch.Generator().manual_seed(0)).half()
    C = torch.zeros(4, 4, 8, 4, 2, 2)  # block, warp, g, t, half of rows, column
    launch(machine, "products", A, C, M=4)
    found = C.permute(0, 1, 4, 2, 3, 5).reshape(4, 64, 8)
    torch.testing.assert_close(
        found, A[:, :64].float() @ A[:, 64:].float().mT, rtol=1e-5, atol=1e-4
    )


def test_the_watched_block_is_a_cluster(machine) -> None:
    C = torch.zeros(2, 4, 64, dtype=torch.int32)
    trace: KernelTrace = launch(machine, "numbered", torch.zeros(1), C, M=4, watch=3)
    stores = [r for r in trace.requests if r.place.operation == "global_store"]
    assert [r.warp for r in stores] == [0, 1, 2, 3]
    assert [min(r.offsets) for r in stores] == [4 * 64 * 6 + 128 * i for i in range(4)]


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_told_with_its_place(machine, kernel) -> None:
    block, warp, what = FAULTS[kernel]
    where = (
        f"{kernel}: clusters.cu:{line(kernel)}, block ({block}, 0, 0), warp {warp} of the cluster, "
    )
    assert re.match(re.escape(where) + what, fault(machine, kernel))


@pytest.mark.parametrize("kernel", ENDS)
def test_a_block_must_not_end_while_another_reaches_it(machine, kernel) -> None:
    block, what = ENDS[kernel]
    where = f"{kernel}: clusters.cu:{line(kernel)}, block ({block}, 0, 0): ends while "
    assert fault(machine, kernel).startswith(where + what)


@pytest.mark.parametrize("kernel", STUCK)
def test_a_wait_without_end_is_told(machine, kernel) -> None:
    expected = STUCK[kernel].format(here=line(kernel))
    assert fault(machine, kernel).startswith(f"{kernel}: {expected}")


@pytest.mark.parametrize(("blocks", "cluster"), [(3, 2), (1, 2), (4, 4), (6, 3)])
def test_what_is_no_cluster_here_is_refused(machine, blocks, cluster) -> None:
    with pytest.raises(RuntimeError, match="failed with cudaError_t 1, in the emulator"):
        result(machine, "clusters_of", blocks, cluster)
