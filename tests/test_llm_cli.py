"""`python -m lab_utils.llm`: from a checkpoint to text and rows; errors before anything long."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from lab_utils import results
from lab_utils.backends import cpu
from lab_utils.llm.__main__ import main
from lab_utils.llm.checkpoint import opened
from lab_utils.llm.text import Text

WORDS = [f"w{i}" for i in range(90)]
SHORT = ("--prompt", "4", "--output", "5", "--batch", "1,2")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A small OPT of transformers, with a tokenizer of ninety words."""
    transformers = pytest.importorskip("transformers")
    import opt_transformers
    import tokenizers

    folder = tmp_path_factory.mktemp("models") / "tiny"
    opt_transformers.theirs().save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate(["</s>", "<unk>", *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="</s>", unk_token="<unk>"
    )
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pruned(checkpoint, tmp_path_factory) -> Path:
    """The same model with half of its weights, as the command writes it."""
    folder = tmp_path_factory.mktemp("pruned") / "tiny-half"
    done = run("prune", checkpoint, folder, "--sparsity", 0.5, "--dtype", "bf16")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("tiny: 0.0")
    return folder


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


# --- measuring


def test_rows_of_a_checkpoint(checkpoint, tmp_path) -> None:
    done = run("measure", "--model", checkpoint, "--format", "dense,tca_bme,transformers",
               "--sparsity", 0.5, *SHORT, "--folder", tmp_path)  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = results.measured("opt", tmp_path)
    assert rows.format.tolist() == ["dense", "dense", "tca_bme", "tca_bme", *["transformers"] * 2]
    assert rows.batch.tolist() == [1, 2] * 3
    assert set(rows.weights) == {"checkpoint"} and set(rows.model) == {"tiny"}
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
    assert rows.matmul_s.isna().all()


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


# --- errors, each before anything long


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["measure", "--model", "OPT-31B"], 2, "'OPT-31B' is no folder; allowed: one, or OPT-125M"),
        (["measure", "--model", "OPT-125M"], 2, "format='tca_bme' needs a sparsity"),
        (["measure", "--model", "OPT-125M", "--format", "coo"], 2, "format='coo': unknown"),
        (["measure", "--model", "OPT-125M", "--sparsity", "1.2"], 2, "1.2 must lie between 0 and"),
        (["measure", "--model", "OPT-125M", "--format", "dense", "--output", "4000"], 2,
         "prompt=64 and output=4000 are 4064 positions; OPT-125M has 2048"),
        (["measure", "--model", "OPT-125M", "--format", "dense", "--batch", "0"], 2, "batch=0"),
        (["measure", "--model", "OPT-125M", "--batch", "x"], 2, "'x'; allowed: whole numbers"),
        (["measure", "--model", "OPT-125M", "--device", "tpu"], 2, "device='tpu'; allowed: cpu"),
        (["measure", "--model", "OPT-125M", "--format", "dense", "--outer-fc1-dense"], 2,
         "sparsity=None, so --outer-fc1-dense would change nothing"),
        (["generate", "--model", "OPT-125M", "--prompt", "1", "--outer-fc1-dense"], 2,
         "sparsity=None, so --outer-fc1-dense would change nothing"),
        (["generate", "--model", "OPT-125M"], 2, "no prompt"),
        (["generate", "--model", "OPT-125M", "--prompt", "hello"], 2, "there is no tokenizer"),
        (["generate", "--model", "OPT-125M", "--prompt", "60000"], 2, "token id 60000"),
        (["generate", "--model", "OPT-125M", "--prompt", "1", "--output", "3000"], 2,
         "max_new=3000 after a prompt of 1 tokens"),
        (["generate", "--model", "OPT-175B", "--prompt", "1", "--device", "cpu"], 1,
         "OPT-175B as dense at sparsity 0 and batch=1 needs 3"),
        (["prune", "OPT-125M", "x", "--method", "wanda"], 2,
         "sparsity=None, so within='row' and method='wanda' would change nothing"),
        (["prune", "OPT-125M", "x", "--within", "layer"], 2, "sparsity=None, so within='layer'"),
        (["prune", "OPT-125M", "x", "--within", "2:5"], 2, "multiple of 5, not K=768"),
        (["prune", "OPT-125M", "x", "--format", "2:4", "--sparsity", "0.5"], 2,
         "within='row' may leave more than two of four neighbours; allowed for format='2:4'"),
        (["generate", "--model", "OPT-125M", "--prompt", "1", "--seed", "9" * 30], 2, "--seed"),
        (["plan", "--sparsity", ""], 2, "'' has an empty item; allowed: numbers"),
        (["measure", "--model", "OPT-125M", "--format", "dense", "--repeats", "0"], 2, "repeats=0"),
        (["measure", "--model", "OPT-125M", "--format", "dense,2:4", "--sparsity", "0.5",
          "--device", "cpu"], 2, "within='row' may leave more than two of four neighbours"),
        (["measure", "--model", "OPT-125M", "--sparsity", "0.5", "--dtype", "fp32",
          "--device", "cpu"], 2, "dtype=torch.float32; allowed for tca_bme: float16, bfloat16"),
        (["plan", "--format", "dense", "--sparsity", "7"], 2, "sparsity=7"),
        (["plan", "--model", "Llama-2-7B"], 2, "'Llama-2-7B' is a llama; allowed: OPT"),
        (["plan", "--gpu", "H300"], 2, "device 'H300' is unknown"),
        (["plan", "--gpus", "5"], 2, "gpus=5 must divide heads=56 of OPT-30B"),
    ],
)  # fmt: skip
def test_bad_input(arguments, exit_code: int, message: str, monkeypatch) -> None:
    monkeypatch.setattr("lab_utils.llm.measuring.device_memory.capacity", lambda device: 1e11)
    monkeypatch.setattr(
        "lab_utils.llm.checkpoint.Random.read", lambda *_: pytest.fail("a weight was made")
    )
    done = run(*arguments)
    assert (done.exit_code, message in done.output) == (exit_code, True), done.output


