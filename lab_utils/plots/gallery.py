"""Pictures that the README shows, and tables that it names, from stored rows: `make gallery`."""

from pathlib import Path

import plotly.graph_objects as go

from lab_utils import catalog, results
from lab_utils.analysis.gpu_products import OF_SM_90
from lab_utils.backends.kernels import name_of
from lab_utils.files import write_whole
from lab_utils.plots import benchmark, end_to_end, pages, peers, renderer
from lab_utils.plots.rows import with_all

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "gallery"
SHAPE = (8192, 8192)


def speedups() -> go.Figure:
    """Stored bf16 products of `SHAPE` on the CPU measured last, against dense."""
    rows = results.measured("spmm")
    M, K = SHAPE
    rows = rows[rows.M.eq(M) & rows.K.eq(K) & rows.dtype.eq("bf16")]
    rows = rows[rows.device.str.startswith("cpu-")]
    if rows.empty:
        raise ValueError(f"no stored rows of a {M}x{K} bf16 product on a CPU; run `lab bench`")
    return benchmark.speedups(results.latest(rows[rows.device == rows.device.iloc[-1]]))


def published_kernels() -> go.Figure:
    """Flash-LLM's and SpInfer's kernels, rebuilt, on an H200: means over eight matrices of OPT."""
    return _means_on_h200(["tiled_csl_mma", "tca_bme_mma"], [8, 16, 32, 64])


def hopper_kernels() -> go.Figure:
    """Our kernels for Hopper on the same matrices, in the same way."""
    return _means_on_h200([name_of(format) for format in OF_SM_90], [1, 8, 16, 32, 64])


def _means_on_h200(kernels: list[str], Ns: list[int]) -> go.Figure:
    rows = results.latest(results.measured("spmm"), results.KERNEL_CASE)
    rows = rows[rows.device.eq("h200") & rows.dtype.eq("fp16") & rows.pattern.eq("random")]
    rows = with_all(rows[rows.kernel.isin(kernels)], catalog.opt_matrices())
    rows = rows[rows.N.isin(Ns) & rows.sparsity.isin([0.5, 0.6, 0.7, 0.8, 0.9])]
    if rows.empty:
        raise ValueError("no stored fp16 rows of OPT's matrices on an h200; run `lab bench`")
    return peers.speedup_table(rows, catalog.published("h200_peers"), catalog.opt_matrices())


def opt_175b() -> go.Figure:
    """Tokens of OPT-175B on H200s, beside what the paper has on A100s."""
    rows = results.latest(results.measured("opt"), results.OPT_CASE)
    rows = rows[rows.device.eq("h200") & rows.dtype.eq("fp16") & rows.model.eq("OPT-175B")]
    rows = rows[rows.prompt.eq(64) & rows.output.eq(512)]
    if rows.empty:
        what = "no stored rows of OPT-175B on an h200"
        raise ValueError(f"{what}; run `python -m lab_utils.llm measure`")
    tables = (catalog.published(f"flash_llm_{name}") for name in ("throughput", "end_to_end"))
    return end_to_end.generation_throughput(rows, *tables, "OPT-175B").update_layout(width=1000)


FIGURES = {
    "speedups": speedups,
    "hopper_kernels": hopper_kernels,
    "published_kernels": published_kernels,
    "opt_175b": opt_175b,
}


PAGES = {"hopper_kernels": pages.hopper_speedups}


def write(folder: Path = FOLDER) -> list[Path]:
    """Write every page and picture of the gallery into `folder`; PNGs need a browser."""
    renderer.use()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, page in PAGES.items():
        paths.append(folder / f"{name}.md")
        write_whole(paths[-1], page())
    for name, figure in FIGURES.items():
        paths.append(folder / f"{name}.png")
        figure().write_image(paths[-1], scale=2)
    return paths


if __name__ == "__main__":
    print(*write(), sep="\n")
