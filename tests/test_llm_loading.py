"""Checkpoints that transformers wrote are read, pruned, cut, encoded and placed, or refused."""

import copy
import re
from pathlib import Path

import pytest
import torch
from live_bytes import LiveBytes
from opt_checkpoints import KINDS, write
from opt_models import config, prompts, share
from opt_transformers import VARIANTS, ours, theirs
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab_utils import SparseLinear
from lab_utils.analysis.memory import LIBRARY_BYTES
from lab_utils.formats import FORMATS
from lab_utils.llm.checkpoint import HuggingFace, Random, load
from lab_utils.llm.checkpoint.build_pool import copied
from lab_utils.llm.model import MATRICES
from lab_utils.llm.parallel import Ranks, cut
from lab_utils.llm.pruning import Recipe, Target, prune, prune_model

FC1 = "layers.1.fc1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A checkpoint of several shards, which tests only read."""
    return write(theirs(), tmp_path_factory.mktemp("opt"), "sharded safetensors")


@pytest.fixture
def own(tmp_path) -> Path:
    """A checkpoint in one file, which a test may spoil."""
    return write(theirs(), tmp_path / "own")


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kind_of_checkpoint_is_read(variant, kind, tmp_path):
    other = theirs(variant)
    source = HuggingFace(write(other, tmp_path / "opt", kind))
    model = load(source, dtype=torch.float32)
    assert len(list(source.folder.glob("*.safetensors"))) != 1 or kind == "safetensors"
    assert same(model.state_dict(), ours(other, tmp_path).state_dict())
    assert model.weights_origin == "checkpoint" and not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("prefix", ["model.decoder.", "decoder.", ""])
