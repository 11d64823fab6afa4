"""`python -m lab_utils.llm`: errors, each before anything long."""

import shutil

import pytest
import torch
from llm_commands import SHORT, run

from lab_utils.backends import cpu


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["measure", "--model", "OPT-31B"], 2, "'OPT-31B' is no folder; allowed: one, or OPT-125M"),
        (["measure", "--model", ""], 2, "model='' is no folder; allowed: one, or OPT-125M"),
        (["generate", "--model", "OPT-125M", "--prompt", "1", "--output", "0"], 2, "'--output': 0"),
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


def test_a_gpu_is_asked_for_in_vain() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = run("measure", "--model", "OPT-125M", "--device", "cuda")
    assert done.exit_code == 1 and "torch sees no CUDA device" in done.output
