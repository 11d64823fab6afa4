"""`python -m lab_utils.llm`: from a checkpoint to text and rows."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import torch
from llm_commands import SHORT, WORDS, run

from lab_utils import results
from lab_utils.llm.checkpoint import opened
from lab_utils.llm.cli import main
from lab_utils.llm.text import Text

# --- text


def test_text_goes_in_and_out(checkpoint) -> None:
    done = run("generate", "--model", checkpoint, "--prompt", "w1 w2 w3", "--output", 6)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("w1 w2 w3 ") and len(done.output.split()) > 3


def test_options_reach_the_generator(pruned, monkeypatch) -> None:
    given, new = {}, torch.tensor([[1]])
    monkeypatch.setattr("lab_utils.llm.generate", lambda *_, **how: given.update(how) or new)
    options = ("--temperature", 0.5, "--top-k", 3, "--top-p", 0.9, "--seed", 7, "--output", 4)
    assert run("generate", "--model", pruned, "--prompt", "w1", *options).exit_code == 0
    assert given == {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 7, "stop": 0}


def test_a_pruned_model_keeps_its_tokenizer_and_says_what_it_would_pruned_on_the_fly(
    checkpoint, pruned
) -> None:
    prompts = ("--prompt", "w1 w2", "--prompt", "w3 w4 w5", "--output", 8)
    stored = run("generate", "--model", pruned, *prompts)
    fly = run("generate", "--model", checkpoint, "--format", "tca_bme", "--sparsity", 0.5, *prompts)
    assert stored.exit_code == 0, stored.output
    assert stored.output == fly.output and len(stored.output.splitlines()) == 2


def test_token_ids_where_there_is_no_tokenizer(tmp_path, checkpoint) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((checkpoint / name).read_bytes())
    done = run("generate", "--model", tmp_path, "--prompt", "5,6,7", "--output", 4)
    assert done.exit_code == 0, done.output
    ids = [int(part) for part in done.output.split(",")]
    assert len(ids) == 4 and all(0 <= one < 97 for one in ids)


def test_calibration_takes_stretches_of_a_text(checkpoint, tmp_path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(" ".join(WORDS))
    text = Text.of(checkpoint)
    tokens = text.sequences(file, 3, 20)
    assert torch.equal(tokens.flatten(), torch.arange(2, 62)) and tokens.shape == (3, 20)
    with pytest.raises(ValueError, match="has 90 tokens; sequences=5 of length=20 need 100"):
        text.sequences(file, 5, 20)
    done = run("prune", checkpoint, tmp_path / "w", "--sparsity", 0.5, "--method", "wanda",
               "--calibration", file, "--sequences", 3, "--length", 20)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert opened(str(tmp_path / "w")).origin == "checkpoint"


def test_a_pattern_says_its_sparsity(checkpoint, tmp_path) -> None:
    done = run("prune", checkpoint, tmp_path / "half", "--within", "2:4", "--format", "2:4")
    assert done.exit_code == 0, done.output
    A = opened(str(tmp_path / "half")).load().layers[0].fc1.weight
    assert (A.name, A.nnz * 2) == ("2:4", A.shape[0] * A.shape[1])


def test_dense_weights_have_no_format(checkpoint) -> None:
    asked = ("generate", "--model", checkpoint, "--prompt", "w1 w2", "--output", 4)
    assert run(*asked, "--format", "dense").output == run(*asked).output


# --- measuring


def test_rows_of_a_checkpoint(checkpoint, tmp_path) -> None:
    done = run("measure", "--model", checkpoint, "--format", "dense,tca_bme,transformers",
               "--sparsity", 0.5, *SHORT, "--folder", tmp_path)  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = results.measured("opt", tmp_path)
    assert rows.format.tolist() == ["dense", "dense", "tca_bme", "tca_bme", *["transformers"] * 2]
    assert rows.batch.tolist() == [1, 2] * 3
    assert set(rows.weights) == {"checkpoint"} and set(rows.model) == {"tiny"}
    assert set(rows.dtype) == {"fp16" if torch.cuda.is_available() else "bf16"}
    assert rows.sparsity.tolist() == [0, 0, 0.5, 0.5, 0, 0]
    assert "tokens per GPU-second" in done.output
    assert done.stdout.endswith(f"\n\nrows added to {next(tmp_path.glob('*/opt.csv'))}\n")


def test_rows_of_a_stored_model(pruned, tmp_path) -> None:
    done = run("measure", "--model", pruned, *SHORT, "--folder", tmp_path, "--no-breakdown")
    assert done.exit_code == 0, done.output
    rows = results.measured("opt", tmp_path)
    assert rows[["format", "sparsity"]].drop_duplicates().values.tolist() == [
        ["dense", 0], ["tca_bme", 0.5],
    ]  # fmt: skip
    assert rows.matmul_s.isna().all() and set(rows.dtype) == {"bf16"}


def test_nothing_is_saved_unless_it_should(pruned, tmp_path) -> None:
    done = run("measure", "--model", pruned, *SHORT, "--folder", tmp_path, "--no-save")
    assert done.exit_code == 0 and list(tmp_path.iterdir()) == [] and "rows" not in done.stdout


def test_what_does_not_fit_is_named_and_left_out(monkeypatch, pruned, tmp_path) -> None:
    monkeypatch.setattr("lab_utils.llm.measuring.device_memory.capacity", lambda device: 1000.0)
    done = run("measure", "--model", pruned, "--format", "dense", *SHORT, "--folder", tmp_path)
    assert "tiny as dense at sparsity 0 and batch=1 needs" in done.output
    assert done.exit_code == 1 and "nothing was measured" in done.output
    assert list(tmp_path.iterdir()) == []


def test_under_torchrun_one_rank_speaks(checkpoint, tmp_path) -> None:
    program = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = ["-m", "lab_utils.llm", "measure", "--model", checkpoint, "--sparsity", "0.5",
               "--device", "cpu", *SHORT, "--folder", tmp_path]  # fmt: skip
    limited = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *program, *command], env=limited, capture_output=True,
                          text=True, timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = results.measured("opt", tmp_path)
    assert rows.gpus.tolist() == [2] * 4 and (rows.communication_s > 0).all()
    assert len(done.stdout.splitlines()) == 4 + 2 and done.stdout.count("rows added to") == 1
    expected = (rows.batch * 5 / 2 / rows.seconds).to_numpy()
    assert rows.tokens_per_gpu_second.to_numpy() == pytest.approx(expected, rel=1e-3)


def test_commands_that_are_written_down_exist(root, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").touch()
    notebook = json.loads((root / "notebooks" / "40_opt_end_to_end.ipynb").read_text())
    lines = [line for cell in notebook["cells"] for line in "".join(cell["source"]).splitlines()]
    lines += (root / "README.md").read_text().splitlines()
    ours = re.compile(r"(python|torchrun) .*-m lab_utils\.llm ")
    found = [line for line in map(str.strip, lines) if ours.match(line)]
    assert len(found) >= 8
    for line in found:
        name, *arguments = shlex.split(line.split(" #")[0].split("lab_utils.llm ")[1])
        main.commands[name].make_context(name, arguments)  # raises for an unknown option
