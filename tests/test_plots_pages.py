"""Tables of stored rows in Markdown: the page in the gallery is that of today's rows."""

import numpy as np
import pandas as pd
import pytest
from gpu_rows import gpu_rows

from lab_utils import catalog, results
from lab_utils.plots import gallery, page_rows, pages

OPT = catalog.opt_matrices()


@pytest.fixture(scope="module")
def page() -> str:
    return pages.hopper_speedups()


def cells(page: str, title: str, gpu: str = "H200") -> pd.DataFrame:
    """The table under a title that starts so, in the chapter of a GPU."""
    chapter = page.split(f"## {gpu}\n")[1].split("\n## ")[0]
    (section,) = (one for one in chapter.split("### ")[1:] if one.startswith(title))
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    width = len(lines[0])
    assert set(lines[1]) == {"---"}
    padded = [line + [""] * (width - len(line)) for line in lines[2:]]
    return pd.DataFrame(padded, columns=lines[0])


def test_the_stored_page_is_that_of_the_stored_rows(page: str) -> None:
    stored = gallery.FOLDER / "hopper_kernels.md"
    assert stored.read_text() == page, "rows changed since; run `make gallery`"


def test_the_fastest_format_has_its_mean_and_its_least_matrix(page: str) -> None:
    rows = results.latest(results.measured("spmm"), results.KERNEL_CASE)
    rows = rows[rows.device.eq("h200") & rows.kernel.eq("lane_24_strips_wgmma") & rows.N.eq(64)]
    rows = rows[rows.sparsity.eq(0.8) & rows.dtype.eq("fp16") & rows.pattern.eq("random")]
    speedups = [rows[rows.M.eq(M) & rows.K.eq(K)].speedup.item() for M, K in OPT]
    mean = f"{np.exp(np.log(speedups).mean()):.2f}"
    table = cells(page, "The fastest format: mean").set_index("sparsity")
    named = cells(page, "Which format").set_index("sparsity")
    assert named.loc["0.8", "N = 64"] == "lane 2:4 strips"
    assert table.loc["0.8", "N = 64"] == f"{mean} ({min(speedups):.2f})"
    formats = cells(page, "Each format: means").set_index(["sparsity", "format"])
    assert formats.loc[("0.8", "lane 2:4 strips"), "N = 64"] == f"**{mean}**"
    assert float(formats.loc[("0.8", "bitmap strips"), "N = 64"]) < float(mean)


def test_a_mean_needs_all_matrices_and_many_columns_several_ways() -> None:
    rows = gpu_rows(Ns=(128, 192), sparsities=(0.8,))
    lanes = rows[rows.kernel.eq("lane_24_strips_wgmma")].assign(format="lane_24_strips")
    decoded = lanes.assign(kernel="lane_24_strips_decoded", speedup=9.0)
    of_one_row, of_192 = decoded[decoded.M.eq(OPT[0][0])], decoded[decoded.N.eq(192)]
    few, wide = (pd.concat([lanes, part], ignore_index=True) for part in (of_one_row, of_192))
    assert page_rows.of_fastest_way(lanes).empty and page_rows.of_fastest_way(few).empty
    found = page_rows.of_fastest_way(wide)
    assert len(found) == len(OPT) and set(found.N) == {192}
    assert pages._means(found).to_numpy().tolist() == [["9.00 (9.00)"]]
    assert pages._formats(found).to_numpy().tolist() == [["**9.00**"]]


def test_a_format_that_lacks_rows_is_not_beaten_by_others() -> None:
    """Where it is the fastest with fewer columns and with more."""
    rows = gpu_rows(Ns=(64, 96, 128), sparsities=(0.8,))
    slow = rows[rows.kernel.eq("zero_row_24_strips_wgmma")].assign(format="zero_row_24_strips")
    fast = slow.assign(kernel="lane_24_strips_wgmma", format="lane_24_strips", speedup=9.0)
    both = pd.concat([slow, fast], ignore_index=True)
    assert set(page_rows.of_best_format(both).N) == {64, 96, 128}
    hole = both[~(both.kernel.eq("lane_24_strips_wgmma") & both.N.eq(96))]
    assert set(page_rows.of_best_format(hole).N) == {64, 128}
    assert set(page_rows.of_best_format(slow).N) == {64, 96, 128}


def test_models_are_compared_with_dense_weights_of_their_own_commit() -> None:
    rows = pd.DataFrame({
        "model": "OPT-30B", "gpus": [1, 1, 1, 1, 2], "batch": 8, "commit": list("aaaba"),
        "format": ["dense", "tca_bme", "transformers", "tca_bme", "tca_bme"],
        "sparsity": [0.0, 0.8, 0.0, 0.8, 0.8], "peak_gb": 1.0, "dtype": "fp16",
        "tokens_per_gpu_second": [100.0, 150.0, 80.0, 200.0, 200.0],
    })  # fmt: skip
    rows["speedup"] = page_rows.over_dense(rows)
    assert rows.speedup.dropna().to_dict() == {1: 1.5}
    again = pd.concat([rows, rows[:1].assign(tokens_per_gpu_second=75.0)], ignore_index=True)
    assert page_rows.over_dense(again).dropna().to_dict() == {1: 2.0}
    other = rows.assign(dtype=["bf16", *rows.dtype[1:]])
    assert page_rows.over_dense(other).isna().all()
    table = pages._models(rows)
    assert table["speed-up"].tolist() == ["", "1.50", "", "", ""]
    assert table.weights.tolist()[:3] == ["dense", "TCA-BME", pages.BY_TRANSFORMERS]


def test_markdown_has_the_index_in_front() -> None:
    table = pd.DataFrame({"a": ["1", "2"]}, index=pd.Index(["x", "y"], name="b"))
    assert pages.markdown(table) == "| b | a |\n| --- | --- |\n| x | 1 |\n| y | 2 |"
