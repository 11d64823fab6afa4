"""`make sanitize` leaves no library of GPU kernels out, and says why it cannot run."""

import subprocess
import sys
from pathlib import Path

import pytest
import sanitize
import torch

from lab_utils.baselines import BASELINES


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


@pytest.mark.gpu
@pytest.mark.parametrize("library", sanitize.CHECKS)
def test_what_it_runs_is_right(library: str) -> None:
    assert len(list(sanitize.CHECKS[library]())) > 10
