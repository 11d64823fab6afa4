"""Which rows the tables of pages.py tell of."""

import pandas as pd

from lab_utils import catalog, results
from lab_utils.plots.rows import geometric_means, of_shapes, with_all

HOPPER = ("zero_row_24_mma", "zero_row_24_packed_mma", "zero_row_24_strips_wgmma",
          "lane_24_strips_wgmma", "bitmap_strips_wgmma", "coded_strips_wgmma")  # fmt: skip
MANY = (96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 2048, 4096)  # columns
WITH_WAYS = (  # of many columns
    "zero_row_24_strips", "lane_24_strips", "bitmap_strips", "coded_strips", "tca_bme"
)  # fmt: skip
LARGE = (36864, 9216)
CELL = ["sparsity", "N"]


def of_best_format(rows: pd.DataFrame) -> pd.DataFrame:
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


def of_fastest_kernel(rows: pd.DataFrame) -> pd.DataFrame:
    """Of one matrix."""
    return rows.loc[rows.groupby(CELL).speedup.idxmax()]


def of_fastest_way(rows: pd.DataFrame) -> pd.DataFrame:
    """Of formats whose products have several ways, where more than one was measured."""
    case = ["format", "M", "K", *CELL]
    rows = rows[rows.format.isin(WITH_WAYS) & rows.N.isin(MANY)]
    rows = rows[rows.groupby(case).kernel.transform("nunique").gt(1)]
    best = rows.loc[rows.groupby(case).speedup.idxmax()]
    return with_all(best.assign(kernel=best.format), catalog.opt_matrices())


def of_energy(device: str) -> pd.DataFrame:
    """Of the kernels for Hopper and the large matrix."""
    rows = results.latest(results.measured("energy"), results.KERNEL_CASE)
    rows = rows[rows.device.eq(device) & rows.kernel.isin(HOPPER)]
    rows = rows[rows.dtype.eq("fp16") & rows.pattern.eq("random")]
    return of_shapes(rows, [LARGE])


def of_models(device: str) -> pd.DataFrame:
    """Of generations as the paper has them, with random weights; `speedup` is `over_dense`."""
    rows = results.measured("opt")
    rows = rows[rows.device.eq(device) & rows.prompt.eq(64) & rows.output.eq(512)]
    rows = rows[rows.weights.eq("random") & rows.dtype.eq("fp16")]
    rows = results.latest(rows.assign(speedup=over_dense(rows)), results.OPT_CASE)
    return rows.sort_values(["model", "gpus", "batch", "sparsity", "format"])


def over_dense(rows: pd.DataFrame) -> pd.Series:
    """Tokens per GPU-second of sparse generations over dense ones of the same commit, GPUs, batch.

    NaN for dense weights themselves, and where there are none to compare with; of several dense
    rows the last one counts.
    """
    case = ["model", "gpus", "batch", "dtype", "commit"]
    dense = rows[rows.format.eq("dense")].groupby(case).tokens_per_gpu_second.last()
    beside = dense.reindex(pd.MultiIndex.from_frame(rows[case])).to_numpy()
    return (rows.tokens_per_gpu_second / beside).where(rows.sparsity.gt(0))
