"""Configurations come from the catalogue and from Hugging Face's files, and refuse the rest."""

import json
import math

import pytest

from lab_utils import catalog
from lab_utils.llm import OPTConfig

GOOD = {
    "model_type": "opt",
    "architectures": ["OPTForCausalLM"],
    "activation_function": "relu",
    "hidden_size": 64,
    "ffn_dim": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 97,
    "max_position_embeddings": 48,
}


def folder(tmp_path, **changes):
    place = tmp_path / "opt-tiny"
    place.mkdir()
    entries = {**GOOD, **changes}
    text = json.dumps({key: value for key, value in entries.items() if value is not None})
    (place / "config.json").write_text(text)
    return place


def test_the_family_is_in_the_catalogue() -> None:
    names = [name for name, model in catalog.models().items() if model.family == "opt"]
    assert {"OPT-125M", "OPT-350M", "OPT-175B"} <= set(names)
    for name in names:
        config = OPTConfig.of(name)
        assert config.ffn == 4 * config.hidden and config.head_dim in (64, 80, 128)
    odd = OPTConfig.of("OPT-350M")
    assert (odd.embed, odd.norm_first, odd.final_norm) == (512, False, False)


def test_other_families_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'Llama-2-7B' is a llama; allowed: OPT-125M, .*OPT-175B"):
        OPTConfig.of("Llama-2-7B")
    with pytest.raises(ValueError, match=r"'OPT-1T' is unknown; allowed: OPT-125M"):
        OPTConfig.of("OPT-1T")


def test_reads_config_json(tmp_path) -> None:
    config = OPTConfig.from_folder(folder(tmp_path))
    sizes = {"hidden": 64, "ffn": 128, "layers": 2, "heads": 4, "vocab": 97, "max_positions": 48}
    assert config == OPTConfig("opt-tiny", **sizes, embed=64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llama"}, "model_type is 'llama'; allowed: 'opt'"),
        ({"model_type": None}, "model_type is None; allowed: 'opt'"),
        ({"architectures": ["OPTForQuestionAnswering"]}, "'OPTForQuestionAnswering'; allowed: OPT"),
        ({"activation_function": "gelu"}, "activation_function is 'gelu'; allowed: 'relu'"),
        ({"ffn_dim": None, "vocab_size": None}, "ffn_dim, vocab_size missing"),
        ({"num_attention_heads": 5}, "heads=5 of opt-tiny must divide hidden=64"),
        ({"num_hidden_layers": 0}, "layers=0 of opt-tiny; allowed: integers from 1"),
        ({"hidden_size": "64"}, "hidden='64' of opt-tiny; allowed: integers from 1"),
        ({"vocab_size": 10**30}, "vocab=10+ of opt-tiny; allowed: integers from 1 to 16777216"),
        ({"num_hidden_layers": 10**6}, "layers=1000000 of opt-tiny; .* from 1 to 4096"),
        ({"architectures": 5}, "architecture 5; allowed: OPTForCausalLM"),
        ({"architectures": "LlamaForCausalLM"}, "architecture 'LlamaForCausalLM'; allowed: OPT"),
        ({"enable_bias": "false"}, "bias='false' of opt-tiny; allowed: true, false"),
        ({"do_layer_norm_before": 1}, "norm_first=1 of opt-tiny; allowed: true, false"),
    ],
)
def test_refuses_other_models_by_name(tmp_path, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OPTConfig.from_folder(folder(tmp_path, **changes))


def test_refuses_what_is_no_config(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"config.json cannot be read: .*No such file"):
        OPTConfig.from_folder(tmp_path)
    place = folder(tmp_path)
    (place / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json cannot be read: Expecting"):
        OPTConfig.from_folder(place)
    (place / "config.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"config.json cannot be read: maximum recursion depth"):
        OPTConfig.from_folder(place)
    (place / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config.json holds a list; allowed: an object"):
        OPTConfig.from_folder(place)


def test_a_world_must_divide_heads_and_ffn() -> None:
    config = OPTConfig.of("OPT-66B")
    assert config.share(8) == (9, 4608)
    for world in (0, 5, 16, math.lcm(72, 5)):
        with pytest.raises(ValueError, match=rf"world={world} must divide heads=72 of OPT-66B"):
            config.share(world)
    with pytest.raises(ValueError, match=r"world=4 must divide ffn=130 of t"):
        OPTConfig("t", 64, 130, 2, 4, 97, 48, 64).share(4)
