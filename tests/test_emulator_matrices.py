"""The Hopper kernel's matrix instructions and loads in the emulator, against torch."""

import pytest
import torch
from emulated import launch, machine_of
from torch import Tensor

from lab_utils.analysis.kernel_trace import Counts
from lab_utils.backends.simt import KernelFault, Machine

LANE = torch.arange(32)
G, T = LANE // 4, LANE % 4


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("matrices", tmp_path_factory.mktemp("matrices"))


def random_words(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(2**31), 2**31, shape, generator=generator, dtype=torch.int32)


def run(machine: Machine, probe: str, A: Tensor, **sizes: int) -> Tensor:
    """C [32, 4]: what each lane has received."""
    C = torch.zeros(128, dtype=torch.int32)
    launch(machine, probe, A.contiguous(), C, **sizes)
    return C.view(32, 4)


def elements(d: Tensor) -> Tensor:
    """[16, 8] of what lanes hold of an mma's d [32, 4]."""
    full = d.new_empty(16, 8)
    for r in range(4):
        full[G + r // 2 * 8, 2 * T + r % 2] = d[:, r]
    return full


def test_bmma_counts_common_bits(machine) -> None:
    words = random_words(32, 7)
    bits = (words[:, :3, None] >> torch.arange(32) & 1).view(8, 4, 3, 32)  # g, t, operand, bit
    rows, columns = bits[:, :, :2], bits[:, :, 2].reshape(8, 128)
    a = torch.cat([rows[:, :, i].reshape(8, 128) for i in range(2)])  # [16, 128]
    expected = (a @ columns.T).int() + elements(words[:, 3:])
    assert torch.equal(elements(run(machine, "bmma", words)), expected)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_mma_sp_selects_by_any_metadata(machine, dtype, step) -> None:
    """All 16 codes of a group: two indices, in any order, each of any of the four rows."""
    generator = torch.Generator().manual_seed(step)
    a = torch.randint(-4, 5, (16, 16), generator=generator).to(dtype)
    b = torch.randint(-4, 5, (32, 8), generator=generator).to(dtype)
    index = torch.randint(0, 4, (16, 16), generator=generator)
    index[:, :2] = torch.stack([torch.arange(16) % 4, torch.arange(16) // 4], 1)
    lanes = torch.stack(
        [a[G + r % 2 * 8, 2 * T + r // 2 * 8 + h] for r in range(4) for h in range(2)]
        + [b[2 * T + r * 8 + h, G] for r in range(4) for h in range(2)],
        1,
    ).view(torch.int32)  # [32, 8]
    metadata = torch.full((32,), -1, dtype=torch.int64)
    mine = step == T // 2
    metadata[mine] = sum(
        index[G[mine] + i // 8 * 8, T[mine] % 2 * 8 + i % 8] << 2 * i for i in range(16)
    )
    words = torch.cat([lanes, metadata.to(torch.int32)[:, None]], 1)
    chosen = b.float()[torch.arange(16) // 2 * 4 + index]  # [16, 16, 8]
    expected = (a.float()[:, :, None] * chosen).sum(1) + 0.5
    name = f"mma_sp_{str(dtype).removeprefix('torch.')}_{step}"
    assert torch.equal(elements(run(machine, name, words).view(torch.float32)), expected)


@pytest.mark.parametrize("probe", ["ldmatrix_trans", "stmatrix_trans"])
def test_matrices_are_transposed(machine, probe) -> None:
    words = random_words(32, 4)
    rows = words.view(torch.int16).view(4, 8, 8)  # matrix, row, column: a row from each lane
    fragments = torch.stack([rows.transpose(1, 2)[:, G, 2 * T + h] for h in range(2)], 2)
    expected = fragments.transpose(0, 1).reshape(32, 8)
    if probe == "ldmatrix_trans":
        assert torch.equal(run(machine, probe, words, M=16).view(torch.int16), expected)
    else:  # from the fragments back to the rows
        held = expected.contiguous().view(torch.int32)
        assert torch.equal(run(machine, probe, held, M=16), words)


@pytest.mark.parametrize(("pitch", "wavefronts"), [(16, 4), (144, 4), (32, 8), (128, 32)])
def test_wavefronts_of_matrices(machine, pitch, wavefronts) -> None:
    C = torch.zeros(128, dtype=torch.int32)
    for probe in ("ldmatrix", "stmatrix"):
        trace = launch(machine, f"{probe}_trans", random_words(32, 4), C, M=pitch)
        assert trace.total(probe) == Counts(1, 32, wavefronts, 4, 0, 0)


@pytest.mark.parametrize(
    ("bytes_", "step", "requests", "wavefronts"),
    [(2, 2, 1, 1), (2, 128, 1, 32), (3, 2, 2, 2), (3, 4, 2, 2), (4, 4, 1, 1), (4, 8, 1, 2),
     (8, 8, 1, 2), (16, 16, 1, 4), (16, 0, 1, 2)],
)  # fmt: skip
def test_loads_by_address(machine, bytes_, step, requests, wavefronts) -> None:
    C = torch.zeros(32, dtype=torch.int32)
    trace = launch(machine, "loads", C.clone(), C, M=bytes_, K=step)
    halves = torch.arange(1024, dtype=torch.int32).view(torch.int16).int() & 0xFFFF
    first = LANE * step // 2
    last = halves[first + (max(bytes_, 4) - 4) // 2]
    high = 0 if bytes_ == 2 else halves[(first + (1 if bytes_ < 8 else bytes_ // 2 - 1))]
    assert torch.equal(C, last + (high << 16) if bytes_ != 2 else halves[first])
    loads = trace.total("shared_load")
    assert (loads.requests, loads.wavefronts) == (requests, wavefronts)


@pytest.mark.parametrize("probe", ["mma_sp", "bmma", "stmatrix"])
def test_the_whole_warp_takes_part(machine, probe) -> None:
    with pytest.raises(
        KernelFault, match=f"{probe.replace('_', '.')} needs all 32 lanes, not lanes 0-15"
    ):
        run(machine, f"{probe}_of_some", random_words(4), M=16)


def test_misaligned_loads_are_told(machine) -> None:
    told = "lane 1: load of 8 bytes at shared address 4: misaligned"
    with pytest.raises(KernelFault, match=told):
        launch(machine, "loads", torch.zeros(1), torch.zeros(32), M=8, K=4)
