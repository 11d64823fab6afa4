"""What the emulator counts, on kernels whose costs can be worked out by hand."""

import pytest
import torch
from emulated import launch, machine_of
from torch import Tensor

from lab_utils.analysis.kernel_trace import Counts, KernelTrace
from lab_utils.backends.simt import Machine


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_of("counted", tmp_path_factory.mktemp("counted"))


@pytest.fixture
def A() -> Tensor:
    return torch.arange(1024, dtype=torch.int32).float()


@pytest.fixture
def C() -> Tensor:
    return torch.zeros(1024, dtype=torch.int32)


@pytest.mark.parametrize(
    ("probe", "same", "stride", "wavefronts", "least"),
    [
        ("floats", 1, 1, 1, 1),  # lane i at word i: no conflict
        ("floats", 1, 2, 2, 1),  # two lanes a bank
        ("floats", 1, 33, 1, 1),
        ("floats", 1, 32, 32, 1),  # all in bank 0
        ("floats", 32, 1, 1, 1),  # one word for all: broadcast
        ("floats", 4, 32, 8, 1),  # eight words of bank 0, each for four lanes
        ("doubles", 1, 1, 2, 2),  # half warps
        ("doubles", 1, 2, 4, 2),
        ("doubles", 2, 1, 1, 1),  # equal pairs: half warps go at once
        ("doubles", 32, 1, 1, 1),
        ("vectors", 1, 1, 4, 4),  # quarter warps
        ("vectors", 1, 2, 8, 4),
        ("vectors", 2, 1, 2, 2),
        ("vectors", 2, 2, 4, 2),  # a conflict: no parts are joined
        ("vectors", 32, 1, 2, 1),  # a broadcast of 16 bytes goes to half warps, one by one
    ],
)
def test_wavefronts(machine, A, C, probe, same, stride, wavefronts, least) -> None:
    """`same` neighbours share an element, `stride` elements from the next one."""
    trace = launch(machine, probe, A, C, M=same, K=stride)
    loads = trace.total("shared_load")
    assert (loads.requests, loads.lanes) == (1, 32)
    assert (loads.wavefronts, loads.least_wavefronts) == (wavefronts, least)
    if same == 1:
        stores = trace.total("shared_store")
        assert (stores.wavefronts, stores.least_wavefronts) == (wavefronts, least)


def test_halves_of_a_word_are_no_conflict(machine, A, C) -> None:
    assert launch(machine, "halves_of_words", A, C).total() == Counts(1, 32, 1, 1, 0, 0)


@pytest.mark.parametrize(("pitch", "wavefronts"), [(16, 4), (144, 4), (32, 8), (64, 16), (128, 32)])
def test_rows_of_ldmatrix(machine, A, C, pitch, wavefronts) -> None:
    counts = launch(machine, "ldmatrix_rows", A, C, M=pitch).total("ldmatrix")
    assert (counts.requests, counts.wavefronts, counts.least_wavefronts) == (1, wavefronts, 4)


@pytest.mark.parametrize(("stride", "sectors"), [(0, 1), (1, 4), (2, 8), (4, 16), (8, 32), (9, 32)])
def test_sectors(machine, A, C, stride, sectors) -> None:
    trace = launch(machine, "global_stride", A, C, M=stride, K=max(stride, 1))
    loads, stores = trace.total("global_load"), trace.total("global_store")
    assert (loads.sectors, loads.least_sectors) == (sectors, 4 if stride else 1)
    assert (stores.sectors, stores.least_sectors) == (max(sectors, 4), 4)


def test_requests_are_counted_by_warp(machine, A, C) -> None:
    assert launch(machine, "some_lanes", A, C, M=20, K=3).total() == Counts(3, 3 * 12)
    assert launch(machine, "some_lanes", A, C, M=32, K=3).total() == Counts()


def test_shuffles_and_votes(machine, A, C) -> None:
    trace = launch(machine, "shuffles", A, C)
    lane = torch.arange(32)
    assert bool((C[:32] == 5).all())
    assert C[32:64].tolist() == torch.where(lane < 3, lane, lane - 3).tolist()
    assert C[64:96].tolist() == torch.where(lane > 28, lane, lane + 3).tolist()
    assert C[96:128].tolist() == (lane ^ 1).tolist()
    assert bool((C[128:160] == 0x11111111).all())
    assert bool((C[160:176] == 15).all()) and bool((C[176:192] == 0).all())
    assert (trace.total("shuffle").requests, trace.total("vote").requests) == (5, 1)


def test_atomics_are_no_race(machine, A, C) -> None:
    trace = launch(machine, "least", A, C)
    assert C[0] == 40 - 31 and trace.total("atomic") == Counts(2, 64)


def test_watched_requests_tell_every_address(machine, A, C) -> None:
    trace: KernelTrace = launch(machine, "exchange", A, C, watch=0)
    assert C[:64].tolist() == [i + (i + 32) % 64 for i in range(64)]
    loads = [r for r in trace.requests if r.place.operation == "shared_load"]
    assert [r.warp for r in loads] == [0, 1]
    assert loads[0].shared == tuple(range(128, 256, 4)) and loads[0].shared_bytes == 4
    stores = [r for r in trace.requests if r.place.operation == "global_store"]
    assert stores[1].array == "C" and stores[1].offsets == tuple(range(128, 256, 4))
    assert [r.counts.sectors for r in stores] == [4, 4]
    assert trace.kernels == ("exchange",) and trace.total("barrier").requests == 2


def test_blocks_are_no_larger_than_a_gpu_has_them(machine, A, C) -> None:
    with pytest.raises(RuntimeError, match="failed with cudaError_t 1, in the emulator"):
        launch(machine, "more_threads_than_a_block_has", A, C)
    launch(machine, "exchange", A, C)  # the machine goes on


def test_a_trace_reads_like_the_source(machine, A, C) -> None:
    trace = launch(machine, "exchange", A, C)
    frame = trace.frame().set_index("operation")
    assert frame.loc["shared_store", "text"] == "shared.store(i, i);"
    assert frame.loc["shared_store", "file"] == "tests/kernels/counted.cu"
    assert "shared.store(i, i);" in str(trace)
    with pytest.raises(ValueError, match="operation='load': unknown; allowed: shared_load"):
        trace.total("load")
