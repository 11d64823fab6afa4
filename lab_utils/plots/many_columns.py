"""Products of many columns: decoding in the kernel, into tiles that it shares, or once before."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import label_ends, line_of_dense, line_of_means, ratio_axis
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.rows import DECODED, TILES, geometric_means, is_dense, origin
from lab_utils.plots.style import MUTED, SERIES_COLOURS, titled

NEAR = 0.9  # of dense's speed: what a sparse layer should have at every N
# What kernels' names end with; the first has the format's own colour.
WAYS = {"in the kernel": ("", None), "into tiles": (TILES, SERIES_COLOURS[0]),
        "decoded first": (DECODED, SERIES_COLOURS[4])}  # fmt: skip


def _ending(kernels: pd.Series) -> pd.Series:
    """DECODED, TILES, or nothing."""
    return kernels.str.extract(f"({DECODED}|{TILES})$", expand=False).fillna("")


def ways_by_columns(rows: pd.DataFrame, format: str) -> go.Figure:
    """Speed-up over dense against N of all ways to multiply a format, a panel for each sparsity.

    Lines are geometric means over the shapes, which remain as faint points. The band reaches down
    to NEAR. Raises ValueError where there are no rows of the format.
    """
    mine = rows[rows.kernel.str.fullmatch(f"{format}_[a-z]+") & ~is_dense(rows)]
    if mine.empty:
        raise ValueError(f"rows hold no kernel of {format}")
    sparsities = sorted(mine.sparsity.unique())
    titles = [f"{sparsity:.0%} sparsity" for sparsity in sparsities]
    fig = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True,
                        horizontal_spacing=0.17)  # fmt: skip
    height = ratio_axis(fig, mine.speedup)
    for col, sparsity in enumerate(sparsities, 1):
        here = mine[mine.sparsity.eq(sparsity)]
        ends = {}
        for label, (ending, colour) in WAYS.items():
            part, colour = here[_ending(here.kernel).eq(ending)], colour or FORMATS[format].colour
            if part.empty:
                continue
            mean, line = geometric_means(part, "N", "speedup"), {"color": colour}
            line_of_means(fig, part, mean, label, "N = %{x}", line, {"size": 5}, row=1, col=col)
            ends[label] = (height(mean.iloc[-1]), colour)
        label_ends(fig, ends, col=col)
        fig.add_hrect(y0=NEAR, y1=1, fillcolor=MUTED, opacity=0.2, line_width=0, row=1, col=col)
        line_of_dense(fig, row=1, col=col)
    Ns = [N for N in sorted(mine.N.unique()) if np.log2(N) % 1 == 0]
    fig.update_xaxes(title="N", type="log", tickvals=Ns[::2], tickangle=0)
    fig.update_annotations(selector={"yanchor": "bottom"}, font_size=13)
    fig.update_yaxes(title="speed-up over the best dense product", row=1, col=1)
    what = f"{origin(mine)}, {FORMATS[format].label}; grey: within {1 - NEAR:.0%} of dense"
    return titled(fig, "Many columns: decode how often?", what, height=480,
                  margin={"t": 115, "r": 120})  # fmt: skip
