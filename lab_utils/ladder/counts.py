"""What a rung's trace says about its way through shared memory, and the table of all rungs."""

from collections.abc import Mapping

import pandas as pd

from lab_utils.analysis.kernel_trace import KernelTrace, Place
from lab_utils.ladder.rungs import RUNGS

TILE = 128 * 64  # weights: counts are scaled to a tile of so many
CONFLICTS = "bank conflicts"
PARTS = {  # wavefronts that their bytes need at least, by what they are for
    "cp_async": "copies in",
    "clear": "clear the tile",
    "shared_store": "extract words",
    "shared_load": "read words, bitmaps, values",
    "ldmatrix": "read fragments",
}


def wavefronts(traces: Mapping[str, KernelTrace], weights: int) -> pd.DataFrame:
    """Shared-memory wavefronts of each rung for a tile of 128 x 64: rung, part, wavefronts.

    `weights` are those of the whole matrix. Bank conflicts are what comes on top of the least that
    could carry the same bytes, whatever the part.
    """
    found = []
    for rung, trace in traces.items():
        sums = dict.fromkeys([*PARTS.values(), CONFLICTS], 0.0)
        for place, counts in trace.lines.items():
            if place.operation in PARTS:
                sums[PARTS[_part(place)]] += counts.least_wavefronts * TILE / weights
                extra = counts.wavefronts - counts.least_wavefronts
                sums[CONFLICTS] += extra * TILE / weights
        found += [{"rung": rung, "part": part, "wavefronts": n} for part, n in sums.items()]
    return pd.DataFrame(found)


def table(traces: Mapping[str, KernelTrace], weights: int, rows: pd.DataFrame) -> pd.DataFrame:
    """Idea, time, % of the byte limit and counts per tile, a line for each rung of `traces`.

    `rows` are those of one case of the table `ladder`; rungs without one have no time.
    """
    sums = wavefronts(traces, weights).pivot(index="rung", columns="part", values="wavefronts")
    lines = pd.DataFrame({"idea": {rung: RUNGS[rung].idea for rung in traces}})
    timed = rows.set_index("rung").reindex(lines.index)
    lines["time (µs)"] = timed.time_us.astype(float)
    lines["of byte limit"] = timed.byte_limit_fraction.astype(float)
    lines["wavefronts"] = sums.sum(axis="columns")
    lines[CONFLICTS] = sums[CONFLICTS]
    for operation in ("popcount", "barrier"):
        requests = {rung: trace.total(operation).requests for rung, trace in traces.items()}
        lines[f"{operation}s"] = pd.Series(requests) * TILE / weights
    return lines.rename(index={rung: RUNGS[rung].label for rung in traces})


def _part(place: Place) -> str:
    return "clear" if "chunks.store(" in place.text else place.operation
