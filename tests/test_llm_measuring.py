"""Measured generations: equation 3, checks before timing, refusals."""

import gc
import math
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import opt_models
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from lab_utils import results
from lab_utils.analysis import memory
from lab_utils.llm import OPT, OPTConfig, generate
from lab_utils.llm.checkpoint import Random, convert, load, opened
from lab_utils.llm.cli import main
from lab_utils.llm.generate import Decoder
from lab_utils.llm.measuring import Sweep, Transformers, fits, generations, measure, parts
from lab_utils.llm.measuring.generations import format_of, sparsity_of
from lab_utils.llm.measuring.products import check_products, relative_error
from lab_utils.llm.pruning import Recipe, Target

NUMBERS = ["seconds", "tokens_per_gpu_second", *parts.NO_PARTS]


def small(format: str | None = None, sparsity: float = 0.6, **changes) -> OPT:
    """A small model with random weights, dense or pruned and encoded."""
    target = None if format is None else Target(sparsity)
    source = Random(opt_models.config(**changes), dtype=torch.bfloat16)
    return load(source, Recipe(format, target), dtype=torch.bfloat16)


# --- rows


@pytest.mark.parametrize("format", [None, "tca_bme", "zero_row_24_packed"])
def test_a_row_has_the_columns_of_the_table_and_equation_3(format, tmp_path) -> None:
    row = measure(small(format), batch=3, prompt=5, output=9, repeats=2)
    results.append("opt", [row], tmp_path)
    stored = results.measured("opt", tmp_path).iloc[0]
    assert stored.tokens_per_gpu_second == pytest.approx(3 * 9 / stored.seconds, rel=1e-3)
    parted = [stored[name] for name in parts.NO_PARTS]
    assert sum(parted) == pytest.approx(stored.seconds, rel=1e-3)
    assert stored.matmul_s > 0 and stored.attention_s > 0 and stored.communication_s == 0
    told = ("model", "gpus", "weights", "batch", "prompt", "output", "format", "sparsity")
    zeros = round(round(0.6 * 64) / 64, 1)  # of rows of 64 and 128 weights
    sparse = (format, pytest.approx(zeros, abs=0.01))
    assert tuple(stored[list(told[:6])]) == ("small", 1, "random", 3, 5, 9)
    assert tuple(stored[list(told[6:])]) == (sparse if format else ("dense", 0))
    assert pd.isna(stored.peak_gb)


@pytest.mark.parametrize("origin", ["random", "checkpoint"])
def test_a_dense_baseline_is_not_said_to_have_no_zeros(origin: str, tmp_path, monkeypatch) -> None:
    """It is the stored model, decoded: rows count encoded zeros alone, and keep its origin."""
    source = Random(opt_models.config(), dtype=torch.bfloat16)
    monkeypatch.setattr(source, "origin", origin)
    convert(source, tmp_path / "m", Recipe("tca_bme", Target(0.5)), dtype=torch.bfloat16)
    sweep = Sweep(opened(tmp_path / "m"), prompt=4, output=5, dtype=torch.bfloat16)
    dense, sparse = sweep.rows(["dense", "tca_bme"], [2])
    assert torch.count_nonzero(sweep._model("dense").layers[0].fc1.weight) == 64 * 128 / 2
    told = [generations.opt_line(row).split(", ")[1] for row in (dense, sparse)]
    assert told == ["dense", "tca_bme 50% zeros"]
    assert (dense["sparsity"], dense["weights"], sparse["weights"]) == (0, origin, origin)


def test_seconds_are_those_of_all_ranks() -> None:
    """Equation 3 divides by their sum: two GPUs that take a second each are two GPU-seconds."""
    config, case = opt_models.config(), {"batch": 8, "prompt": 4, "output": 5}
    row = generations.row(config, torch.device("cpu"), case, 2.0, [5e9, 7e9])
    assert (row["gpus"], row["tokens_per_gpu_second"], row["peak_gb"]) == (2, 10.0, 7.0)


def test_the_last_run_of_a_case_counts() -> None:
    row = generations.row(opt_models.config(), torch.device("cpu"),
                          {"batch": 1, "prompt": 4, "output": 5}, 2.0, [1e9])  # fmt: skip
    row |= {"format": "dense", "sparsity": 0.0, "weights": "random", "dtype": "fp16"}
    rows = pd.DataFrame([row | {"date": date, "batch": batch}
                         for date, batch in (("1", 1), ("2", 1), ("1", 2))])  # fmt: skip
    kept = results.latest(rows, results.OPT_CASE)
    assert list(zip(kept.date, kept.batch, strict=True)) == [("2", 1), ("1", 2)]


