"""`python -m lab_utils.llm` as tests call it, and models for it: one dense, one pruned."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab_utils.llm.cli import main

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
