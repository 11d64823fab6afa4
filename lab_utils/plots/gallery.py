"""The pictures that the README shows, drawn from stored rows: `make gallery`."""

from pathlib import Path

import plotly.graph_objects as go

from lab_utils import results
from lab_utils.plots import benchmark, style

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "gallery"
SHAPE = (8192, 8192)


def speedups() -> go.Figure:
    """Stored bf16 products of `SHAPE` on the CPU measured last, against dense."""
    rows = results.measured("spmm")
    fits = (rows.M == SHAPE[0]) & (rows.K == SHAPE[1]) & (rows.dtype == "bf16")
    rows = rows[fits & rows.device.str.startswith("cpu-")]
    if rows.empty:
        raise ValueError(f"no stored rows of a {SHAPE} bf16 product on a CPU; run `lab bench`")
    rows = rows[rows.device == rows.device.iloc[-1]]
    return benchmark.speedups(results.latest(rows, ["kernel", *results.CASE]))


FIGURES = {"speedups": speedups}


def write(folder: Path = FOLDER) -> list[Path]:
    """Draw every picture of the gallery into `folder`; needs a browser, as all PNGs do."""
    style.use()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in FIGURES.items():
        paths.append(folder / f"{name}.png")
        figure().write_image(paths[-1], scale=2)
    return paths


if __name__ == "__main__":
    print(*write(), sep="\n")