def test_names_may_lack_their_prefixes(prefix, own):
    state = load_file(own / "model.safetensors")
    expected = load(HuggingFace(own)).state_dict()
    renamed = {f"{prefix}{name.removeprefix('model.decoder.')}": t for name, t in state.items()}
    extra = {"lm_head.weight": renamed[f"{prefix}embed_tokens.weight"].clone()}
    save_file(renamed | extra | {"decoder.version": torch.ones(1)}, own / "model.safetensors")
    assert same(load(HuggingFace(own)).state_dict(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_become_what_is_asked_for(dtype, folder):
    model, exact = (
        load(HuggingFace(folder), dtype=dtype),
        load(HuggingFace(folder), dtype=torch.float32),
    )
    expected = {name: tensor.to(dtype) for name, tensor in exact.state_dict().items()}
    assert same(model.state_dict(), expected)


def test_the_model_outlives_its_files(own):
    model = load(HuggingFace(own), dtype=torch.float32)
    before = model(prompts())
    (own / "model.safetensors").write_bytes(b"")
    assert torch.equal(model(prompts()), before)


# --- recipes ------------------------------------------------------------------------------------


def test_matrices_are_pruned_and_encoded_but_for_those_kept_dense(folder):
    target = Target(0.6)
    source = HuggingFace(folder)
    plain = load(source)
    model = load(source, Recipe("tca_bme", target, dense={FC1}.__contains__))
    for index, layer in enumerate(model.layers):
        for name in MATRICES:
            dense = plain.layers[index].get_submodule(name)
            found, full = layer.get_submodule(name), f"layers.{index}.{name}"
            if full == FC1:
                assert type(found) is torch.nn.Linear and torch.equal(found.weight, dense.weight)
            else:
                assert torch.equal(found.weight.decode(), prune(dense.weight, target)), full
            assert torch.equal(found.bias, dense.bias)


def test_formats_are_chosen_by_matrix(folder):
    model = load(HuggingFace(folder), Recipe({"layers.0.qkv": "csr", FC1: "tiled_csl"}.get))
    found = {n: m.weight.name for n, m in model.named_modules() if isinstance(m, SparseLinear)}
    assert found == {"layers.0.qkv": "csr", FC1: "tiled_csl"}


def test_pruned_dense_and_sparse_models_agree(folder, monkeypatch):
    source, target = HuggingFace(folder), Target(0.7, "layer")
    dense, sparse = load(source, Recipe(None, target)), load(source, Recipe("tca_bme", target))
    monkeypatch.setattr("lab_utils.llm.model.DENSE_ABOVE", {"cpu": 0})
    assert torch.equal(sparse(prompts()), dense(prompts()))


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("target", [None, Target(0.6), Target(0.5, "layer")], ids=str)
def test_ranks_have_shares_of_the_matrices_pruned_whole(target, world, folder):
    source = HuggingFace(folder)
    whole = load(source, Recipe(None, target))
    for rank in range(world):
        ranks = Ranks(rank, world)
        expected = share(whole, ranks).state_dict()
        assert same(load(source, Recipe(None, target), ranks=ranks).state_dict(), expected)
        sparse = load(source, Recipe("tca_bme", target), ranks=ranks)
        for index, layer in enumerate(sparse.layers):
            for name in MATRICES:
                decoded = layer.get_submodule(name).weight.decode()
                assert torch.equal(decoded, expected[f"layers.{index}.{name}.weight"])


# --- random weights -----------------------------------------------------------------------------


def test_random_weights_have_the_exact_sparsity_and_say_so():
    model = load(Random(config()), Recipe("tca_bme", Target(0.8)))
    assert model.weights_origin == "random"
    for layer in model.layers:
        for name in MATRICES:
            M, K = layer.get_submodule(name).weight.shape
            zeros = layer.get_submodule(name).weight.decode() == 0
            assert zeros.sum(1).tolist() == [round(0.8 * K)] * M
        assert bool((layer.mlp_norm.weight == 1).all()) and not layer.mlp_norm.bias.any()
        assert not layer.fc1.bias.any()
    assert torch.isfinite(model(prompts())).all()
    assert float(model.embedding.weight.float().std()) == pytest.approx(0.02, rel=0.05)


def test_random_weights_follow_from_seed_and_name():
    first, again, other = (load(Random(config(), seed=seed)).state_dict() for seed in (0, 0, 1))
    assert same(first, again) and not same(first, other)
    assert not torch.equal(first["layers.0.qkv.weight"], first["layers.1.qkv.weight"])
    part = load(Random(config()), ranks=Ranks(1, 2)).layers[0].fc2.weight
    assert torch.equal(part, cut("fc2", first["layers.0.fc2.weight"], None, Ranks(1, 2))[0])


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["magnitude", "wanda"])
@pytest.mark.parametrize("kind", ["random", *KINDS])
def test_the_dense_model_is_never_held(kind, method, tmp_path):
    sizes = {"num_hidden_layers": 12, "hidden_size": 128, "ffn_dim": 512}
    if kind == "random":
        source = Random(config(layers=12, hidden=128, ffn=512, embed=128))
    else:
        source = HuggingFace(write(theirs(**sizes).half(), tmp_path, kind))
    recipe = Recipe("tca_bme", Target(0.8), method)
    with LiveBytes() as live:
        model = load(source, recipe, tokens=None if method == "magnitude" else prompts())
    layer = 2 * 12 * 128 * 128
    held = sum(m.weight.nbytes for m in model.modules() if isinstance(m, SparseLinear))
    assert held < 0.35 * 12 * layer
    assert held < live.peak < held + 4 * layer


@pytest.mark.parametrize("format", [None, "tca_bme"])
def test_what_moves_out_of_the_pool_is_the_same_and_lies_elsewhere(format):
    layer = load(Random(config()), Recipe(format, Target(0.8))).layers[0]
    before, state = list(layer.buffers()) + list(layer.parameters()), layer.state_dict()
    kept = copy.deepcopy(state)
    for name in MATRICES:
        setattr(layer, name, copied(layer.get_submodule(name)))
    assert same(layer.state_dict(), kept) and not any(p.requires_grad for p in layer.parameters())
    moved = {one.data_ptr() for name in MATRICES for one in layer.get_submodule(name).buffers()}
    assert bool(moved) == bool(format) and moved.isdisjoint(one.data_ptr() for one in before)


# --- refused before a weight is read --------------------------------------------------------------


class Unread:
    """A source of which nothing may be read."""

    config, origin = config(), "random"

    def read(self, name: str) -> Tensor:
        raise AssertionError(f"{name} was read")


@pytest.mark.parametrize(
    "recipe, options, said",
    [
        (Recipe("tca_bme"), {"dtype": torch.float32}, "dtype=torch.float32; allowed for tca_bme"),
        (Recipe(lambda name: "coo"), {}, "format='coo': unknown"),
        (Recipe(lambda name: ["csr"]), {}, r"format=\['csr'\]: unknown; allowed: dense, csr"),
        (Recipe(target=Target.n_of_m("1:3")), {}, "needs rows of a multiple of 3, not K=64"),
        (Recipe(target=Target(0.5), method="wanda"), {}, "tokens=None; wanda needs a tensor"),
        (Recipe(), {"tokens": prompts()}, "tokens are given, but method='magnitude' needs none"),
        (Recipe("2:4", Target(0.5)), {}, "within='row' may leave more than two of four neighbours"),
        (Recipe(), {"ranks": Ranks(0, 3)}, "world=3 must divide heads=4"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_weight_is_read(recipe, options, said):
    with pytest.raises(ValueError, match=said):
        load(Unread(), recipe, **options)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"format": "coo"}, "format='coo': unknown; allowed: dense, csr"),
        ({"format": ["csr"]}, r"format=\['csr'\]: unknown; allowed: dense, csr"),
        ({"format": FORMATS["csr"]}, "format=<class .*: unknown; allowed: dense, csr"),
        ({"method": "lottery"}, "method='lottery': unknown; allowed: magnitude"),
        ({"method": ["wanda"]}, r"method=\['wanda'\]: unknown; allowed: magnitude"),
        ({"target": 0.5}, r"target=0.5; allowed: None, or Target\(sparsity\)"),
        ({"dense": {FC1}}, "dense={'layers.1.fc1'}; allowed: a function of a matrix's name"),
    ],
)
def test_recipes_know_what_they_are_made_of(arguments, said):
    with pytest.raises(ValueError, match=said):
        Recipe(**{"format": "csr"} | arguments)


