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
    M, K = SHAPE
    rows = rows[rows.M.eq(M) & rows.K.eq(K) & rows.dtype.eq("bf16")]
    rows = rows[rows.device.str.startswith("cpu-")]
    if rows.empty:
        raise ValueError(f"no stored rows of a {M}x{K} bf16 product on a CPU; run `lab bench`")
    return benchmark.speedups(results.latest(rows[rows.device == rows.device.iloc[-1]]))


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
