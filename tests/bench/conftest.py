"""Rows to test with, and caches small enough to measure them in no time."""

from collections.abc import Iterator

import pandas as pd
import pytest
from small import CASES, COLD_BYTES, FORMATS, PIECE_BYTES

from lab_utils.bench import nsight, operands, sweep


@pytest.fixture(scope="session", autouse=True)
def small_caches() -> Iterator[None]:
    """As if the caches held a megabyte: enough where no time is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(operands.PIECE_BYTES, "cpu", PIECE_BYTES)
        patch.setitem(operands.PIECE_BYTES, "cuda", PIECE_BYTES)
        patch.setattr(operands, "cold_bytes", lambda device: COLD_BYTES)
        operands.cold_buffer.cache_clear()
        yield
    operands.cold_buffer.cache_clear()


@pytest.fixture(scope="session")
def ncu() -> str:
    """Path of the profiler; tests that need it are skipped without one."""
    try:
        return nsight.path()
    except RuntimeError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def rows(small_caches: None) -> pd.DataFrame:
    """Rows of all CASES, measured once."""
    return sweep(CASES, FORMATS, repeats=3)
