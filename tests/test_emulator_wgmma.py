"""wgmma in the emulator, against torch: what is right works, planted faults are told."""

import pytest
import torch
from emulated import SOURCES, launch, machine_of
from torch import Tensor

from lab_utils.backends.simt import KernelFault, Machine

THREAD = torch.arange(128)
ROW, T = THREAD // 32 * 16 + THREAD % 32 // 4, THREAD % 4  # of d: row, and row + 8; columns 2T on

READ = "may still be reading: no wait between"
# The first thread that does it; what it is told begins with its place.
FAULTS = {
    "sums_without_a_wait": "warp 1, lane 0: uses a sum that a wgmma may still be computing",
    "sums_of_the_latest_group": "warp 1, lane 0: uses a sum that a wgmma may still be computing",
    "rounded_without_a_wait": "warp 1, lane 0: uses a sum that a wgmma may still be computing",
    "sums_written_too_early": "warp 0: a sum of the wgmma at warpgroups.cu:{two before} was",
    "a_group_that_is_not_committed": "warp 3: ends while a wgmma is under way",
    "stored_while_it_is_read": "warp 0, lane 0: store of 4 bytes at shared address 8192: "
    "a wgmma of warp 3 at warpgroups.cu:{two before} " + READ,
    "stored_while_others_read": "warp 1, lane 0: store of 4 bytes at shared address 0: "
    "a race: read by warp 0, wgmma at warpgroups.cu:{two before}, no barrier between",
    "registers_written_too_early": "warp 0: a register of the wgmma at warpgroups.cu:",
    "no_fence_of_the_proxies": "warp 0: wgmma of 16 bytes at shared address 8192: written by "
    "warp 0, lane 0 at warpgroups.cu:{four before} in another proxy, no fence between",
    "stored_after_the_fence": "warp 0: wgmma of 16 bytes at shared address 8192: written by "
    "warp 2, lane 6 at warpgroups.cu:{four before} in another proxy, no fence between",
    "fenced_behind_the_barrier": "warp 0: wgmma of 16 bytes at shared address 8192: written by "
    "warp 0, lane 0 at warpgroups.cu:",
    "copied_without_a_fence": "warp 0: wgmma of 16 bytes at shared address 8192: written by "
    "warp 0, lane 0 at warpgroups.cu:",
    "no_barrier": "warp 0: wgmma of 16 bytes at shared address 8192: "
    "a race: written by warp 0, lane 0 at warpgroups.cu:{four before}, no barrier between",
    "bulk_copy_under_way": "warp 0: wgmma of 16 bytes at shared address 8192: "
    "a bulk copy by warp 0, lane 0 at warpgroups.cu:",
    "no_wgmma_fence": "warp 0: wgmma without a wgmma_fence since the group before",
    "beyond_shared_memory": "warp 0: wgmma's B: shared address 16384: out of bounds, the block has",
    "inside_of_a_swizzle": "warp 0: wgmma's B: a matrix that does not begin at a line that is",
    "different_operands": "warp 0: the lanes of a warpgroup bring different operands",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("warpgroups", tmp_path_factory.mktemp("warpgroups"))


def numbers(*shape: int, dtype: torch.dtype) -> Tensor:
    """Small whole ones, whose sums are exact."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def words(*matrices: Tensor) -> Tensor:
    return torch.cat([m.contiguous().view(torch.int32).flatten() for m in matrices])


def run(machine: Machine, probe: str, A: Tensor, columns: int, adds: bool) -> Tensor:
    """C [64, columns], as lanes have it."""
    held = torch.zeros(128, columns // 8, 4)
    trace = launch(machine, probe, A, held, M=int(adds))
    operation = "wgmma_sp" if probe.startswith("sparse") else "wgmma"
    assert trace.total(operation).requests == 4 * (4 if operation == "wgmma" else 1)  # of 4 warps
    assert trace.total(operation).wavefronts == 0  # its reads are not those of lanes
    assert trace.total("wgmma_wait").requests == 4
    C = torch.empty(64, columns)
    for j in range(columns // 8):
        for r in range(4):
            C[ROW + r // 2 * 8, 8 * j + 2 * T + r % 2] = held[:, j, r]
    return C


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [8, 16, 32, 64])
def test_dense_products(machine, columns, dtype) -> None:
    a, b = numbers(64, 64, dtype=dtype), numbers(columns, 64, dtype=dtype)
    name = f"dense_{str(dtype).removeprefix('torch.')}_{columns}"
    for adds in (False, True):
        C = run(machine, name, words(a, b), columns, adds)
        assert torch.equal(C, 0.5 * adds + a.float() @ b.float().T)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [24, 32, 40, 64])
def test_sparse_products_select_by_any_metadata(machine, columns, dtype, step) -> None:
    """Also where B is wider than the product; rows of B that nobody selects are NaN."""
    a, b = numbers(64, 16, dtype=dtype), numbers(64, 32 if columns <= 32 else 64, dtype=dtype)
    index = torch.randint(0, 3, (64, 16), generator=torch.Generator().manual_seed(step))
    b[3::4] = torch.nan
    held = [a[ROW + r % 2 * 8, 2 * T + r // 2 * 8 + h] for r in range(4) for h in range(2)]
    metadata = torch.full((128,), -1, dtype=torch.int64)
    mine = step == T // 2
    metadata[mine] = sum(
        index[ROW[mine] + i // 8 * 8, T[mine] % 2 * 8 + i % 8] << 2 * i for i in range(16)
    )
    registers = torch.stack(held, 1).view(torch.int32)
    registers = torch.cat([registers, metadata.to(torch.int32)[:, None]], 1)
    chosen = b[32:].float()[torch.arange(16) // 2 * 4 + index, :columns]  # [64, 16, columns]
    eights = b.view(64, -1, 8).transpose(0, 1).contiguous()
    name = f"sparse_{str(dtype).removeprefix('torch.')}_{columns}_{step}"
    for adds in (False, True):
        C = run(machine, name, words(eights, registers), columns, adds)
        assert torch.equal(C, 0.5 * adds + (a.float()[:, :, None] * chosen).sum(1))


def fault(machine: Machine, kernel: str) -> str:
    with pytest.raises(KernelFault) as caught:
        launch(machine, kernel, torch.zeros(4096, dtype=torch.int32), torch.zeros(4096))
    return str(caught.value)


def lines(kernel: str) -> dict[str, int]:
    """The line marked `here` in a kernel of warpgroups.cu, and lines before it."""
    text = (SOURCES / "warpgroups.cu").read_text()
    here = text[: text.index("// here", text.index(f" {kernel}("))].count("\n") + 1
    return {"here": here, "two before": here - 2, "four before": here - 4}


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_planted_fault_is_told_with_its_place(machine, kernel) -> None:
    at = lines(kernel)
    where = f"{kernel}: warpgroups.cu:{at['here']}, block (0, 0, 0), "
    assert fault(machine, kernel).startswith(where + FAULTS[kernel].format(**at))


@pytest.mark.parametrize("kernel", ["three_warps", "a_wait_of_three_warps"])
def test_warps_that_never_meet_are_told_one_by_one(machine, kernel) -> None:
    here = f"for their warpgroup at warpgroups.cu:{lines(kernel)['here']}"
    assert fault(machine, kernel) == (
        f"{kernel}: divergent warp in block (0, 0, 0); warp 0, lanes 0-31 wait {here}; "
        f"warp 1, lanes 0-31 wait {here}; warp 2, lanes 0-31 wait {here}; "
        "warp 3, lanes 0-31 have ended"
    )
