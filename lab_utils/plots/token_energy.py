"""What a generated token costs in joules, from rows of `opt_energy`."""

import pandas as pd
import plotly.graph_objects as go

from lab_utils.plots.generations import labels_of, origin_of
from lab_utils.plots.looks import MODELS
from lab_utils.plots.style import titled


def token_energy(rows: pd.DataFrame, model: str) -> go.Figure:
    """Millijoules of a token, a bar per batch, format and GPUs, beside mean power and clock.

    `rows`: of `results.COLUMNS["opt_energy"]`, one device's last runs. Raises ValueError where none
    is of the model, and for rows of several devices.
    """
    rows = rows[rows.model.eq(model)].sort_values(["batch", "sparsity", "format", "gpus"])
    if rows.empty:
        raise ValueError(f"model={model!r}: no row with its energy")
    each = 1e3 * rows.joules / (rows.batch * rows.output)
    colours = [MODELS[format.split("+")[0]].colour for format in rows.format]
    fig = go.Figure(
        go.Bar(
            x=each,
            y=labels_of(rows),
            orientation="h",
            marker_color=colours,
            text=[f"<b>{joules:.0f} mJ</b>   {row.watts:.0f} W, {row.sm_mhz:.0f} MHz"
                  for joules, row in zip(each, rows.itertuples(), strict=True)],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x:.4g} mJ<extra></extra>",
        )
    )  # fmt: skip
    fig.update_xaxes(title="millijoules a token", range=[0, 1.45 * float(each.max())])
    fig.update_yaxes(showgrid=False, ticks="", autorange="reversed")
    return titled(
        fig,
        f"{model}: what a token costs",
        f"{origin_of(rows, model)}; power of each GPU, and its clock",
        height=190 + 34 * len(rows),
        margin={"t": 100},
    )
