"""What a product costs in joules, and how long it takes a GPU that has not rested.

`lab bench` times a few milliseconds of each kernel. A model multiplies for minutes: then a GPU
reaches its limit of power, and lowers its clocks until it keeps it. Here every contender runs
alone, without a pause, while the GPU's own meters are read.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from lab_utils.bench import cuda
from lab_utils.bench.cases import Case
from lab_utils.bench.measuring import checked_device
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures
from lab_utils.bench.tables import text_table
from lab_utils.machine import stamp
from lab_utils.power import MeterError, PowerMeter, Reading, check_metered, watts_and_mhz
from lab_utils.results import rounded

REST_S, WARM_S = 0.5, 0.4  # before a GPU counts as rested, and as warm
RESTED_REPLAYS = 3
BURST_US = 10_000.0  # between two looks at the meters


@dataclass(frozen=True)
class Load:
    """Replays of `launches` launches, about `time_us` each, for as long as one wants.

    `mark()` returns what waits until all replays before it are done.
    """

    replay: Callable[[], object]
    launches: int
    time_us: float
    mark: Callable[[], Callable[[], object]]

    def run(self, seconds: float, look: Callable[[], object] = lambda: None) -> tuple[int, float]:
        """Launches and seconds of replays without a pause; `look()` is called while they run."""
        burst = max(1, round(BURST_US / (self.launches * self.time_us)))
        start, done, wait = time.perf_counter(), 0, self.mark()
        while time.perf_counter() - start < seconds or not done:
            for _ in range(burst):
                self.replay()
            look()
            wait()  # for the burst before, so that the GPU never waits for Python
            wait, done = self.mark(), done + burst * self.launches
        wait()
        return done, time.perf_counter() - start

    def sustained(self, meter: PowerMeter, seconds: float) -> dict[str, float]:
        """Time, energy and clock of a launch once the GPU is warm."""
        self.run(WARM_S)
        readings: list[Reading] = []
        launches, elapsed = self.run(seconds, lambda: readings.append(Reading.of(meter)))
        time_us = 1e6 * elapsed / launches
        watts, mhz = watts_and_mhz(readings)
        return {
            "time_us": time_us,
            "millijoules": watts * time_us / 1e3,
            "watts": watts,
            "sm_mhz": mhz,
        }

    def rested_us(self) -> float:
        """Time of a launch after a pause, as `lab bench` has it."""
        time.sleep(REST_S)
        self.replay()  # wakes the GPU up
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(RESTED_REPLAYS):
            self.replay()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end) / (RESTED_REPLAYS * self.launches)


def measure_energy(
    case: Case,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cuda",
    baselines: Sequence[str] | None = None,
    seconds: float = 1.0,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of `results.COLUMNS["energy"]`: baselines and ours, each checked, then run alone.

    For `bench.sweep`; takes what `measure` does, and `seconds`: how long each contender runs.
    Raises RuntimeError where there is no GPU, or one without meters, AssertionError where a
    contender is wrong in any element (unless `leave_out` takes it), ValueError for what a GPU
    cannot measure.
    """
    device = torch.device(device)
    check(formats, device, baselines, seconds)
    meter = PowerMeter.of(device)
    weights = weights_of(case, seed, device, weights)
    found = []
    with cuda.on_stream(device):
        pool = torch.cuda.graph_pool_handle()
        ways = cuda.contenders(case, formats, baselines, device)
        for one in cuda.checked(case, weights, ways, leave_out):
            replays = cuda.replays_of(case, one, 1, pool)
            load = Load(replays.replay, replays.launches, one.about_us, _mark)
            rested_us = load.rested_us()
            try:
                found.append((one, {"rested_us": rested_us} | load.sustained(meter, seconds)))
            except MeterError as error:
                leave_out(case, one.kernel, error)
    return _rows(case, device, found)


def _mark() -> Callable[[], object]:
    """Waits for all that torch's current stream has been given so far."""
    event = torch.cuda.Event()
    event.record()
    return event.synchronize


def check(
    formats: Sequence[str],
    device: torch.device | str = "cuda",
    baselines: Sequence[str] | None = None,
    seconds: float = 1.0,
) -> None:
    """Raise ValueError, or RuntimeError, unless this can be measured here."""
    check_metered(device)
    if not 0.5 <= seconds <= 60:
        raise ValueError(f"seconds={seconds!r}; allowed: 0.5 to 60, of each kernel")
    cuda.check(formats, baselines, ())
    checked_device(device)


def energy_summary(rows: pd.DataFrame) -> str:
    """Rows of `energy` as a table for a terminal, the fastest kernel first in each case."""
    rows = rows.sort_values(["M", "K", "sparsity", "N", "time_us"], kind="stable")
    columns = {
        "N": rows.N,
        "kernel": rows.kernel,
        "µs": rows.time_us.map("{:.0f}".format),
        "rested": rows.rested_us.map("{:.0f}".format),
        "mJ": rows.millijoules.map("{:.1f}".format),
        "W": rows.watts.map("{:.0f}".format),
        "MHz": rows.sm_mhz.map("{:.0f}".format),
        "speed-up": (rows.dense_us / rows.time_us).map("{:.2f}".format),
    }
    return text_table(rows, columns, ", without a pause")


def _rows(case: Case, device: torch.device, found: list[tuple[cuda.Contender, dict]]) -> list[dict]:
    """Rows of one case. Raises RuntimeError where it holds no dense product to compare with."""
    dense = [numbers for one, numbers in found if one.dense]
    if not dense:
        raise RuntimeError(f"{case}: no dense product was measured; rows need dense_us")
    best = {
        "dense_us": min(numbers["time_us"] for numbers in dense),
        "dense_rested_us": min(numbers["rested_us"] for numbers in dense),
        "dense_millijoules": min(numbers["millijoules"] for numbers in dense),
    }
    common = stamp(device) | vars(case)
    return [
        common
        | {"kernel": one.kernel, "backend": one.backend, "split_k": round(one.split_k, 3)}
        | {"encoded_bytes": one.encoded_bytes}
        | rounded(numbers | {"relative_error": one.relative_error} | best)
        for one, numbers in found
    ]
