"""Memory of the device: what one process takes of it, what is too little, and what was planned."""

import os
import subprocess
import sys

import pytest
import torch

from lab_utils import catalog, machine
from lab_utils.analysis import memory
from lab_utils.llm.measuring import device_memory


def test_a_peak_counts_this_process_alone_where_the_driver_tells(monkeypatch) -> None:
    """Another program has 70 bytes of the 100."""
    told = {os.getpid(): 25, 0: 70}
    for name, value in {"mem_get_info": (5, 100), "memory_reserved": 20,
                        "max_memory_reserved": 23}.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    monkeypatch.setattr(machine, "gpu_processes", lambda device: told)
    assert device_memory.peak_bytes(torch.device("cuda")) == 23 + 5
    told.pop(os.getpid())
    assert device_memory.peak_bytes(torch.device("cuda")) == 23 + 95 - 20


def test_the_host_has_its_memory() -> None:
    assert 1e8 < device_memory.capacity("cpu") < 1e14


def test_ranks_on_one_host_share_its_memory(monkeypatch) -> None:
    whole = device_memory.capacity("cpu")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert device_memory.capacity("cpu") == whole / 4


def test_out_of_memory_of_the_host_is_named() -> None:
    with (
        pytest.raises(RuntimeError, match="OPT-30B, batch=8: out of memory: .*allocate"),
        device_memory.out_of_memory_named("OPT-30B", {"batch": 8}),
    ):
        torch.empty(2**60, dtype=torch.int8)
    with (
        pytest.raises(RuntimeError, match="^other$"),
        device_memory.out_of_memory_named("OPT-30B", {"batch": 8}),
    ):
        raise RuntimeError("other")


def test_out_of_memory_is_named() -> None:
    with (
        pytest.raises(RuntimeError, match="OPT-30B, batch=8: out of memory: 12 GB"),
        device_memory.out_of_memory_named("OPT-30B", {"batch": 8}),
    ):
        raise torch.OutOfMemoryError("12 GB")


# --- on a GPU


MEASURE = """
import sys, torch
from lab_utils.llm.checkpoint import opened
from lab_utils.llm.measuring import Sweep
from lab_utils.llm.pruning import Target
sweep = Sweep(opened("OPT-6.7B", device="cuda"), Target(0.8), output=64, breakdown=False,
              device="cuda")
row = next(sweep.rows(sys.argv[1:], [16]))
print(torch.cuda.max_memory_reserved() / 1e9, row["peak_gb"])
"""


@pytest.mark.gpu
@pytest.mark.parametrize("format", ["dense", "tca_bme", "tiled_csl", "zero_row_24"])
def test_peak_is_what_the_planner_predicts(format: str) -> None:
    """Within 3 % on a model of some GB, of torch's allocator: other programs have no part in it.

    In a process of its own, which measures nothing else.
    """
    command = [sys.executable, "-c", MEASURE, format]
    place = os.environ | {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=place)
    allocated, peak = map(float, done.stdout.split())
    work = memory.Workload(catalog.model("OPT-6.7B"), format, 0.8, 16, 64, 64)
    planned = (memory.total(work) - memory.CONTEXT_BYTES) / 1e9
    assert allocated == pytest.approx(planned, rel=0.03) and peak > allocated


@pytest.mark.gpu
def test_the_context_is_as_large_as_planned() -> None:
    """To a factor of two: it grows with what a process has run."""
    device = torch.device("cuda", torch.cuda.current_device())
    x = torch.ones(64, 64, device=device, dtype=torch.float16)
    x @ x  # loads what every process has
    if os.getpid() not in machine.gpu_processes(device):
        pytest.skip("the driver does not tell what this process has on the GPU")
    found = device_memory.outside_bytes(device)
    assert memory.CONTEXT_BYTES / 2 < found < 2 * memory.CONTEXT_BYTES
