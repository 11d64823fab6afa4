"""Stored rows as Markdown tables, for whoever reads the repository without running it."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from lab_utils import catalog, results
from lab_utils.plots.looks import FORMATS, KERNELS, MODELS
from lab_utils.plots.rows import days, geometric_means, of_shapes, with_all, with_format

HOPPER = ("zero_row_24_mma", "zero_row_24_packed_mma", "zero_row_24_strips_wgmma",
          "lane_24_strips_wgmma", "bitmap_strips_wgmma")  # fmt: skip
GPUS = {"h200": "H200", "h100-80gb-hbm3": "H100"}
MOST_FEW = 128  # columns; and those of tables of many
MANY = (96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 2048, 4096)
WITH_WAYS = ("zero_row_24_strips", "lane_24_strips", "bitmap_strips", "tca_bme")  # of many columns
LARGE, SMALL = (36864, 9216), (7168, 7168)
LLAMA = [(28672, 8192), (8192, 28672), (14336, 4096), (4096, 14336)]
CELL = ["sparsity", "N"]
WHOLE = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # sparsities that all formats have rows of

INTRODUCTION = """\
# Speed-ups of the Hopper kernels

Written by `make gallery` from [data/measured](../../data/measured); a test holds it to the rows. \
Speed-ups are over the best dense product of the same run, fp16, random masks; but for energy and \
models, of GPUs that have rested. Dense products are cuBLAS's and cuBLASLt's and, of one column, a \
GEMV of ours (not of packed streams at 80 %, nor of all matrices on an H100 at 95 %). Machines of \
one kind differ by up to 5 %.

*Mean*: geometric, over the eight matrices of OPT-30B, 66B and 175B that `catalog.opt_matrices` \
names; a cell is empty unless all eight were measured. *Least*: of the matrices, by the format of \
the best mean. *Byte limit*: what memory takes to read the encoded weights. **Bold**: the fastest \
of those that were measured. Formats are those of `encode`: `zero_row_24`, `zero_row_24_packed`, \
`zero_row_24_strips`, `lane_24_strips` and `bitmap_strips`.
"""


def hopper_speedups() -> str:
    """The page: what is fastest, each format, single matrices, many columns, energy, models."""
    rows = results.latest(results.measured("spmm"), results.KERNEL_CASE)
    rows = with_format(rows[rows.dtype.eq("fp16") & rows.pattern.eq("random")])
    parts = [INTRODUCTION.rstrip()]
    for device in GPUS:
        parts += _of_gpu(rows[rows.device.eq(device)], device)
    return "\n\n".join(parts) + "\n"


def _of_gpu(rows: pd.DataFrame, device: str) -> list[str]:
    few = rows[rows.kernel.isin(HOPPER) & rows.N.le(MOST_FEW)]
    every, llama = with_all(few, catalog.opt_matrices()), with_all(few, LLAMA)
    ways = _of_fastest_way(rows)
    large, small = (_of_fastest_kernel(of_shapes(few, [shape])) for shape in (LARGE, SMALL))
    fraction = "by its fastest format, and the fraction of the byte limit"
    llamas, best = ", ".join(map(_named, LLAMA)), _of_best_format(every)
    parts = {
        "Which format is the fastest": (_names, best),
        "The fastest format: mean, and the least": (_means, best),
        "Each format: means": (_formats, every),
        "Bytes of each format for 64 weights": (_bytes, of_shapes(few, [LARGE])),
        f"The fastest format for Llama's {llamas}: the same": (_means, _of_best_format(llama)),
        f"{_named(LARGE)} {fraction}": (_fractions, large),
        f"{_named(SMALL)} {fraction}": (_fractions, small),
        "Many columns, each matrix by its fastest way: means": (_formats, ways),
        "Many columns, the fastest format: mean, and the least": (
            _means, _of_best_format(ways)),
        f"{_named(LARGE)} after a rest, and without a pause, at the limit of power": (
            _energies, _energy_rows(device)),
        "Whole models, random weights: prompts of 64 tokens, 512 new ones": (
            _models, _model_rows(device)),
    }  # fmt: skip
    shown = [_part(title, *one) for title, one in parts.items() if len(one[1])]
    return [f"## {GPUS[device]}", *shown] if shown else []


def _named(shape: tuple[int, int]) -> str:
    return " × ".join(map(str, shape))


def _part(title: str, table: Callable[[pd.DataFrame], pd.DataFrame], rows: pd.DataFrame) -> str:
    """The table of rows under its title, and where they are from."""
    commits = ", ".join(rows.sort_values("date", kind="stable").commit.drop_duplicates())
    return f"### {title}\n\n{markdown(table(rows))}\n\nRows of {commits} ({days(rows)})."


def markdown(table: pd.DataFrame) -> str:
    """A table of texts, its index in front."""
    table = table.reset_index()
    lines = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


# --- which rows ---


def _of_best_format(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of the kernel of the greatest mean, for each sparsity and N.

    None where the best one of the next smaller and of the next larger N has no rows of this one.
    """
    means = geometric_means(rows, ["sparsity", "N", "kernel"], "speedup").unstack("kernel")
    best = means.idxmax(axis="columns")
    known = [(*cell, name) for cell, name in best.items() if _is_known(means, best, *cell)]
    return rows[pd.MultiIndex.from_frame(rows[[*CELL, "kernel"]]).isin(known)]