@pytest.mark.parametrize(
    "command", [["generate", "--prompt", "1", "--format", "csr"], ["measure", "--format", "csr"]]
)
def test_formats_that_the_device_does_not_multiply_are_named(command, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "formats", ("dense", "tca_bme"))
    monkeypatch.setattr("lab_utils.llm.measuring.device_memory.capacity", lambda device: 1e11)
    done = run(*command, "--model", "OPT-125M", "--sparsity", "0.5", "--device", "cpu")
    said = "format='csr' is not multiplied on cpu; allowed: dense, tca_bme"
    assert done.exit_code == 2 and said in done.output, done.output


def test_rows_that_cannot_be_written_are_not_measured(pruned, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "lab_utils.llm.checkpoint.Stored.load", lambda *_, **__: pytest.fail("read")
    )
    (tmp_path / "file").touch()
    done = run("measure", "--model", pruned, *SHORT, "--folder", tmp_path / "file" / "rows")
    assert done.exit_code == 1 and "file cannot be written to" in done.output


def test_a_calibration_text_and_a_tokenizer_must_be_readable(checkpoint, tmp_path) -> None:
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    calibrated = ("prune", other, tmp_path / "x", "--sparsity", 0.5, "--method", "wanda")
    weights = checkpoint / "model.safetensors"
    done = run(*calibrated, "--calibration", weights)
    assert done.exit_code == 2 and f"{weights} is no text in UTF-8" in done.output
    done = run(*calibrated, "--calibration", other / "config.json", "--sequences", -1)
    assert done.exit_code == 2 and "'--sequences': -1 is not in the range x>=1" in done.output
    for damaged in ("{", "[]", '{"model": 3}'):
        (other / "tokenizer.json").write_text(damaged)
        done = run("generate", "--model", other, "--prompt", "w1")
        assert done.exit_code == 2 and f"{other}: its tokenizer cannot be read" in done.output


def test_a_pattern_says_its_sparsity(checkpoint, tmp_path) -> None:
    done = run("prune", checkpoint, tmp_path / "half", "--within", "2:4", "--format", "2:4")
    assert done.exit_code == 0, done.output
    A = opened(str(tmp_path / "half")).load().layers[0].fc1.weight
    assert (A.name, A.nnz * 2) == ("2:4", A.shape[0] * A.shape[1])


def test_pruned_models_are_not_pruned_again(pruned, tmp_path) -> None:
    done = run("prune", pruned, tmp_path / "again", "--sparsity", 0.9)
    assert done.exit_code == 2 and "is pruned already" in done.output
    done = run("generate", "--model", pruned, "--prompt", "w1", "--output", 4,
               "--sparsity", 0.9)  # fmt: skip
    assert done.exit_code == 2 and "is pruned already" in done.output


def test_a_stored_model_has_its_own_dtype_and_matrices(pruned) -> None:
    done = run("generate", "--model", pruned, "--prompt", "w1", "--dtype", "fp16")
    assert done.exit_code == 2 and "dtype='fp16'; allowed with a stored model: none" in done.output
    done = run("generate", "--model", pruned, "--prompt", "w1", "--outer-fc1-dense")
    assert done.exit_code == 2 and "--outer-fc1-dense; allowed with dense weights" in done.output


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--dtype", "fp16"), "dtype='fp16'; allowed with a stored model: none"),
        (("--outer-fc1-dense",), "--outer-fc1-dense; allowed with dense weights"),
        (("--sparsity", 0.9), "is pruned already; allowed: no sparsity"),
    ],
)
def test_what_a_stored_model_ignores_is_refused_before_it_is_measured(
    pruned, monkeypatch, option, said
) -> None:
    monkeypatch.setattr(
        "lab_utils.llm.checkpoint.Stored.load", lambda *_, **__: pytest.fail("read")
    )
    done = run("measure", "--model", pruned, *SHORT, *option)
    assert done.exit_code == 2 and said in done.output, done.output


def test_a_tokenizer_that_cannot_be_copied_leaves_nothing(checkpoint, tmp_path) -> None:
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    (other / "tokenizer_more.json").mkdir()
    done = run("prune", other, tmp_path / "x", "--sparsity", 0.5)
    assert done.exit_code == 1 and "tokenizer_more.json" in done.output, done.output
    assert [file.name for file in tmp_path.iterdir()] == ["other"]


def test_dense_weights_have_no_format(checkpoint) -> None:
    asked = ("generate", "--model", checkpoint, "--prompt", "w1 w2", "--output", 4)
    assert run(*asked, "--format", "dense").output == run(*asked).output


def test_a_gpu_is_asked_for_in_vain() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = run("measure", "--model", "OPT-125M", "--device", "cuda")
    assert done.exit_code == 1 and "torch sees no CUDA device" in done.output