def test_a_format_is_that_of_a_variant_where_all_matrices_are() -> None:
    packed, pairs, few = (small(f"zero_row_24{end}", s)
                          for end, s in (("_packed", 0.6), ("", 0.6), ("", 0.1)))  # fmt: skip
    assert [format_of(one) for one in (pairs, few)] == ["zero_row_24"] * 2
    packed.layers[0].qkv = few.layers[0].qkv  # which the format packs by itself
    assert format_of(packed) == "zero_row_24_packed"
    packed.layers[0].out = pairs.layers[0].out
    assert format_of(packed) == "zero_row_24+zero_row_24_packed"


def test_sparsity_counts_all_four_matrices() -> None:
    """Half of fc1's quarter-by-quarter choice stays dense, and lowers the sparsity of the row."""
    config = opt_models.config(layers=4)
    recipe = Recipe("tca_bme", Target(0.5), dense=lambda name: name == "layers.0.fc1")
    model = load(Random(config, dtype=torch.bfloat16), recipe, dtype=torch.bfloat16)
    fc1, layer = 64 * 128, 4 * 64 * 64 + 2 * 64 * 128
    assert sparsity_of(model) == round(0.5 * (4 * layer - fc1) / (4 * layer), 3)
    assert format_of(model) == "tca_bme"


# --- one model after the other


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Python's search for cycles of references rests: what is gone went with its last user."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("format", [None, "tca_bme"])
def test_a_measured_model_and_its_cache_are_gone_at_once(
    format, no_collection, monkeypatch
) -> None:
    refs = []

    class Watched(Decoder):
        def __init__(self, *given, **options) -> None:
            super().__init__(*given, **options)
            refs.extend([weakref.ref(self), weakref.ref(self.cache.data)])

    monkeypatch.setattr(generations, "Decoder", Watched)
    model = small(format)
    measure(model, 2, 5, 9)
    refs.extend([weakref.ref(model), weakref.ref(model.layers[1].fc1.bias)])
    del model
    assert len(refs) == 4 and all(ref() is None for ref in refs)


def test_a_sweep_builds_a_model_when_the_one_before_is_gone(no_collection, monkeypatch) -> None:
    """Even one that refers to itself; what begins is told."""
    models, alive, told = [], [], []
    build = Sweep._model

    def built(sweep: Sweep, format: str) -> OPT:
        alive.append(sum(ref() is not None for ref in models))
        model = build(sweep, format)
        object.__setattr__(model, "cycle", model)
        models.append(weakref.ref(model))
        return model

    monkeypatch.setattr(Sweep, "_model", built)
    source = Random(opt_models.config(), dtype=torch.bfloat16)
    sweep = Sweep(source, Target(0.6), prompt=5, output=9, breakdown=False, dtype=torch.bfloat16,
                  tell=told.append)  # fmt: skip
    rows = list(sweep.rows(["dense", "tca_bme", "dense"], [2, 3]))
    assert len(rows) == 6 and alive == [0, 0, 0]
    assert [line for line in told if "building" in line] == [
        f"small, {format}: building" for format in ("dense", "tca_bme", "dense")
    ]
    assert len(told) == 3 + 6 * 3


# --- checks before timing


def test_wrong_products_are_never_timed(monkeypatch) -> None:
    model = small("tca_bme")
    check_products(model, 3)
    fc1 = model.layers[1].fc1
    forward = type(fc1).forward

    def wrong(self, x):
        y = forward(self, x)
        return y * 1.05 if self is fc1 else y

    monkeypatch.setattr(type(fc1), "forward", wrong)
    with pytest.raises(RuntimeError, match="layers.1.fc1: tca_bme is wrong by .* at 2 tokens"):
        measure(model, 2, 3, 4)


