"""Stored models come back bit for bit, whole or in shares, and any damage is found first."""

import json
from pathlib import Path

import pytest
import torch
from live_bytes import LiveBytes
from opt_models import config, prompts, random_model, share
from torch import nn

from lab_utils import SparseLinear
from lab_utils.formats import TcaBme, storage
from lab_utils.llm import OPT
from lab_utils.llm.checkpoint import Random, Stored, convert, load, save
from lab_utils.llm.checkpoint.layout import TOP, file_of
from lab_utils.llm.model import MATRICES
from lab_utils.llm.parallel import Ranks
from lab_utils.llm.pruning import Recipe, Target
from lab_utils.llm.pruning.models import prune_model

MIXED = {"layers.0.qkv": "csr", "layers.0.out": "tiled_csl", "layers.1.fc1": "tca_bme"}.get
RECIPES = {
    "dense": Recipe(None, Target(0.6)),
    "tca_bme": Recipe("tca_bme", Target(0.6)),
    "mixed": Recipe(MIXED, Target(0.6)),
    "packed": Recipe("zero_row_24_packed", Target(0.6)),  # where pairs would be chosen
    "2:4": Recipe("2:4", Target.n_of_m("2:4")),
}
ODD = {"norm_first": False, "final_norm": False, "embed": 24, "tied": False, "bias": False}


def model(recipe: str = "tca_bme", dtype: torch.dtype = torch.float16, **changes) -> OPT:
    made = prune_model(random_model(dtype, 0.1, **changes), RECIPES[recipe])
    made.weights_origin = "checkpoint"
    return made


def same(a: OPT, b: OPT) -> bool:
    """Bit for bit, encodings included."""
    mine, other = a.state_dict(), b.state_dict()
    return mine.keys() == other.keys() and all(torch.equal(mine[n], other[n]) for n in mine)


