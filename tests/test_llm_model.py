"""OPT computes what transformers' OPT computes, for every kind of member of the family."""

import math

import pytest
import torch
from opt_models import prompts, pruned, random_model, sparse
from opt_transformers import VARIANTS, ours, theirs
from torch import Tensor

from lab_utils import SparseLinear
from lab_utils.backends import cpu
from lab_utils.llm import OPT, OPTConfig
from lab_utils.llm.cache import KVCache, PromptAttention, StepAttention, step_mask
from lab_utils.llm.model import DENSE_ABOVE

ROUNDING = 3e-6  # of the largest logit: 25 roundings of fp32


@pytest.fixture(params=VARIANTS)
def pair(request, tmp_path):
    """A model of transformers, and ours with the same weights."""
    other = theirs(request.param)
    return other, ours(other, tmp_path)


@torch.inference_mode()
def cached_logits(model: OPT, tokens: Tensor, prompt: int) -> Tensor:
    """[batch, tokens, vocab] through a cache: a prompt, then token by token."""
    batch, length = tokens.shape
    cache = KVCache(model.config, batch, length, dtype=model.dtype)
    places = torch.arange(length)
    x = model.hidden(tokens[:, :prompt], places[:prompt], PromptAttention(cache))
    found, starts = [model.logits(x)], torch.zeros(batch, dtype=torch.int64)
    for slot in places[prompt:, None]:
        attend = StepAttention(cache, slot, step_mask(starts, slot, cache.slots, model.dtype))
        found.append(model.logits(model.hidden(tokens[:, slot], slot, attend)))
    return torch.cat(found, 1)


@torch.inference_mode()
def test_logits_are_those_of_transformers(pair) -> None:
    other, model = pair
    tokens = prompts(batch=3, tokens=21)
    expected = other(tokens).logits
    for found in (model(tokens), cached_logits(model, tokens, 8)):
        assert (found - expected).abs().max() < ROUNDING * expected.abs().max()


def test_all_switches_reach_the_model(tmp_path) -> None:
    kinds = {name: ours(theirs(name), tmp_path / name.replace(" ", "_")) for name in VARIANTS}
    assert kinds["pre-norm"].head is None and kinds["own head"].head is not None
    assert kinds["post-norm"].final_norm is None and kinds["no final norm"].final_norm is None
    assert kinds["post-norm"].project_in.weight.shape == (64, 24)
    assert kinds["projected"].project_out.weight.shape == (80, 64)
    assert kinds["no bias"].layers[0].qkv.bias is None
    assert kinds["plain norms"].layers[0].mlp_norm.weight is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.inference_mode()
def test_sparse_layers_give_what_the_same_dense_ones_give(dtype: torch.dtype) -> None:
    for sparsity in (0.0, 0.6):
        dense = pruned(random_model(dtype, 0.1), sparsity)
        tokens = prompts()
        expected = dense(tokens).float()
        exact = dense.float()(tokens)
        dense.to(dtype)
        found = sparse(dense)(tokens).float()
        error = (expected - exact).norm() / exact.norm()  # of rounding alone
        assert (found - exact).norm() / exact.norm() < 2 * error
        assert found.shape == (3, 7, 97) and 0 < error < 0.05


@torch.inference_mode()
def test_weights_decoded_first_give_the_dense_models_bits(monkeypatch) -> None:
    model = pruned(random_model(torch.float16), 0.6)
    tokens, expected = prompts(), model(prompts())
    monkeypatch.setitem(DENSE_ABOVE, "cpu", 0)
    assert torch.equal(sparse(model)(tokens), expected)


@torch.inference_mode()
def test_matrices_are_decoded_into_the_same_memory() -> None:
    model = sparse(pruned(random_model(torch.float16), 0.6))
    qkv, fc1 = model.layers[0].qkv.weight, model.layers[1].fc1.weight
    rooms = {layer.scratch for layer in model.layers}
    (scratch,) = rooms
    assert scratch.weights == max(qkv.shape[0] * qkv.shape[1], fc1.shape[0] * fc1.shape[1])
    first = scratch.decoded(qkv)
    assert torch.equal(first, qkv.decode())
    second = scratch.decoded(fc1)
    assert torch.equal(second, fc1.decode()) and second.data_ptr() == first.data_ptr()
    assert not second.is_inference()


def test_the_limit_of_decoding_first_is_that_of_the_device() -> None:
    layer = random_model().layers[0]
    assert layer.limit(torch.device("cpu")) == DENSE_ABOVE["cpu"]
    assert layer.limit(torch.device("cuda")) == math.inf


def test_explains_its_products(monkeypatch) -> None:
    model = pruned(random_model(torch.float16), 0.6)
    model.layers[1].fc1 = SparseLinear.from_linear(model.layers[1].fc1)
    monkeypatch.setitem(DENSE_ABOVE, "cpu", 7)
    assert model.explain(7).splitlines() == [
        "2 × qkv [192, 64]: dense",
        "2 × out [64, 64]: dense",
        "1 × fc1 [128, 64]: dense",
        "1 × fc1 [128, 64]: tca_bme, decoded in the kernel (7 tokens, at most 7)",
        "2 × fc2 [64, 128]: dense",
        "sums, norms, ReLU: torch's own (on cpu)",
        "attention of a step of 7 sequences: torch's own",
    ]
    assert "tca_bme, decoded first, multiplied dense (8 tokens, above 7)" in model.explain(8)
    monkeypatch.delitem(DENSE_ABOVE, "cpu")  # as on a GPU
    with cpu.forced("portable"):
        assert "tca_bme, tca_bme_portable (8 tokens)" in model.explain(8)


def test_explains_products_of_some_tokens_alone() -> None:
    for model in (random_model(), sparse(pruned(random_model(torch.float16), 0.6))):
        for wrong in (-5, 0, "x", 7.0, None):
            with pytest.raises(ValueError, match=f"tokens={wrong!r}; allowed: integers from 1"):
                model.explain(wrong)
        with pytest.raises(ValueError, match="name='fc3'; allowed: qkv, out, fc1, fc2"):
            model.layers[0].explain("fc3", 7)


def test_on_meta_nothing_is_allocated() -> None:
    model = OPT(OPTConfig.of("OPT-175B"), device="meta", dtype=torch.float16)
    assert 174e9 < sum(p.numel() for p in model.parameters()) < 175e9
    assert {p.device.type for p in model.parameters()} == {"meta"}
