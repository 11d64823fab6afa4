"""Rows of measurements as figures need them: of some kernels, averaged, and where from."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lab_utils.plots.looks import FORMATS, KERNELS
from lab_utils.results import CASE

# What ends the names of products that decode A first, and multiply it dense; or into tiles.
DECODED, TILES = "_decoded", "_tiles"
DENSE = ("torch", "dense", "cublas", "gemv")  # how the names of dense products start


def is_dense(rows: pd.DataFrame) -> pd.Series:
    """Whether each row is of a dense product."""
    return rows.kernel.str.startswith(DENSE)


def with_format(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` and the format that each kernel's name starts with; None for the baselines."""
    return rows.assign(format=[_format_of(kernel) for kernel in rows.kernel])


def _format_of(kernel: str) -> str | None:
    fitting = (name for name in FORMATS if f"{kernel}_".startswith(f"{name}_"))
    return max(fitting, key=len, default=None)


def of_sparse_formats(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the sparse formats; of several kernels for one case and format, the fastest.

    Raises ValueError where there are none.
    """
    rows = with_format(rows)
    rows = rows[rows.format.notna() & (rows.format != "dense")].sort_values("time_us")
    if rows.empty:
        raise ValueError("rows hold no kernel of a sparse format")
    rows = rows.drop_duplicates(["device", "format", *CASE])
    return rows.sort_values("format", key=lambda names: names.map(list(FORMATS).index))


def of_gpu_kernels(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the sparse kernels of `KERNELS`, in its order; raises ValueError for any other.

    Products of many columns, which decode A first or into tiles, are left out.
    """
    rows = rows[~is_dense(rows) & ~rows.kernel.str.endswith((DECODED, TILES))]
    if unknown := sorted(set(rows.kernel) - set(KERNELS)):
        raise ValueError(f"kernel={unknown[0]!r}: unknown; allowed: {', '.join(KERNELS)}")
    if rows.empty:
        raise ValueError("rows hold no sparse kernel")
    return rows.sort_values("kernel", key=lambda names: names.map(list(KERNELS).index))


def of_shapes(rows: pd.DataFrame, shapes: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """The rows whose (M, K) is one of `shapes`."""
    return rows[pd.MultiIndex.from_frame(rows[["M", "K"]]).isin(shapes)]


def with_all(rows: pd.DataFrame, shapes: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """The rows of `shapes`, for each kernel, sparsity and N that has all: fit to be averaged."""
    rows = of_shapes(rows, shapes)
    names = rows.M.astype(str) + "x" + rows.K.astype(str)
    found = names.groupby([rows.kernel, rows.sparsity, rows.N]).transform("nunique")
    return rows[found.eq(len(shapes))]


def geometric_means(rows: pd.DataFrame, by: str | Sequence[str], column: str) -> pd.Series:
    """Geometric mean of `column` over everything but `by`, for what rows have of that."""
    keys = [rows[name] for name in np.atleast_1d(by)]
    return np.exp(np.log(rows[column]).groupby(keys, observed=True).mean())


def only(rows: pd.DataFrame, column: str) -> object:
    """The one value of a column; raises ValueError where there are several."""
    values = sorted(rows[column].unique())
    if len(values) != 1:
        raise ValueError(f"rows hold {column} = {', '.join(map(str, values))}; allowed: one value")
    return values[0]


def single_case(rows: pd.DataFrame) -> pd.Series:
    """The case that all rows share; raises ValueError where they hold several."""
    cases = rows[list(CASE)].drop_duplicates()
    if len(cases) != 1:
        raise ValueError(f"rows hold {len(cases)} cases ({', '.join(CASE)}); allowed: one")
    return cases.iloc[0]


def origin(rows: pd.DataFrame) -> str:
    """Device, dates, shapes and dtypes of the rows; raises ValueError for several devices."""
    if rows.device.nunique() != 1:
        raise ValueError(f"rows of the devices {sorted(rows.device.unique())}; allowed: one device")
    return f"{rows.device.iloc[0]}, {days(rows)}, {cases_of(rows)}"


def days(rows: pd.DataFrame) -> str:
    """The day that rows were measured on, or the first and the last one."""
    found = sorted({str(date)[:10] for date in rows.date})
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def cases_of(rows: pd.DataFrame) -> str:
    """Shapes and dtypes of rows, and patterns other than random."""
    names = shapes(rows).unique()
    what = names[0] if len(names) == 1 else f"{len(names)} shapes"
    return ", ".join([what, *sorted(rows.dtype.unique()), *sorted(set(rows.pattern) - {"random"})])


def shapes(rows: pd.DataFrame) -> pd.Series:
    """M×K of each row, as text."""
    return rows.M.astype(str) + "×" + rows.K.astype(str)


def compression_ratios(rows: pd.DataFrame) -> pd.Series:
    """Dense ÷ encoded bytes of each row."""
    return 2 * rows.M * rows.K / rows.encoded_bytes
