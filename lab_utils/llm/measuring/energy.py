"""What a generation costs in joules, told by the meters of the GPUs that it ran on."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext

import torch

from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.power import MeterError, MeterWatch, PowerMeter
from lab_utils.results import COLUMNS, rounded

Hear = Callable[[dict], object]  # of a row of `opt_energy`


def check_meters(device: torch.device, ranks: Ranks = ALONE) -> None:
    """Raise on all ranks, before anything long begins, where one cannot read its GPU's meters.

    ValueError for other devices than GPUs, RuntimeError where a GPU has no meters.
    """
    error = None
    try:
        PowerMeter.of(device)
    except (ValueError, RuntimeError) as found:
        error = found
    without = _marked(ranks.all_of(float(error is not None), device))
    if error is not None:
        raise error
    if without:
        raise RuntimeError(f"GPUs of ranks {without} tell no energy; allowed: such as do")


class Energy:
    """The energy of what runs in `with energy.watched:`, on this rank's GPU, for `hear`.

    Without `hear` nothing is watched. Raises ValueError where it is given and the device is no GPU,
    RuntimeError where the GPU has no meters.
    """

    def __init__(self, device: torch.device, hear: Hear | None, ranks: Ranks = ALONE):
        self.device, self.hear, self.ranks = device, hear, ranks
        self.watched: MeterWatch | nullcontext = nullcontext()
        if hear is not None:
            self.watched = MeterWatch(PowerMeter.of(device))

    def told(self, row: Mapping, tell: Callable[[str], object] = str) -> None:
        """Tell `hear` the energy of what a row of `opt` is of, which the block ran.

        Each rank calls this. Where a meter failed or stood still, nobody hears of energy, and
        `tell` hears why.
        """
        if self.hear is None:
            return
        watts, mhz, why = math.nan, math.nan, ""
        try:
            watts, mhz = self.watched.told()
        except MeterError as error:  # all ranks learn of it, and none waits for this one
            why = f": {error}"
        of_gpus, clocks = (self.ranks.all_of(number, self.device) for number in (watts, mhz))
        if silent := _marked(map(math.isnan, of_gpus)):
            tell(f"no row of energy from the meters of ranks {silent}{why}")
            return
        numbers = {
            "joules": sum(of_gpus) * row["seconds"],
            "watts": sum(of_gpus) / len(of_gpus),
            "sm_mhz": sum(clocks) / len(clocks),
        }
        of_case = {name: row[name] for name in COLUMNS["opt_energy"] if name not in numbers}
        self.hear(of_case | rounded(numbers))


def energy_line(row: Mapping) -> str:
    """One row of `opt_energy` for a terminal."""
    millijoules = 1e3 * row["joules"] / (row["batch"] * row["output"])
    return (
        f"  {row['joules']:.4g} J, {millijoules:.4g} mJ a token; {row['watts']:.0f} W for each "
        f"GPU, at {row['sm_mhz']:.0f} MHz"
    )


def _marked(of_ranks: Iterable[object]) -> list[int]:
    """The ranks for which it is true."""
    return [rank for rank, one in enumerate(of_ranks) if one]
