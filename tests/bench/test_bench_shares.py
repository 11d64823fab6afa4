"""The search over numbers of workers: what is tried, and what is said of the choice."""

import pandas as pd
import pytest
from click.testing import CliRunner

from lab_utils import bench
from lab_utils.bench import shares
from lab_utils.cli import main

KEYS = {"device": "gpu-a", "kernel": "x_mma", "M": 128, "K": 64, "N": 8, "sparsity": 0.5,
        "pattern": "random", "dtype": "fp16"}  # fmt: skip


def rows(chosen_us: float, **others_us: float) -> pd.DataFrame:
    """One case: the chosen 264 workers, and others by their number (`w132=...`)."""
    timed = {264: chosen_us} | {int(name[1:]): us for name, us in others_us.items()}
    return pd.DataFrame(
        [KEYS | {"workers": w, "chosen": int(w == 264), "time_us": us} for w, us in timed.items()]
    )


def test_candidates_fill_the_sms_evenly_or_cut_rows_alike():
    tried = shares.candidates(rows=100, tiles=10_000, sms=132, blocks_per_sm=2)
    assert {132, 264, 528, 792, 100, 200, 700} <= set(tried)
    assert all(w % 132 == 0 or w % 100 == 0 for w in tried)
    assert max(shares.candidates(rows=100, tiles=300, sms=132, blocks_per_sm=2)) <= 300


def test_regrets_compare_the_choice_with_the_best():
    table = shares.regrets(rows(11.0, w132=10.0, w528=12.0))
    assert table.loc[0, ["chosen", "best"]].tolist() == [264, 132]
    assert table.slower[0] == pytest.approx(0.1)
    assert shares.regrets(rows(9.0, w132=10.0)).slower[0] == 0


def test_summary_counts_bad_choices():
    text = shares.share_summary(rows(11.0, w132=10.0))
    assert "10.0%" in text and "1 of 1 choices are more than 5 % slower" in text


def test_without_a_gpu_it_says_so():
    if bench.default_device() == "cuda":
        pytest.skip("there is a GPU")
    found = CliRunner().invoke(main, ["shares", "--shape", "256x256"])
    assert found.exit_code == 1 and "nothing can be measured on a GPU here" in found.output


@pytest.mark.parametrize("format", ["zero_row_24", "nope"])
def test_formats_that_do_not_share_tiles_are_refused_by_name(format: str):
    found = CliRunner().invoke(main, ["shares", "--format", format])
    assert found.exit_code == 2
    assert f"format='{format}': no model of shares; allowed: tiled_csl, tca_bme" in found.output


@pytest.mark.gpu
def test_shares_are_measured_on_a_gpu():
    case = bench.Case(M=1024, K=2048, N=8, sparsity=0.7, dtype="fp16")
    measured = pd.DataFrame(shares.measure_shares(case, ["tiled_csl", "tca_bme"], repeats=3))
    assert measured.groupby("kernel").chosen.sum().tolist() == [1, 1]
    assert (measured.time_us > 0).all()