def test_where_zero_is_right_only_zero_is() -> None:
    """Without weights, products are zero, and an error relative to them is 0 or infinite."""
    zero = torch.zeros(3, 4)
    assert relative_error(zero, zero) == 0
    assert relative_error(zero + 1, zero) == relative_error(zero * torch.nan, zero) == math.inf
    assert relative_error(zero + 3, zero + 2) == 0.5
    check_products(small("tca_bme", 1.0), 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch=0; allowed: integers from 1"),
        ({"batch": 2.5}, "batch=2.5; allowed: integers from 1"),
        ({"repeats": 0}, "repeats=0; allowed: integers from 1"),
        ({"output": 100}, "max_new=100 after a prompt of 5 tokens; .* 48 positions of small"),
        ({"prompt": 0}, "prompt 0 is empty"),
    ],
)
def test_impossible_cases(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure(small(), **{"batch": 2, "prompt": 5, "output": 4, **changes})


# --- the outside check


def test_transformers_is_measured_as_we_are(tmp_path) -> None:
    pytest.importorskip("transformers")
    model = Transformers(opt_models.config(), dtype=torch.float32)
    row = model.measure(batch=2, prompt=5, output=6)
    results.append("opt", [row], tmp_path)
    assert (row["format"], row["weights"], row["matmul_s"]) == ("transformers", "random", None)
    assert row["tokens_per_gpu_second"] == pytest.approx(12 / row["seconds"], rel=1e-3)


def test_a_sweep_is_of_a_source_and_a_target() -> None:
    with pytest.raises(ValueError, match=r"source='OPT-125M'; allowed: checkpoint.opened\("):
        Sweep("OPT-125M")
    with pytest.raises(ValueError, match=r"target=0.5; allowed: None, or pruning.Target\("):
        Sweep(Random(opt_models.config()), 0.5)
    with pytest.raises(ValueError, match="device='tpu'; allowed here: cpu"):
        Sweep(Random(opt_models.config()), device="tpu")


@pytest.mark.parametrize(
    ("formats", "repeats", "said"),
    [
        ([], 1, r"formats=\[\]; allowed: one or more"),
        (["dense"], 0, "repeats=0; allowed: integers from 1"),
    ],
)
def test_a_sweep_measures_something(formats, repeats, said) -> None:
    with pytest.raises(ValueError, match=said):
        next(Sweep(Random(opt_models.config()), repeats=repeats).rows(formats))


def test_the_command_succeeds_where_something_fits(tmp_path, monkeypatch) -> None:
    source = Random(opt_models.config(), dtype=torch.bfloat16)
    convert(source, tmp_path / "m", Recipe("tca_bme", Target(0.5)), dtype=torch.bfloat16)
    model = fits.as_catalog_model(source.config)
    has = memory.total(memory.Workload(model, "dense", 0.0, batch=1, prompt=4, output=5))
    monkeypatch.setattr("lab_utils.llm.measuring.device_memory.capacity", lambda device: has)
    asked = ["measure", "--model", str(tmp_path / "m"), "--format", "dense", "--batch", "1,2",
             "--prompt", "4", "--output", "5", "--folder", str(tmp_path / "rows")]  # fmt: skip
    done = CliRunner().invoke(main, [*asked, "--device", "cpu"])
    assert done.exit_code == 0 and "batch=2 needs" in done.output
    assert "nothing was measured" not in done.output
    assert results.measured("opt", tmp_path / "rows").batch.tolist() == [1]


def test_transformers_has_no_ranks() -> None:
    pytest.importorskip("transformers")
    ranks = SimpleNamespace(world=2, all_of=lambda *_: [1])
    sweep = Sweep(Random(opt_models.config()), ranks=ranks)
    with pytest.raises(ValueError, match="format='transformers' on 2 ranks; allowed: one rank"):
        next(sweep.rows(["transformers"], [1]))


def test_transformers_generates_what_we_do(tmp_path) -> None:
    """With its static cache and a fixed length, from one checkpoint."""
    pytest.importorskip("transformers")
    import opt_transformers

    other = opt_transformers.theirs()
    other.save_pretrained(tmp_path)
    mine = opt_transformers.ours(other, tmp_path)
    theirs = Transformers(mine.config, tmp_path, dtype=torch.float32)
    assert theirs.origin == "checkpoint"
    tokens = opt_models.prompts()
    assert torch.equal(theirs.generate(tokens, 12), generate(mine, tokens, 12))


@pytest.mark.parametrize("name", ["OPT-125M", "OPT-350M"])
def test_configurations_travel_to_transformers_and_back(name: str, tmp_path) -> None:
    library = pytest.importorskip("transformers")
    config = OPTConfig.of(name)
    folder = tmp_path / name
    library.OPTConfig(**config.as_hugging_face()).save_pretrained(folder)
    assert OPTConfig.from_folder(folder) == config


# --- on a GPU


@pytest.mark.gpu
def test_transformers_runs_on_a_gpu() -> None:
    pytest.importorskip("transformers")
    model = Transformers(OPTConfig.of("OPT-125M"), device="cuda")
    assert model.measure(2, 16, 16)["peak_gb"] > 0.2
