"""Our kernels on several GPUs."""

import itertools

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import label_ends, line_of_dense, line_of_means, ratio_axis
from lab_utils.plots.rows import cases_of, days, geometric_means, only
from lab_utils.plots.style import INK, SERIES_COLOURS, titled
from lab_utils.results import CASE, KERNEL_CASE


def speedups_by_gpu(rows: pd.DataFrame) -> go.Figure:
    """Speed-up over dense against N, a line for each device, a panel for each sparsity.

    `rows` are of sparse products, of one dtype and pattern. Of kernels and cases that all devices
    have, the fastest kernel of a case counts. Lines are geometric means over the shapes, which
    remain as faint points. Raises ValueError for one device, and where they have nothing in common.
    """
    devices = list(dict.fromkeys(rows.device))
    if len(devices) < 2:
        raise ValueError(f"rows are of the devices {devices}; allowed: two or more")
    for column in ("dtype", "pattern"):
        only(rows, column)
    common = rows.groupby(list(KERNEL_CASE)).device.transform("nunique").eq(len(devices))
    shared = rows[common].sort_values("time_us").drop_duplicates(["device", *CASE])
    if shared.empty:
        raise ValueError(f"rows hold no product that was measured on all of {', '.join(devices)}")
    sparsities = sorted(shared.sparsity.unique())
    titles = [f"{sparsity:.0%} sparsity" for sparsity in sparsities]
    fig = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True)
    fig.update_annotations(font={"size": 13, "color": INK})
    height, ends = ratio_axis(fig, shared.speedup), {}
    for col, sparsity in enumerate(sparsities, 1):
        for device, colour in zip(devices, itertools.cycle(SERIES_COLOURS)):
            part = shared[shared.sparsity.eq(sparsity) & shared.device.eq(device)]
            mean, line = geometric_means(part, "N", "speedup"), {"color": colour}
            line_of_means(fig, part, mean, device, "N = %{x}", line, {"size": 5}, row=1, col=col)
            ends[device] = (height(mean.iloc[-1]), colour)
        line_of_dense(fig, row=1, col=col)
    label_ends(fig, ends, col=len(titles))
    Ns = [N for N in sorted(shared.N.unique()) if np.log2(N) % 1 == 0]
    fig.update_xaxes(title="N", type="log", tickvals=Ns[::2], tickangle=0)
    fig.update_yaxes(title="speed-up over the best dense product", row=1, col=1)
    parts = (f"{device}, {days(shared[shared.device.eq(device)])}" for device in devices)
    what = f"{'; '.join(parts)}; {cases_of(shared)}; the fastest of each case"
    return titled(fig, "The same kernels on several GPUs", what, height=460,
                  margin={"t": 115, "r": 160})  # fmt: skip
