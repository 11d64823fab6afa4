"""`make sanitize` leaves no library of GPU kernels out, and says why it cannot run."""

import subprocess
import sys
from pathlib import Path

import pytest
import sanitize
import torch

from lab_utils import encode
from lab_utils.backends import cuda, hopper_wgmma
from lab_utils.baselines import BASELINES
from lab_utils.patterns import random_sparse


def test_every_library_of_gpu_kernels_has_a_check() -> None:
    assert set(sanitize.gpu_libraries()) <= set(sanitize.CHECKS)
    assert set(sanitize.OWN_BASELINES) <= set(BASELINES)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says why only where there is no GPU")
def test_it_fails_where_there_is_no_gpu(root: Path) -> None:
    command = [sys.executable, str(root / "tests" / "sanitize.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "sanitize: torch sees no CUDA device\n")


def test_an_unknown_library_is_named(root: Path) -> None:
    command = [sys.executable, str(root / "tests" / "sanitize.py"), "cuda", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "library='cpu': unknown; allowed: cuda, " in done.stderr


def test_a_missing_sanitizer_is_named(root: Path) -> None:
    command = ["make", "-C", str(root), "-o", "build", "SANITIZER=no-such-tool", "sanitize"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "compute-sanitizer not found" in done.stderr


def test_flags_are_written_before_a_launch_and_nothing_else() -> None:
    """They are as kernels have them: behind the sums of each slot, one of 64 bits for each warp."""
    A = encode(random_sparse(400, 900, 0.5), "bitmap_strips")
    launch = hopper_wgmma.launch_of(A, 300, hopper_wgmma.layout_of(A, 300, 1, 2))
    ready = cuda.Ready(launch, 1, *launch.scratch_in_one())
    unwritten = torch.full((ready.scratch_bytes,), 7, dtype=torch.uint8)
    memory = sanitize.scratch_with_flags(ready, torch.empty(0), lambda *_: unwritten)
    (passes, slots, _), warps = launch.sums, launch.problem.warps
    assert slots and int((memory == 0).sum()) == passes * slots * warps * 8


@pytest.mark.gpu
@pytest.mark.parametrize("library", sanitize.CHECKS)
def test_what_it_runs_is_right(library: str) -> None:
    assert len(list(sanitize.CHECKS[library]())) > 10
