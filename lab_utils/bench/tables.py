"""Rows as tables for a terminal: the columns that all have, and what is told above them."""

from collections.abc import Mapping

import pandas as pd

UNSTEADY = 0.25  # of the median, from p10 to p90: what another program on the machine can do


def times(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Median and spread, as columns of a text table."""
    spread = rows.p10_us.map("{:.0f}-".format) + rows.p90_us.map("{:.0f}".format)
    return {"µs": rows.time_us.map("{:.0f}".format), "p10-p90": spread}


def text_table(rows: pd.DataFrame, columns: Mapping[str, pd.Series], note: str = "") -> str:
    """`columns` behind shape and sparsity of each row, under a line that says where from.

    A line below warns where the times of most rows vary a lot, if rows have a spread.
    """
    what = f"{rows.device.iloc[0]}, {rows.dtype.iloc[0]}, {rows.pattern.iloc[0]} zeros"
    shape = rows.M.astype(str) + "x" + rows.K.astype(str)
    cases = {"shape": shape, "zeros": rows.sparsity.map("{:.0%}".format)}
    table = pd.DataFrame(cases | columns).to_string(index=False)
    return f"{what}{note}\n{table}{_warning(rows)}"


def _warning(rows: pd.DataFrame) -> str:
    if "p90_us" not in rows:
        return ""
    spread = ((rows.p90_us - rows.p10_us) / rows.time_us).median()
    if spread <= UNSTEADY:
        return ""
    return (
        f"\nunsteady: from p10 to p90, times vary by {spread:.0%} of the median; "
        "does something else run on this machine?"
    )