def _is_known(means: pd.DataFrame, best: pd.Series, sparsity: float, N: int) -> bool:
    Ns = best[sparsity].index
    beside = [*Ns[Ns < N][-1:], *Ns[Ns > N][:1]]
    measured = [pd.notna(means.loc[(sparsity, N), best[(sparsity, one)]]) for one in beside]
    return any(measured) or not measured


def _of_fastest_kernel(rows: pd.DataFrame) -> pd.DataFrame:
    """Of one matrix."""
    return rows.loc[rows.groupby(CELL).speedup.idxmax()]


def _of_fastest_way(rows: pd.DataFrame) -> pd.DataFrame:
    """Of formats whose products have several ways, where more than one was measured."""
    case = ["format", "M", "K", *CELL]
    rows = rows[rows.format.isin(WITH_WAYS) & rows.N.isin(MANY)]
    rows = rows[rows.groupby(case).kernel.transform("nunique").gt(1)]
    best = rows.loc[rows.groupby(case).speedup.idxmax()]
    return with_all(best.assign(kernel=best.format), catalog.opt_matrices())


def _energy_rows(device: str) -> pd.DataFrame:
    rows = results.latest(results.measured("energy"), results.KERNEL_CASE)
    rows = rows[rows.device.eq(device) & rows.kernel.isin(HOPPER)]
    rows = rows[rows.dtype.eq("fp16") & rows.pattern.eq("random")]
    return of_shapes(rows, [LARGE]).sort_values(["sparsity", "N", "time_us"])


def _model_rows(device: str) -> pd.DataFrame:
    rows = results.latest(results.measured("opt"), results.OPT_CASE)
    rows = rows[rows.device.eq(device) & rows.prompt.eq(64) & rows.output.eq(512)]
    rows = rows[rows.weights.eq("random")]
    return rows.sort_values(["model", "gpus", "batch", "sparsity", "format"])


# --- what is told of them ---


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and least over the matrices."""
    least = rows.groupby(CELL).speedup.min()
    means = geometric_means(rows, CELL, "speedup").reindex(least.index)
    return _wide(means.map("{:.2f}".format) + " (" + least.map("{:.2f}".format) + ")")


def _names(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the formats."""
    labels = _labelled(rows).groupby(CELL).format.first()
    return _wide(labels.astype(str))


def _bytes(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each format, a column for each sparsity."""
    rows = _labelled(rows[rows.sparsity.isin(WHOLE)])
    each = 64 * rows.encoded_bytes / (rows.M * rows.K)
    texts = each.groupby([rows.format, rows.sparsity], observed=True).min().map("{:.1f}".format)
    return texts.unstack("sparsity", fill_value="").rename_axis(columns=None)


def _formats(rows: pd.DataFrame) -> pd.DataFrame:
    """Means, the greatest for each sparsity and N bold."""
    rows = _labelled(rows)
    logarithms = np.log(rows.speedup).groupby([rows.sparsity, rows.format, rows.N], observed=True)
    means = np.exp(logarithms.mean()).round(2)
    texts, first = means.map("{:.2f}".format), means.eq(means.groupby(CELL).transform("max"))
    return _wide(texts.where(~first, "**" + texts + "**"))


def _fractions(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed-up, and what part of the time the bytes take to read."""
    cells = [f"{row.speedup:.2f} ({row.byte_limit_fraction:.2f})" for row in rows.itertuples()]
    return _wide(pd.Series(cells, pd.MultiIndex.from_frame(rows[CELL])))


def _energies(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed-ups, joules and the clock."""
    rested, warm = rows.dense_rested_us / rows.rested_us, rows.dense_us / rows.time_us
    columns = {
        "sparsity": rows.sparsity, "N": rows.N,
        "format": [KERNELS[kernel].label for kernel in rows.kernel],
        "after a rest": rested.map("{:.2f}".format), "without a pause": warm.map("{:.2f}".format),
        "mJ a product": rows.millijoules.map("{:.0f}".format),
        "mJ, dense": rows.dense_millijoules.map("{:.0f}".format),
        "MHz": rows.sm_mhz.map("{:.0f}".format),
    }  # fmt: skip
    return pd.DataFrame(columns).set_index("sparsity")


def _models(rows: pd.DataFrame) -> pd.DataFrame:
    """Tokens per GPU-second and memory."""
    columns = {
        "model": rows.model, "GPUs": rows.gpus, "batch": rows.batch,
        "zeros": rows.sparsity.map("{:.0%}".format),
        "weights": [MODELS[name].label for name in rows.format],
        "tokens per GPU-second": rows.tokens_per_gpu_second.map("{:.0f}".format),
        "GB": rows.peak_gb.map("{:.1f}".format), "commit": rows.commit,
    }  # fmt: skip
    return pd.DataFrame(columns).set_index("model")


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """Formats as readers know them, in the order of FORMATS."""
    labels = [look.label for look in FORMATS.values()]
    named = [FORMATS[name].label for name in rows.format]
    return rows.assign(format=pd.Categorical(named, labels, ordered=True))


def _wide(cells: pd.Series) -> pd.DataFrame:
    """A series of texts by N and more: a line for each of these, a column for each N."""
    table = cells.unstack("N", fill_value="")
    return table.rename_axis(columns=None).rename(columns=lambda N: f"N = {N}")
