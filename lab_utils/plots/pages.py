"""Stored rows as Markdown tables, for whoever reads the repository without running it."""

from collections.abc import Callable

import pandas as pd

from lab_utils import catalog, results
from lab_utils.plots.energy import energies
from lab_utils.plots.looks import FORMATS, KERNELS, MODELS, TRANSFORMERS
from lab_utils.plots.page_rows import (
    CELL,
    HOPPER,
    LARGE,
    of_best_format,
    of_energy,
    of_fastest_kernel,
    of_fastest_way,
    of_models,
)
from lab_utils.plots.rows import days, geometric_means, of_shapes, with_all, with_format

BY_TRANSFORMERS = "dense, by transformers"  # in place of the name of a format
GPUS = {"h200": "H200", "h100-80gb-hbm3": "H100"}
MOST_FEW = 128  # columns, of tables of few
SMALL = (7168, 7168)
LLAMA = [(28672, 8192), (8192, 28672), (14336, 4096), (4096, 14336)]
OF_BYTES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # sparsities of that table

INTRODUCTION = """\
# Speed-ups of the Hopper kernels

Written by `make gallery` from [data/measured](../../data/measured); a test holds it to the rows, \
and under each table stand the commits that its rows were measured at. Speed-ups are over the best \
dense product of the same run, fp16, random masks; but for energy and models, of GPUs that have \
rested. Dense products are cuBLAS's and cuBLASLt's and, of one column, a GEMV of ours. Only one \
run lacked the GEMV, of two of the matrices at 95 % on an H100, whose speed-ups with one column \
are some percent too high. Machines of one kind differ by up to 5 %.

*Mean*: geometric, over the eight matrices of OPT-30B, 66B and 175B that `catalog.opt_matrices` \
names. *Least*: of the matrices, by the format of the best mean. *Byte limit*: what memory takes \
to read the encoded weights. Formats are those of `encode`: `zero_row_24`, `zero_row_24_packed`, \
`zero_row_24_strips`, `lane_24_strips`, `bitmap_strips` and `coded_strips`.

A cell has the formats that were measured there with all of its matrices, and is empty where \
there are none. The fastest format, and **bold**, are of those: a format that is faster at a \
neighbouring sparsity or N may only lack rows in that cell.
"""
MODELS_NOTE = f"""\
*Speed-up*: tokens per GPU-second over those of dense weights at the same commit, on as many GPUs \
and with the same batch, where there are rows of both. *Peak GB*: memory of the GPU that needs the \
most of it. *{BY_TRANSFORMERS}*: transformers' own generation, an outside check of our dense one.
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
    ways = of_fastest_way(rows)
    large, small = (of_fastest_kernel(of_shapes(few, [shape])) for shape in (LARGE, SMALL))
    fraction = "by its fastest format, and the fraction of the byte limit"
    llamas, best = ", ".join(map(_named, LLAMA)), of_best_format(every)
    parts = {
        "Which format is the fastest": (_names, best),
        "The fastest format: mean, and the least": (_means, best),
        "Each format: means": (_formats, every),
        "Bytes of each format for 64 weights": (_bytes, of_shapes(few, [LARGE])),
        f"The fastest format for Llama's {llamas}: mean, and the least": (
            _means, of_best_format(llama)),
        f"{_named(LARGE)} {fraction}": (_fractions, large),
        f"{_named(SMALL)} {fraction}": (_fractions, small),
        "Many columns, each matrix by its fastest way: means": (_formats, ways),
        "Many columns, the fastest format: mean, and the least": (
            _means, of_best_format(ways)),
        f"{_named(LARGE)} after a rest, and without a pause, at the limit of power": (
            _energies, of_energy(device)),
        "Whole models, random weights: prompts of 64 tokens, 512 new ones": (
            _models, of_models(device), MODELS_NOTE),
    }  # fmt: skip
    shown = [_part(title, *one) for title, one in parts.items() if len(one[1])]
    return [f"## {GPUS[device]}", *shown] if shown else []


def _named(shape: tuple[int, int]) -> str:
    return " × ".join(map(str, shape))


def _part(
    title: str, table: Callable[[pd.DataFrame], pd.DataFrame], rows: pd.DataFrame, note: str = ""
) -> str:
    """The table of rows under its title, a note on its columns, and where the rows are from."""
    commits = rows.sort_values("date", kind="stable").commit.drop_duplicates()
    origin = f"Rows of the commit{'s' * (len(commits) > 1)} {', '.join(commits)} ({days(rows)})."
    parts = [f"### {title}", note.rstrip(), markdown(table(rows)), origin]
    return "\n\n".join(filter(None, parts))


def markdown(table: pd.DataFrame) -> str:
    """A table of texts, its index in front."""
    table = table.reset_index()
    lines = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


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
    """A line for each format, a column for each sparsity: those measured last."""
    rows = _labelled(rows[rows.sparsity.isin(OF_BYTES)]).sort_values("date", kind="stable")
    each = 64 * rows.encoded_bytes / (rows.M * rows.K)
    texts = each.groupby([rows.format, rows.sparsity], observed=True).last().map("{:.1f}".format)
    return texts.unstack("sparsity", fill_value="").rename_axis(columns=None)


def _formats(rows: pd.DataFrame) -> pd.DataFrame:
    """Means, the greatest for each sparsity and N bold."""
    means = geometric_means(_labelled(rows), ["sparsity", "format", "N"], "speedup").round(2)
    texts, first = means.map("{:.2f}".format), means.eq(means.groupby(CELL).transform("max"))
    return _wide(texts.where(~first, "**" + texts + "**"))


def _fractions(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed-up, and what part of the time the bytes take to read."""
    cells = [f"{row.speedup:.2f} ({row.byte_limit_fraction:.2f})" for row in rows.itertuples()]
    return _wide(pd.Series(cells, pd.MultiIndex.from_frame(rows[CELL])))


def _energies(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed-ups, joules and the clock, as notebook 31 has them."""
    dense = rows.set_index(["sparsity", "N", "kernel"]).dense_millijoules
    table = energies(rows).assign(dense=dense).reset_index(["N", "kernel"])
    formats = {"speed-up, rested": "{:.2f}", "speed-up": "{:.2f}", "mJ": "{:.0f}",
               "dense": "{:.0f}", "MHz": "{:.0f}"}  # fmt: skip
    texts = {name: table[name].map(form.format) for name, form in formats.items()}
    labels = [KERNELS[kernel].label for kernel in table.kernel]
    named = {"kernel": "format", "mJ": "mJ a product", "dense": "mJ, dense"}
    return table.assign(kernel=labels, **texts)[["N", "kernel", *formats]].rename(columns=named)


def _models(rows: pd.DataFrame) -> pd.DataFrame:
    """Tokens per GPU-second, over those of dense weights, and memory."""
    labels = {name: look.label for name, look in MODELS.items()} | {TRANSFORMERS: BY_TRANSFORMERS}
    speedups = rows.speedup.map("{:.2f}".format, na_action="ignore").fillna("")
    columns = {
        "model": rows.model, "GPUs": rows.gpus, "batch": rows.batch,
        "zeros": rows.sparsity.map("{:.0%}".format),
        "weights": [labels[name] for name in rows.format],
        "tokens per GPU-second": rows.tokens_per_gpu_second.map("{:.0f}".format),
        "speed-up": speedups, "peak GB": rows.peak_gb.map("{:.1f}".format), "commit": rows.commit,
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
