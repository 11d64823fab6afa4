"""Rows as tables for a terminal: the columns that all have, and what is told above them."""

from collections.abc import Mapping

import pandas as pd


def times(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Median and spread, as columns of a text table."""
    spread = rows.p10_us.map("{:.0f}-".format) + rows.p90_us.map("{:.0f}".format)
    return {"µs": rows.time_us.map("{:.0f}".format), "p10-p90": spread}


def text_table(rows: pd.DataFrame, columns: Mapping[str, pd.Series], note: str = "") -> str:
    """`columns` behind shape and sparsity of each row, under a line that says where from."""
    what = f"{rows.device.iloc[0]}, {rows.dtype.iloc[0]}, {rows.pattern.iloc[0]} zeros"
    shape = rows.M.astype(str) + "x" + rows.K.astype(str)
    cases = {"shape": shape, "zeros": rows.sparsity.map("{:.0%}".format)}
    return f"{what}{note}\n{pd.DataFrame(cases | columns).to_string(index=False)}"
