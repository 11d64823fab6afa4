"""What figures of whole generations share: the names of rows of `opt` and `opt_energy`."""

import pandas as pd

from lab_utils.plots.looks import MODELS
from lab_utils.plots.rows import days


def names_of(rows: pd.DataFrame) -> list[str]:
    """Format, sparsity and GPUs of each row, as "TCA-BME 80 %, 1 GPU"."""
    names = []
    for row in rows.itertuples():
        zeros = f" {100 * row.sparsity:.0f} %" if row.sparsity else ""
        gpus = "" if on_cpu(rows) else f", {row.gpus} GPU" + "s" * (row.gpus > 1)
        formats = " + ".join(MODELS[format].label for format in row.format.split("+"))
        names.append(formats + zeros + gpus)
    return names


def labels_of(rows: pd.DataFrame) -> list[str]:
    """Names of rows with the batch, and with whatever else differs between these rows."""
    said = [("batch {}", rows.batch)]
    for text, column in [
        ("{} weights", "weights"), ("{}", "dtype"), ("{} tokens", "prompt"), ("{} new", "output"),
    ]:  # fmt: skip
        if rows[column].nunique() > 1:
            said.append((text, rows[column]))
    parts = [names_of(rows), *(map(text.format, values) for text, values in said)]
    return [", ".join(of_row) for of_row in zip(*parts, strict=True)]


def on_cpu(rows: pd.DataFrame) -> bool:
    """Whether all are of CPUs."""
    return bool(rows.device.str.startswith("cpu").all())


def origin_of(rows: pd.DataFrame, model: str) -> str:
    """Device, date and kind of weights; or that there are no rows, and the command for them.

    Raises ValueError for rows of several devices.
    """
    if rows.empty:
        return f"no rows yet: python -m lab_utils.llm measure --sparsity 0.8 --model {model}"
    if rows.device.nunique() != 1:
        raise ValueError(f"rows of the devices {sorted(rows.device.unique())}; allowed: one device")
    weights = " and ".join(sorted(rows.weights.unique()))
    lengths = rows[["prompt", "output"]].drop_duplicates().itertuples(index=False)
    tokens = ", ".join(f"{one.prompt} + {one.output} tokens" for one in lengths)
    return f"{rows.device.iloc[0]}, {days(rows)}, {weights} weights, {tokens}"