@pytest.fixture
def folder(tmp_path) -> Path:
    save(model(), tmp_path / "stored")
    return tmp_path / "stored"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("changes", [{}, ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("recipe", RECIPES)
@torch.no_grad()
def test_comes_back_bit_for_bit(recipe, changes, dtype, tmp_path):
    stored = model(recipe, dtype, **changes)
    save(stored, tmp_path / "a")
    found = Stored(tmp_path / "a").load()
    assert same(found, stored) and found.config == stored.config
    assert found.weights_origin == "checkpoint" and not found.training
    assert torch.equal(found(prompts()), stored(prompts()))
    expected = [TOP, "config.json", "index.json", *map(file_of, range(2))]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_fp32_models_are_stored_too(tmp_path):
    stored = model("dense", torch.float32)
    save(stored, tmp_path / "a")
    assert same(Stored(tmp_path / "a").load(), stored)


@pytest.mark.parametrize("method", ["magnitude", "wanda", "sparsegpt", "taylor"])
def test_converting_stores_what_loading_makes(method, tmp_path):
    source, recipe = Random(config(), dtype=torch.bfloat16), Recipe("tca_bme", Target(0.6), method)
    how = {"dtype": torch.bfloat16, "tokens": None if method == "magnitude" else prompts()}
    convert(source, tmp_path / "new" / "a", recipe, **how)
    found = Stored(tmp_path / "new" / "a").load()
    assert same(found, load(source, recipe, **how)) and found.weights_origin == "random"


def test_converting_holds_neither_the_dense_nor_the_sparse_model(tmp_path):
    layers, H = 16, 128
    source = Random(config(layers=layers, hidden=H, ffn=4 * H, embed=H))
    with LiveBytes() as live:
        convert(source, tmp_path / "a", Recipe("tca_bme", Target(0.5)))
    stored = sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    assert live.peak < 0.5 * stored and stored > 0.5 * layers * 2 * 12 * H * H


def test_only_recipes_convert(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="recipe='tca_bme'; allowed: Recipe"):
        convert(Random(config()), tmp_path / "a", "tca_bme")


# --- other shapes and formats ---------------------------------------------------------------------


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("recipe", ["dense", "tca_bme", "mixed", "packed"])
def test_ranks_get_their_shares(recipe, world, tmp_path):
    stored, dense = model(recipe), model("dense")
    save(stored, tmp_path / "a")
    for rank in range(world):
        ranks = Ranks(rank, world)
        part, expected = Stored(tmp_path / "a").load(ranks=ranks), share(dense, ranks)
        for name, module in part.named_modules():
            if name.rpartition(".")[2] not in MATRICES:
                continue
            whole, bias = stored.get_submodule(name), expected.get_submodule(name).bias
            sparse = isinstance(module, SparseLinear)
            assert sparse == isinstance(whole, SparseLinear)
            assert not sparse or module.weight.variant == whole.weight.variant
            weight = module.weight.decode() if sparse else module.weight
            assert torch.equal(weight, expected.get_submodule(name).weight), name
            assert (module.bias is None) == (bias is None)
            assert bias is None or torch.equal(module.bias, bias)


@pytest.mark.parametrize("format", ["csr", "zero_row_24", "zero_row_24_packed"])
def test_another_format_may_be_asked_for(format, folder):
    as_stored, other = Stored(folder).load(), Stored(folder).load(format=format)
    for name, module in other.named_modules():
        if isinstance(module, SparseLinear):
            assert module.weight.variant == format
            whole = as_stored.get_submodule(name).weight
            assert torch.equal(module.weight.decode(), whole.decode())
    with pytest.raises(ValueError, match="format='coo': unknown; allowed: dense.*_24_packed"):
        Stored(folder).load(format="coo")


# --- refused --------------------------------------------------------------------------------------


def edit(file: Path, change) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def rewrite(file: Path, change) -> None:
    """Change metadata or arrays of a stored file, and make its checksums anew."""
    metadata, arrays = storage.read(file)
    change(metadata, arrays)
    storage.write(file, metadata, arrays)


def drop(metadata: dict, arrays: dict) -> None:
    del arrays["fc1.bias"], metadata["shape"]["fc1.bias"]


def reshape(metadata: dict, arrays: dict) -> None:
    metadata["shape"]["fc1.bias"] = [64, 2]


LAYER = file_of(1)
SPOILED = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json cannot be read"),
    "no object": (lambda f: (f / "config.json").write_text("[]"), "config.json holds a list"),
    "foreign": (lambda f: edit(f / "config.json", lambda c: c.pop("format")), "format is None"),
    "newer": (lambda f: edit(f / "config.json", lambda c: c.update(version=9)), "version is 9"),
    "no id": (lambda f: edit(f / "config.json", lambda c: c.pop("id")), "config.json is damaged"),
    "no size": (
        lambda f: edit(f / "config.json", lambda c: c["config"].pop("ffn")),
        "config.json is damaged",
    ),
    "no index": (lambda f: (f / "index.json").unlink(), "index.json cannot be read"),
    "short index": (
        lambda f: edit(f / "index.json", lambda c: c.pop(LAYER)),
        f"index.json: {LAYER} is missing, or too much",
    ),
    "index of other sizes": (
        lambda f: edit(f / "config.json", lambda c: c["config"].update(ffn=256)),
        r"fc1 is .*\[128, 64\].*allowed: shape \[256, 64\]",
    ),
    "unknown format": (
        lambda f: edit(f / "index.json", lambda c: c[LAYER]["fc1"].update(format="coo")),
        "fc1: format coo 1; allowed: dense 1, csr 1",
    ),
    "another index": (
        lambda f: edit(f / "index.json", lambda c: c[LAYER]["fc1"].update(format="tiled_csl")),
        f"{LAYER} belongs to another model, or another save",
    ),
    "no entries": (
        lambda f: edit(f / "index.json", lambda c: c.update({LAYER: 5})),
        f"index.json: {LAYER} is 5; allowed: an object",
    ),
    "format of another type": (
        lambda f: edit(f / "index.json", lambda c: c[LAYER]["fc1"].update(format=["csr"])),
        r"fc1: format \['csr'\] 1; allowed: dense 1",
    ),
    "another layer's": (
        lambda f: (f / LAYER).write_bytes((f / file_of(0)).read_bytes()),
        f"{LAYER} belongs to another model, or another save",
    ),
    "other heads": (
        lambda f: edit(f / "config.json", lambda c: c["config"].update(heads=2)),
        "config.json: config is .*'heads': 2.* when model.safetensors was written",
    ),
    "another origin": (
        lambda f: edit(f / "config.json", lambda c: c.update(weights="trained")),
        "config.json: weights is 'trained'; it was '(random|checkpoint)' when",
    ),
    "no file": (lambda f: (f / LAYER).unlink(), f"{LAYER}'?: no such file"),
    "truncated": (
        lambda f: (f / LAYER).write_bytes((f / LAYER).read_bytes()[:-9]),
        f"{LAYER}: not a stored sparse matrix, or damaged",
    ),
    "lacking": (lambda f: rewrite(f / LAYER, drop), f"{LAYER}: fc1.bias is missing, or too much"),
    "reshaped": (lambda f: rewrite(f / LAYER, reshape), r"fc1.bias is \[64, 2\]; allowed: \[128\]"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_spoiled_folders_are_refused_before_they_are_read(how, folder):
    spoil, said = SPOILED[how]
    spoil(folder)
    with pytest.raises(ValueError, match=said):
        Stored(folder)


def test_files_of_another_save_are_refused(folder, tmp_path):
    save(model(), tmp_path / "other")
    (tmp_path / "other" / LAYER).replace(folder / LAYER)
    with pytest.raises(ValueError, match=f"{LAYER} belongs to another model, or another save"):
        Stored(folder)


@pytest.mark.parametrize("place", [0.5, 0.9, 0.999])
def test_flipped_bits_are_found(place, folder):
    content = bytearray((folder / LAYER).read_bytes())
    content[int(place * len(content))] ^= 4
    (folder / LAYER).write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        Stored(folder).load()


def test_encodings_are_validated(folder):
    rewrite(folder / LAYER, lambda metadata, arrays: arrays["fc1.bitmap"].fill_(-1))
    with pytest.raises(ValueError, match="invalid tca_bme encoding of a 128x64 matrix"):
        Stored(folder).load()


def test_other_versions_of_a_format_are_refused(folder, monkeypatch):
    monkeypatch.setattr(TcaBme, "version", 7)
    with pytest.raises(ValueError, match="format tca_bme 1; allowed: .*tca_bme 7"):
        Stored(folder)


class Unread:
    """A source of which nothing may be read."""

    config, origin = config(), "random"

    def read(self, name: str):
        raise AssertionError(f"{name} was read")


def test_folders_that_exist_are_refused_before_anything_is_made(folder):
    before = sorted(path.stat().st_mtime_ns for path in folder.iterdir())
    for write in (lambda: save(model(), folder), lambda: convert(Unread(), folder, Recipe())):
        with pytest.raises(ValueError, match="stored' exists; allowed: the name of a new folder"):
            write()
    assert sorted(path.stat().st_mtime_ns for path in folder.iterdir()) == before


def test_shares_are_not_saved(tmp_path):
    part = load(Random(config()), ranks=Ranks(0, 2))
    with pytest.raises(ValueError, match="model is one of world=2 shares; allowed: a whole one"):
        save(part, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    written = []

    def runs_out_of_space(path, *_):
        if written:
            raise OSError(28, "No space left on device")
        written.append(path.write_text("half"))

    monkeypatch.setattr(storage, "write", runs_out_of_space)
    with pytest.raises(RuntimeError, match="cannot write folder=.*a'?: No space left"):
        save(model(), tmp_path / "a")
    assert written and list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match=r"cannot write folder=.*file/a"):
        save(model(), tmp_path / "file" / "a")
    late = Recipe("tca_bme", Target(0.5), "taylor")  # which has much to do before it can write
    with pytest.raises(RuntimeError, match=r"cannot write folder=.*file/a"):
        convert(Unread(), tmp_path / "file" / "a", late, tokens=prompts())


def test_dense_matrices_stay_dense(tmp_path):
    save(model("mixed"), tmp_path / "a")
    found = Stored(tmp_path / "a").load()
    assert type(found.layers[1].qkv) is nn.Linear and found.layers[0].qkv.weight.name == "csr"
