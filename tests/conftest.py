"""What all tests share: the machine's abilities decide which of them run."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from emulated_encode import encoders, on_gpu  # noqa: F401, fixtures
from hypothesis import settings
from llm_commands import checkpoint, pruned  # noqa: F401, fixtures

settings.register_profile("lscd", deadline=None)  # a busy machine is no mistake
settings.load_profile("lscd")

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = (
    f"no browser found ({', '.join(BROWSERS)}); on Debian: apt-get install chromium, "
    "on Ubuntu: snap install chromium"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped, with the reason, where torch sees no CUDA device."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device; torch.cuda.is_available() is False")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Notebooks made for the tests, most of them broken on purpose."""
    return ROOT / "tests" / "fixtures"


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of a Chromium or Chrome; tests that need it are skipped without one, except in CI."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(NO_BROWSER)
    if found is None:
        pytest.skip(NO_BROWSER)
    return found
