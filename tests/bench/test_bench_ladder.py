"""Rows of the ladder: what they hold, what is refused, and the GPU."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from lab_utils import bench, results
from lab_utils.backends import cuda
from lab_utils.bench import ladder
from lab_utils.cli import main
from lab_utils.ladder import RUNGS
from lab_utils.patterns import random_sparse

CASE = bench.Case(M=300, K=520, N=8, sparsity=0.7, dtype="fp16")
ORIGIN = {"date": "2026-01-01T00:00:00+00:00", "commit": "12e4567", "device": "gpu-a",
          "driver": "580", "cuda": "13.0"}  # fmt: skip
NUMBERS = {"split_k": 1, "time_us": 10.0, "p10_us": 9.0, "p90_us": 12.0, "encoded_bytes": 4096,
           "byte_limit_fraction": 0.25, "relative_error": 1e-4, "dense_us": 15.0,
           "speedup": 1.5}  # fmt: skip


def test_a_row_keeps_what_the_table_has() -> None:
    more = {"kernel": "tiled_csl_6_reordered", "backend": "cuda", "gb_per_s": 1.0, "tflops": 1.0}
    row = ladder._row(ORIGIN | vars(CASE) | more | NUMBERS)
    assert tuple(row) == results.COLUMNS["ladder"]
    assert (row["rung"], row["format"]) == ("tiled_csl_6_reordered", "tiled_csl")
    lines = ladder.ladder_summary(pd.DataFrame([row])).splitlines()
    assert lines[0] == "gpu-a, fp16, random zeros"
    words = ["300x520", "70%", "8", "tiled_csl_6_reordered", "10", "9-12", "25%", "1.50"]
    assert lines[2].split() == words


def test_a_rung_is_a_way_to_the_product() -> None:
    W = random_sparse(130, 200, 0.5)
    for name in RUNGS:
        way = ladder.Climb(name)
        operand = way.prepare(W)
        clone = operand.clone()
        assert operand.represented() is W and way.problem(W, 8) is None
        assert clone.nbytes == operand.nbytes == clone.A.nbytes
        for array, copy in zip(operand.A.arrays.values(), clone.A.arrays.values(), strict=True):
            assert torch.equal(array, copy) and array.data_ptr() != copy.data_ptr()
        if not RUNGS[name].shares:
            plan = way.plan(operand, W[:8].T)
            assert (plan.backend, plan.kernel, plan.split_k) == ("cuda", name, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rungs": ["csr"]}, "rung='csr': unknown; allowed: tiled_csl_1_dense"),
        ({"device": "cpu"}, "device='cpu'; allowed: cuda"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    arguments = {"rungs": ["tca_bme_3_pipeline"], "device": "cuda"} | change
    with pytest.raises(ValueError, match=message):
        ladder.measure_ladder(CASE, **arguments)


@pytest.mark.skipif(cuda.problem() is None, reason="says why only where there is no GPU")
def test_lab_ladder_says_what_is_missing() -> None:
    done = CliRunner().invoke(main, ["ladder", "--shape", "64x64"])
    assert done.exit_code == 1 and "nothing can be measured on a GPU here" in done.output


@pytest.mark.gpu
def test_lab_ladder_keeps_rows(tmp_path: Path) -> None:
    arguments = ["ladder", "--shape", "256x512", "--sparsity", "0.5", "--output", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    stored = results.measured("ladder", tmp_path)
    assert stored.rung.tolist() == list(RUNGS)
    assert (stored.p10_us <= stored.time_us).all() and (stored.relative_error < 1e-3).all()
