"""What a generation costs in joules, told by the meters of the GPUs that it ran on."""

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress

import torch

from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.power import PowerMeter, StillMeterError, Watch
from lab_utils.results import COLUMNS, rounded

Hear = Callable[[dict], object]  # of a row of `opt_energy`


class Energy:
    """The energy of what runs in `with energy.watched:`, on this rank's GPU, for `hear`.

    Without `hear` nothing is watched. Raises ValueError where it is given and the device is no GPU,
    RuntimeError where the GPU has no meters.
    """

    def __init__(self, device: torch.device, hear: Hear | None, ranks: Ranks = ALONE):
        self.device, self.hear, self.ranks = device, hear, ranks
        self.watched: Watch | nullcontext = Watch(PowerMeter.of(device)) if hear else nullcontext()

    def told(self, row: Mapping, tell: Callable[[str], object] = str) -> None:
        """Tell `hear` the energy of what a row of `opt` is of, which the block ran.

        Each rank calls this. Where a meter stood still, nobody hears of energy, and `tell` hears
        why.
        """
        if self.hear is None:
            return
        watts = math.nan
        with suppress(StillMeterError):  # all ranks learn of it
            watts = self.watched.watts()
        of_gpus = self.ranks.all_of(watts, self.device)
        clocks = self.ranks.all_of(self.watched.sm_mhz(), self.device)
        if any(map(math.isnan, of_gpus)):
            tell(f"{row['seconds']:.3g} s are too short for meters of energy: no row of them")
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
