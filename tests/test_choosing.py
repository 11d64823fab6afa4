"""Which format is expected to be the fastest, held to rows of all that were measured."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from gpu_formats import GPUS

from lab_utils import catalog, encode, results
from lab_utils.analysis.memory import encoded_bytes
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends import hopper_wgmma
from lab_utils.backends.choosing import (
    MOST_COLUMNS,
    PUBLISHED,
    STRIPS,
    WIDE_FROM,
    ZERO_ROW,
    expected,
    widths_of,
)
from lab_utils.backends.crossover import Product, kernel_us
from lab_utils.backends.gpus import HELD, Gpu
from lab_utils.backends.strip_layouts import OF_DENSE_WGMMA, columns_of_a_pass
from lab_utils.cli import main
from lab_utils.patterns import random_sparse

KERNELS = {"mma": ("tiled_csl", "tca_bme", "zero_row_24", "zero_row_24_packed"),
           "wgmma": ("zero_row_24_strips", "lane_24_strips", "bitmap_strips",
                     "coded_strips")}  # fmt: skip
FORMAT_OF = {f"{name}_{end}": name for end, names in KERNELS.items() for name in names}
CHANGED = 0.1  # of an encoding's bytes, since a row: it says nothing of today's
IN_L2 = 25e6  # weights that stay in the L2 from one run to the next: in a model others come between


def measured(gpu: str) -> pd.DataFrame:
    """Speed-ups of cases with a kernel for Hopper among others, by format; 1 for dense."""
    rows = results.latest(results.measured("spmm"), results.KERNEL_CASE)
    rows = rows[rows.device.eq(gpu) & rows.dtype.eq("fp16") & rows.pattern.eq("random")]
    rows = rows[rows.kernel.isin(FORMAT_OF) & rows.N.le(MOST_COLUMNS) & (rows.M * rows.K).gt(IN_L2)]
    rows = rows.assign(format=rows.kernel.map(FORMAT_OF))
    case = ["M", "K", "N", "sparsity"]
    described = rows[["format", "M", "K", "sparsity"]].itertuples(index=False)
    today = [encoded_bytes(*row) for row in described]
    changed = rows[(rows.encoded_bytes / today - 1).abs() > CHANGED]
    rows = rows.set_index(case).drop(changed.set_index(case).index).reset_index()
    table = rows.pivot(index=case, columns="format", values="speedup")
    hopper = table.columns.intersection(["zero_row_24", *STRIPS])
    return table.dropna(subset=hopper, how="all").assign(dense=1.0)


# Cases at least; what the chosen format may take in the mean and in 98 of 100, in the time of the
# fastest one. Lanes at .8 with 64 to 128 columns are told 6 to 9 % too slow, so that codes are
# chosen: costs that tell these right tell other ways of lanes wrong.
HELD_TO = {"h200": (1100, 1.0036, 1.06), "h100-80gb-hbm3": (600, 1.002, 1.03)}


@pytest.mark.parametrize("gpu", HELD_TO)
def test_the_format_that_is_expected_to_be_fastest_nearly_is(gpu: str) -> None:
    lost, table = [], measured(gpu)
    cases, mean, nearly = HELD_TO[gpu]
    for case, row in zip(table.index, table.itertuples(index=False), strict=True):
        found = {name: ratio for name, ratio in row._asdict().items() if ratio == ratio}
        ranked = (one.format for one in expected(*case, catalog.device(GPUS[gpu])))
        chosen = next(format for format in ranked if format in found)
        lost.append(max(found.values()) / found[chosen])
    assert len(lost) >= cases
    assert np.mean(lost) < mean and np.quantile(lost, 0.98) < nearly and max(lost) < 1.15


def test_speedups_follow_from_times_and_bytes_are_those_of_the_planner() -> None:
    ranked = expected(28672, 7168, 24, 0.8, catalog.device("H200-SXM"))
    assert [one.us for one in ranked] == sorted(one.us for one in ranked)
    times = {one.format: one.us for one in ranked}
    assert set(times) == {"dense", *PUBLISHED, *STRIPS}
    for one in ranked:
        assert one.speedup == pytest.approx(times["dense"] / one.us)
        assert one.encoded_bytes == encoded_bytes(one.format, 28672, 7168, 0.8)


def formats_of(*case: float, gpu: str = "H200-SXM") -> set[str]:
    return {one.format for one in expected(*case, catalog.device(gpu))}


def test_every_format_is_for_its_columns_and_gpus() -> None:
    assert formats_of(4096, 4096, 16, 0.9) == {"dense", *PUBLISHED, *ZERO_ROW, *OF_DENSE_WGMMA}
    assert formats_of(4096, 4096, 17, 0.9) == {"dense", *PUBLISHED, *STRIPS}
    assert formats_of(4096, 4096, 8, 0.7, gpu="A100-80GB") == {"dense", *PUBLISHED}


def test_packed_streams_are_told_apart_where_pairs_would_be_chosen() -> None:
    """They suit a GPU whose memory is slower; below, they are what zero-row 2:4 is anyway."""

    def fastest(gpu: str, sparsity: float) -> str:
        return expected(36864, 9216, 8, sparsity, catalog.device(gpu))[0].format

    assert fastest("H200-SXM", 0.8) == fastest("H200-SXM", 0.9) == "zero_row_24"
    assert fastest("H100-SXM", 0.8) == "zero_row_24_packed"
    assert fastest("H100-SXM", 0.9) == "zero_row_24"
    assert "zero_row_24_packed" in formats_of(36864, 9216, 8, 0.8)
    assert formats_of(36864, 9216, 8, 0.4) == {"dense", *PUBLISHED, "zero_row_24", *OF_DENSE_WGMMA}


@pytest.mark.parametrize("format", STRIPS)
def test_strips_are_wide_where_their_chunks_leave_room(format: str) -> None:
    """As a launch lays them out: one pass of that many columns, or what costs least without."""
    gpu = catalog.device("H200-SXM")
    for width, least in WIDE_FROM[format].items():
        both = (least + 0.02, True), (least - 0.04, False)
        for sparsity, has_room in both[: 1 + bool(least)]:
            A = encode(random_sparse(256, 4096, sparsity), format)
            layout = hopper_wgmma.layout_of(A, width, 132, None)
            assert (layout.block_n == width) == has_room
            widths = widths_of(width, sparsity, gpu, Streams.PAIRS)[format]
            assert columns_of_a_pass(width, widths) == (layout.block_n, layout.passes)
            if width <= MOST_COLUMNS:
                ranked = expected(36864, 9216, width, sparsity, gpu)
                told = next(one for one in ranked if one.format == format)
                case = Product(format, told.encoded_bytes, 36864, 9216, width, layout.block_n)
                assert told.us == kernel_us(case, Gpu.of(gpu))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ((64, 64, 0, 0.5), "N=0; allowed: 1 to 128 columns"),
        ((64, 64, 129, 0.5), "N=129; allowed: 1 to 128 columns"),
        ((64, 64, 1.5, 0.5), "N=1.5; allowed: 1 to 128 columns"),
        ((64, 64, 8, 1.5), "sparsity"),
        ((0, 64, 8, 0.5), "M=0"),
    ],
)
def test_impossible_products_are_refused(case: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expected(*case, catalog.device("H200-SXM"))


def test_the_command_tells_every_case_and_the_fastest_format() -> None:
    asked = [
        "formats",
        "--gpu",
        "H100-SXM",
        "--shape",
        "512x256",
        "--N",
        "1,64",
        "--sparsity",
        "0.8",
    ]
    told = CliRunner().invoke(main, asked)
    title, _, head, *lines = told.output.splitlines()
    assert told.exit_code == 0 and "H100" in title and len(lines) == 2
    assert head.split()[:5] == ["shape", "zeros", "N", "fastest", "MB"]
    for line, N in zip(lines, (1, 64), strict=True):
        best, *others = expected(512, 256, N, 0.8, catalog.device("H100-SXM"))
        case, told = ["512x256", "80%", str(N)], line.split()
        assert told[:5] == [*case, best.format, f"{best.encoded_bytes / 1e6:.1f}"]
        assert sorted(told[5:]) == sorted(f"{one.speedup:.2f}" for one in (best, *others))
    of_model = CliRunner().invoke(main, ["formats", "--model", "OPT-30B", "--N", "8"]).output
    assert "21504x7168" in of_model and "28672x7168" in of_model
    assert "28672x7168" in CliRunner().invoke(main, ["formats"]).output


def test_the_command_says_of_which_gpus_there_are_rows() -> None:
    assert set(HELD) == set(GPUS.values())
    for folder, gpu in GPUS.items():
        assert set(HELD[gpu]) == set(KERNELS["wgmma"]) - set(measured(folder).columns)
    for gpu, end in {
        "H200-SXM": "speed-up over dense",
        "H100-SXM": "; no rows of this GPU hold coded_strips to anything",
        "L40S": "; no rows of this GPU hold these numbers to anything",
    }.items():
        told = CliRunner().invoke(main, ["formats", "--gpu", gpu, "--N", "8"]).output
        assert told.splitlines()[0].endswith(end), told


def test_the_command_refuses_sizes_beyond_any_matrix() -> None:
    done = CliRunner().invoke(main, ["formats", "--shape", f"{10**22}x{10**21}"])
    assert done.exit_code == 2 and f"M={10**22} is too large; allowed: at most" in done.output
