"""Rows of `eager`: what they hold, how calls are timed, what is refused, and the GPU."""

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from lab_utils import bench, results
from lab_utils.backends import cuda
from lab_utils.bench import eager
from lab_utils.cli import main
from lab_utils.nn import SparseLinear
from lab_utils.patterns import random_sparse

CASE = bench.Case(M=300, K=520, N=8, sparsity=0.7, dtype="fp16")


KINDS = {"dense": torch.nn.Linear, "tca_bme": SparseLinear}


@pytest.mark.parametrize("format", KINDS)
def test_a_layer_is_a_way_to_the_product(format: str) -> None:
    W = random_sparse(130, 200, 0.5)
    B = torch.randn(8, 200).to(W.dtype).T
    layer = eager.Layer(format)
    operand = layer.prepare(W)
    clone = operand.clone()
    assert isinstance(clone.layer, KINDS[format]) and clone.layer is not operand.layer
    assert clone.nbytes == operand.nbytes > 0 and layer.dense == (format == "dense")
    for tensor, other in zip(operand.tensors.values(), clone.tensors.values(), strict=True):
        assert torch.equal(tensor, other) and tensor.data_ptr() != other.data_ptr()
    for one in (operand, clone):
        C = layer.bind(one, B)()
        assert not C.requires_grad
        assert torch.allclose(C.float(), W.float() @ B.float(), rtol=1e-2, atol=1e-2)
    assert eager.Layer("dense").problem(W, 8) is None


def test_calls_follow_each_other_and_nobody_waits_in_between(monkeypatch) -> None:
    called, waits = [], []

    def synchronize() -> None:
        waits.append(len(called))
        time.sleep(0.01)  # what is left for the GPU to do

    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda: SimpleNamespace(synchronize=synchronize)
    )
    calls = eager.Calls([lambda i=i: called.append(i) for i in range(3)])
    calls.warm()
    assert called == [0, 1, 2]
    calls.next()
    calls.next()
    assert waits == [3, 3 + eager.CALLS, 3 + eager.CALLS, 3 + 2 * eager.CALLS]
    assert called[3:9] == [0, 1, 2, 0, 1, 2]
    for host, whole in zip(calls.host_us, calls.times_us, strict=True):
        assert whole - host >= 1e6 * 0.01 / eager.CALLS


def found(format: str, time_us: float, graph_us: float) -> tuple:
    one = SimpleNamespace(way=eager.Layer(format), dense=format == "dense", encoded_bytes=7,
                          relative_error=1e-4)  # fmt: skip
    calls = eager.Calls([], times_us=[time_us, time_us + 1, time_us - 1], host_us=[time_us / 2])
    return one, calls, SimpleNamespace(times_us=[graph_us] * 3)


def test_rows_stand_beside_the_dense_layer(monkeypatch) -> None:
    stamp = {"date": "2026-01-01T00:00:00+00:00", "commit": "1", "device": "gpu-a", "driver": "5",
             "cuda": "13"}  # fmt: skip
    monkeypatch.setattr(eager, "stamp", lambda device: stamp)
    both = [found("dense", 30.0, 20.0), found("tca_bme", 40.0, 10.0)]
    rows = eager._rows(CASE, torch.device("cuda"), both)
    assert all(set(row) == set(results.COLUMNS["eager"]) for row in rows)
    sparse = rows[1]
    assert (sparse["format"], sparse["time_us"], sparse["host_us"]) == ("tca_bme", 40.0, 20.0)
    assert (sparse["graph_us"], sparse["dense_us"], sparse["dense_graph_us"]) == (10.0, 30.0, 20.0)
    lines = eager.eager_summary(pd.DataFrame(rows)).splitlines()
    assert lines[0] == "gpu-a, fp16, random zeros, in eager mode"
    assert " ".join(lines[2].split()) == "300x520 70% 8 dense 30 29-31 15 20 1.00 1.00"
    assert " ".join(lines[3].split()) == "300x520 70% 8 tca_bme 40 39-41 20 10 0.75 2.00"


def test_without_the_dense_layer_there_are_no_rows(monkeypatch) -> None:
    monkeypatch.setattr(eager, "check", lambda formats, device: torch.device("cpu"))
    monkeypatch.setattr(eager.cuda, "on_stream", lambda device: nullcontext())
    monkeypatch.setattr(eager.cuda, "checked", lambda *_: iter([found("tca_bme", 40.0, 10.0)[0]]))
    with pytest.raises(RuntimeError, match="no dense layer was measured; rows need dense_us"):
        eager.measure_eager(CASE, ["tca_bme"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formats": ["none"]}, "format='none': not multiplied on the GPU; allowed: tiled_csl"),
        ({"device": "cpu"}, "device='cpu'; allowed: cuda"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        eager.measure_eager(CASE, **({"formats": ["tca_bme"], "device": "cuda"} | change))


@pytest.mark.skipif(cuda.problem() is None, reason="says why only where there is no GPU")
def test_lab_eager_says_what_is_missing() -> None:
    done = CliRunner().invoke(main, ["eager", "--shape", "64x64"])
    assert done.exit_code == 1 and "nothing can be measured on a GPU here" in done.output


@pytest.mark.gpu
def test_lab_eager_keeps_rows(tmp_path: Path) -> None:
    arguments = ["eager", "--shape", "256x512", "--N", "8", "--format", "tca_bme,tiled_csl"]
    done = CliRunner().invoke(main, [*arguments, "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    stored = results.measured("eager", tmp_path)
    assert sorted(stored.format) == ["dense", "tca_bme", "tiled_csl"]
    assert (stored.graph_us > 0).all() and (stored.relative_error < 1e-3).all()
