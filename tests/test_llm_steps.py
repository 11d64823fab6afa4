"""Steps of models of transformers: what is timed, that it is right, what is refused, the GPU."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from lab_utils import catalog, results
from lab_utils.llm.cli import main
from lab_utils.llm.measuring import steps
from lab_utils.llm.measuring.steps import Blocks, measure_steps
from lab_utils.nn import SparseLinear

CPU, BF16 = torch.device("cpu"), torch.bfloat16


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    """Models of the catalogue, but narrow."""

    def narrow(name: str, family: str | None = None) -> catalog.Model:
        one = real(name, family)
        kv_heads = 4 if one.kv_heads == one.heads else 2
        return replace(one, hidden=64, ffn=128, heads=4, kv_heads=kv_heads, embed=0)

    real = catalog.model
    monkeypatch.setattr(catalog, "model", narrow)


@pytest.fixture
def compiled(monkeypatch) -> list:
    """What would be compiled, and is called as it is."""
    found: list = []
    monkeypatch.setattr(torch, "compile", lambda step, **how: found.append((step, how)) or step)
    return found


@pytest.mark.parametrize("name", ["Llama-3-8B", "OPT-125M"])
def test_blocks_are_those_of_transformers_with_zeros(name: str) -> None:
    model, again = (Blocks(name, 2, 0.75).dense(CPU, BF16) for _ in range(2))
    linears = [one for one in model.modules() if isinstance(one, nn.Linear)]
    assert len(linears) == 2 * (7 if name.startswith("Llama") else 6)
    for one in linears:
        assert abs(one.weight.eq(0).float().mean() - 0.75) < 0.05 and one.weight.dtype == BF16
    for mine, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("name", ["Llama-3-8B", "OPT-125M"])
def test_rows_are_of_dense_and_sparse_layers_in_both_ways(name, compiled, tmp_path) -> None:
    told: list[str] = []
    what = ["tca_bme", "zero_row_24_packed", "tca_bme"]
    blocks = Blocks(name, 1, 0.6, 3)
    rows = measure_steps(blocks, what, device="cpu", dtype=BF16, repeats=2, tell=told.append)
    results.append("steps", rows, tmp_path)
    stored = results.measured("steps", tmp_path)
    assert list(stored.called) == ["by Python"] * 3 + ["compiled"] * 3
    assert list(stored.format) == ["dense", "tca_bme", "zero_row_24_packed"] * 2
    assert (stored.model_bytes[1:3] < stored.model_bytes[0]).all()
    assert (stored.time_ms >= stored.host_ms).all() and (stored.relative_error < 0.03).all()
    assert set(stored.dense_ms) == set(stored.time_ms[stored.format.eq("dense")])
    assert told == [f"{name}, 1 blocks, by Python", f"{name}, 1 blocks, compiled"]
    codes = {step.__code__ for step, _ in compiled}
    assert [how["mode"] for _, how in compiled] == ["default"] * 3
    assert len({id(step.__code__) for step, _ in compiled}) == 3 and len(codes) == 1
    lines = steps.step_lines(rows).splitlines()
    assert lines[0].startswith(f"{name}, 1 blocks, 60% zeros, batch 3, bf16, on ")
    assert len(lines) == 7 and lines[1].endswith(": 1.00 times as fast as dense")


def test_models_that_say_something_else_are_not_timed(compiled, monkeypatch) -> None:
    forward = SparseLinear.forward
    monkeypatch.setattr(SparseLinear, "forward", lambda self, x: forward(self, x) * 1.5)
    with pytest.raises(RuntimeError, match="tca_bme, by Python: hidden states are wrong by"):
        measure_steps(Blocks("OPT-125M", 1), ["tca_bme"], device="cpu", dtype=BF16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "GPT-2"}, "model='GPT-2': unknown; allowed:|model 'GPT-2'"),
        ({"blocks": 0}, "blocks=0; allowed: integers from 1 to 12"),
        ({"batch": 0}, "batch=0; allowed"),
        ({"sparsity": 1.5}, "sparsity=1.5; allowed: 0 to 1"),
        ({"formats": ["none"]}, "format='none' is not multiplied on cpu"),
        ({"dtype": torch.float32}, "dtype=torch.float32; allowed: torch.float16, torch.bfloat16"),
        ({"repeats": 0}, "repeats=0; allowed"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    case = {"model": "OPT-125M", "blocks": 1} | change
    how = {"device": "cpu", "dtype": BF16}
    how |= {name: case.pop(name) for name in ("dtype", "repeats") if name in case}
    formats = case.pop("formats", ["tca_bme"])
    with pytest.raises(ValueError, match=message):
        measure_steps(Blocks(**case), formats, **how)


def test_the_command_keeps_rows(compiled, tmp_path: Path) -> None:
    asked = ["steps", "--model", "OPT-125M,Llama-3-8B", "--blocks", "1", "--device", "cpu"]
    done = CliRunner().invoke(main, [*asked, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    stored = results.measured("steps", tmp_path)
    assert list(stored.model) == ["OPT-125M"] * 4 + ["Llama-3-8B"] * 4
    assert "Llama-3-8B, 1 blocks, 80% zeros, batch 8, bf16" in done.output
    done = CliRunner().invoke(main, [*asked, "--no-save", "--sparsity", "2"])
    assert done.exit_code == 2 and "sparsity=2.0; allowed: 0 to 1" in done.output
    assert len(results.measured("steps", tmp_path)) == 8


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    rows = measure_steps(Blocks("Llama-3-8B", 2), ["tca_bme"], repeats=3)
    assert [row["format"] for row in rows] == ["dense", "tca_bme"] * 2
    assert all(row["relative_error"] < 4e-3 for row in rows)
