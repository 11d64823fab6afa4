"""The same kernels on several GPUs."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import label_ends, line_of_dense, line_of_means, ratio_axis
from lab_utils.plots.rows import geometric_means, origin, shapes
from lab_utils.plots.style import SERIES_COLOURS, titled
from lab_utils.results import CASE


def speedups_by_gpu(rows: pd.DataFrame) -> go.Figure:
    """Speed-up over dense against N, a line for each device, a panel for each sparsity.

    `rows` are of sparse products on several devices; of a case the fastest kernel counts, and only
    cases that all devices have. Lines are geometric means over the shapes, which remain as faint
    points. Raises ValueError where no case is of all devices.
    """
    best = rows.sort_values("time_us").drop_duplicates(["device", *CASE])
    devices = list(dict.fromkeys(rows.device))
    shared = best[best.groupby(list(CASE)).device.transform("nunique").eq(len(devices))]
    if shared.empty:
        raise ValueError(f"rows hold no case that was measured on all of {', '.join(devices)}")
    sparsities = sorted(shared.sparsity.unique())
    titles = [f"{sparsity:.0%} sparsity" for sparsity in sparsities]
    fig = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True)
    height, ends = ratio_axis(fig, shared.speedup), {}
    for col, sparsity in enumerate(sparsities, 1):
        for device, colour in zip(devices, SERIES_COLOURS, strict=False):
            part = shared[shared.sparsity.eq(sparsity) & shared.device.eq(device)]
            mean, line = geometric_means(part, "N", "speedup"), {"color": colour}
            line_of_means(fig, part, mean, device, "N = %{x}", line, {"size": 5}, row=1, col=col)
            ends[device] = (height(mean.iloc[-1]), colour)
        line_of_dense(fig, row=1, col=col)
    label_ends(fig, ends, col=len(titles))
    Ns = [N for N in sorted(shared.N.unique()) if np.log2(N) % 1 == 0]
    fig.update_xaxes(title="N", type="log", tickvals=Ns[::2], tickangle=0)
    fig.update_yaxes(title="speed-up over the best dense product", row=1, col=1)
    return titled(fig, "The same kernels on another GPU", _origin(shared), height=460,
                  margin={"t": 115, "r": 130})  # fmt: skip


def _origin(rows: pd.DataFrame) -> str:
    """What `origin` says of each device, and once what they share."""
    told = [origin(part) for _, part in rows.groupby("device", sort=False)]
    days = [", ".join(one.split(", ")[:2]) for one in told]
    return f"{'; '.join(days)}; {shapes(rows).nunique()} shapes, {told[0].split(', ', 3)[3]}"