def test_a_matrix_that_does_not_fit_its_format_is_named():
    with pytest.raises(ValueError, match=r"^layers\.1\.fc1: dense has more than two non-zeros"):
        load(Random(config()), Recipe({FC1: "2:4"}.get))


@pytest.mark.parametrize("recipe", ["tca_bme", 0.8, ""])
def test_a_recipe_is_one_and_a_source_too(recipe) -> None:
    said = re.escape(f"recipe={recipe!r}; allowed: Recipe(")
    with pytest.raises(ValueError, match=said):
        load(Random(config()), recipe)
    with pytest.raises(ValueError, match=said):
        prune_model(load(Random(config())), recipe)
    with pytest.raises(ValueError, match=r"source='opt'; allowed: HuggingFace\(folder\)"):
        load("opt")


@pytest.mark.gpu
def test_a_gpu_makes_the_same_model(folder):
    recipe = Recipe("tca_bme", Target(0.6))
    here, there = (load(HuggingFace(folder), recipe, device=device) for device in ("cpu", "cuda"))
    for name, module in there.named_modules():
        if isinstance(module, SparseLinear):
            decoded = here.get_submodule(name).weight.decode()
            assert torch.equal(module.weight.decode().cpu(), decoded), name


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["magnitude", "wanda"])
def test_a_gpu_never_holds_the_dense_model(method):
    H, layers = 1024, 12
    source = Random(config(layers=layers, hidden=H, ffn=4 * H, embed=H), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    tokens = None if method == "magnitude" else prompts()
    model = load(source, Recipe("tca_bme", Target(0.8), method), device="cuda", tokens=tokens)
    held = sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()])
    layer = 2 * 12 * H * H
    assert model.device.type == "cuda" and held < 0.35 * layers * layer
    peak = torch.cuda.max_memory_allocated() - before
    assert peak < held + 4 * layer + 2 * LIBRARY_BYTES  # which calibration makes cuBLAS allocate


@pytest.mark.gpu
@pytest.mark.parametrize("format", ["tca_bme", "zero_row_24"])
def test_a_gpu_keeps_no_holes_among_the_weights(format):
    H = 2048
    source = Random(config(layers=12, hidden=H, ffn=4 * H, embed=H), device="cuda")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    model = load(source, Recipe(format, Target(0.8)), device="cuda")
    torch.cuda.empty_cache()
    held = sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()])
    segments = 3 * 20 << 20  # of torch's allocator: begun ones
    assert torch.cuda.memory_reserved() - before < 1.01 * held + segments
