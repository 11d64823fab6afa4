"""Generation equals transformers' token for token, and a batch equals its sequences alone."""

import pytest
import torch
from opt_models import config, prompts, pruned, random_model, sparse
from opt_transformers import VARIANTS, ours, theirs
from torch import Tensor

from lab_utils.llm import OPT, generate
from lab_utils.llm.generate import BUCKET, STOP_EVERY, Decoder
from lab_utils.llm.model import DENSE_ABOVE
from lab_utils.llm.prompts import Prompts

RAGGED = [[5, 9, 3, 77, 12], [41], [8, 8, 8]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_greedy_tokens_are_those_of_transformers(variant: str, tmp_path) -> None:
    other = theirs(variant)
    tokens = prompts(batch=4, tokens=6)
    kept = {"do_sample": False, "eos_token_id": None, "pad_token_id": 1}
    expected = other.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=30, **kept
    )
    found = generate(ours(other, tmp_path), tokens, 30)
    assert torch.equal(found, expected[:, 6:])
    assert len(found.unique()) > 5  # not one token again and again


def test_prompts_of_different_lengths_are_independent(tmp_path) -> None:
    other = theirs()
    model = ours(other, tmp_path)
    alone = [generate(model, [prompt], 12)[0] for prompt in RAGGED]
    assert torch.equal(generate(model, RAGGED, 12), torch.stack(alone))
    padded = torch.tensor([[1] * (5 - len(prompt)) + prompt for prompt in RAGGED])
    mask = torch.tensor([[0] * (5 - len(prompt)) + [1] * len(prompt) for prompt in RAGGED])
    kept = {"do_sample": False, "eos_token_id": None, "pad_token_id": 1}
    expected = other.generate(padded, attention_mask=mask, max_new_tokens=12, **kept)
    assert torch.equal(torch.stack(alone), expected[:, 5:])


def test_several_buckets_and_a_decoder_that_is_used_again() -> None:
    model = random_model(max_positions=4 * BUCKET)
    tokens, new = prompts(2, BUCKET - 20), BUCKET
    expected = tokens
    for _ in range(new):  # without a cache
        with torch.inference_mode():
            expected = torch.cat([expected, model(expected)[:, -1:].argmax(-1)], 1)
    decoder = Decoder(model, 2, 4 * BUCKET)
    other = Prompts.of(prompts(2, 3 * BUCKET, seed=1), model.config, BUCKET)
    decoder.run(other, BUCKET)  # leaves its keys and values behind
    found = decoder.run(Prompts.of(tokens, model.config, new), new)
    assert torch.equal(found, expected[:, -new:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sparsity", [0.0, 0.6])
def test_sparse_tokens_are_the_dense_ones(dtype, sparsity, monkeypatch) -> None:
    """They must be where no two tokens are closer than rounding can bring them."""
    model = pruned(random_model(dtype), sparsity)
    tokens = prompts(batch=96, tokens=5)
    monkeypatch.setitem(DENSE_ABOVE, "cpu", 96 * 10)  # no prompt is decoded first
    expected = generate(model, tokens, 6)
    whole = torch.cat([tokens, expected], 1)[:, :-1]
    logits = step_logits(model, whole)
    first, second = logits.topk(2).values.unbind(-1)
    sparse(model)
    rounding = (step_logits(model, whole) - logits).abs().amax((1, 2))
    clear = (first - second).amin(1) > 2 * rounding
    assert clear.sum() >= 10
    assert torch.equal(generate(model, tokens, 6)[clear], expected[clear])


@torch.inference_mode()
def step_logits(model: OPT, whole: Tensor) -> Tensor:
    """Logits of the last 6 tokens of `whole`, in fp32."""
    return model(whole)[:, -6:].float()


def test_prompts_decoded_first_give_the_dense_models_tokens(monkeypatch) -> None:
    model = pruned(random_model(torch.bfloat16), 0.6)
    expected = generate(model, prompts(), 1)
    monkeypatch.setitem(DENSE_ABOVE, "cpu", 20)  # of 3 · 7
    assert torch.equal(generate(sparse(model), prompts(), 1), expected)


def test_sampling_is_repeatable_and_depends_on_its_seed() -> None:
    model, tokens = random_model(spread=0.05), prompts()
    chance = {"temperature": 0.9, "top_k": 40, "top_p": 0.95}
    one = generate(model, tokens, 20, seed=1, **chance)
    assert torch.equal(one, generate(model, tokens, 20, seed=1, **chance))
    assert not torch.equal(one, generate(model, tokens, 20, seed=2, **chance))
    assert not torch.equal(generate(model, tokens, 20, **chance), one)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "x", True])
def test_seeds_that_torch_would_wrap_or_refuse_are_named(seed) -> None:
    with pytest.raises(ValueError, match=f"seed={seed!r}; allowed: integers from 0 to"):
        generate(random_model(), prompts(), 2, temperature=1.0, seed=seed)


def test_one_token_of_top_k_is_greedy() -> None:
    model, tokens = random_model(), prompts()
    assert torch.equal(
        generate(model, tokens, 9, temperature=3.0, top_k=1), generate(model, tokens, 9)
    )


def test_stops_and_fills_up() -> None:
    model, tokens = random_model(), prompts(2, 4)
    free = generate(model, tokens, 40)
    stop = int(free[0, 5])
    found = generate(model, tokens, 40, stop=stop)
    for row, full in zip(found, free, strict=True):
        ends = (full == stop).nonzero().flatten().tolist() or [40]
        kept = min(ends[0] + 1, found.shape[1])
        assert torch.equal(row[:kept], full[:kept]) and torch.all(row[kept:] == stop)
    alone = generate(model, tokens[:1], 40, stop=stop)
    assert alone.shape[1] == free[0].tolist().index(stop) + 1 < STOP_EVERY


@pytest.mark.parametrize(
    ("tokens", "max_new", "message"),
    [
        (torch.zeros(0, 4, dtype=torch.int64), 3, "batch 0; allowed: 1 or more prompts"),
        ([], 3, "batch 0; allowed: 1 or more prompts"),
        ([[3], []], 3, "prompt 1 is empty; allowed: 1 or more tokens"),
        (torch.zeros(2, 0, dtype=torch.int64), 3, "prompt 0 is empty"),
        ([[96, 97]], 3, "token id 97; allowed: 0 to 96, the vocabulary of small"),
        ([[-1]], 3, "token id -1; allowed: 0 to 96"),
        ([[1] * 40], 9, "max_new=9 after a prompt of 40 tokens; .* 48 positions of small"),
        *(([[1]], max_new, f"max_new={max_new!r}; allowed: integers from 1")
          for max_new in (0, 2.5, 3.0, "3", True, None)),
        (torch.zeros(4, dtype=torch.int64), 3, r"shape \(4,\); allowed: \[batch, prompt\]"),
        (torch.zeros(1, 4), 3, "prompt 0 is torch.float32 .*; allowed: integers"),
        ([[0.5]], 3, "prompt 0 is torch.float32"),
        ([["a"]], 3, "tokens is .*; allowed: a tensor"),
        ([1, 2], 3, "tokens is .*; allowed: a tensor"),
    ],
)  # fmt: skip
def test_prompts_that_cannot_be_are_refused(tokens, max_new: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prompts.of(tokens, config(), max_new)


def test_a_rehearsal_changes_nothing_and_steps_once_of_each_kind() -> None:
    model = random_model(max_positions=3 * BUCKET)
    asked = Prompts.of(prompts(2, 8), model.config, 70)
    expected = Decoder(model, 2, 78).run(asked, 70)
    decoder, steps = Decoder(model, 2, 78), []
    step, decoder._step = decoder._step, lambda slots: (steps.append(slots), step(slots))
    decoder.rehearse(asked, 70)
    assert steps == [BUCKET, 2 * BUCKET, decoder.cache.slots]
    assert torch.equal(decoder.run(asked, 70), expected)


def test_a_decoder_refuses_what_it_was_not_made_for() -> None:
    decoder = Decoder(random_model(), 2, 20)
    with pytest.raises(ValueError, match=r"3 prompts of 7 tokens, max_new=5; .* batch 2 and 32"):
        decoder.run(Prompts.of(prompts(), config(), 5), 5)
    asked = Prompts.of(prompts(2), config(), 5)
    for stop in (97, -1, 3.5, "3", True):
        said = f"stop={stop!r}; allowed: integers from 0 to 96, or None"
        with pytest.raises(ValueError, match=said):
            decoder.run(asked, 5, stop=stop)
    for max_new in (0, 2.5, "3", True):
        with pytest.raises(ValueError, match=f"max_new={max_new!r}; allowed: integers from 1"):
            decoder.run(asked, max_new)
    with pytest.raises(ValueError, match=r"graphs=True on cpu; allowed: a CUDA device, or None"):
        Decoder(random_model(), 2, 20, graphs=True)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", True, None])
def test_a_decoder_has_room_for_something(wrong: object) -> None:
    for name, sizes in (("batch", (wrong, 20)), ("slots", (2, wrong))):
        with pytest.raises(ValueError, match=f"{name}={wrong!r}; allowed: integers from 1"):
            Decoder(random_model(), *sizes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "model=None; allowed: OPT, as load"),
        ({"model": torch.nn.Linear(2, 2)}, r"model=Linear\(.*; allowed: OPT"),
        ({"max_new": 2.5}, "max_new=2.5; allowed: integers from 1"),
        ({"stop": 3.5}, "stop=3.5; allowed: integers from 0 to 96, or None"),
        ({"temperature": "hot"}, "temperature='hot'; allowed: finite numbers from 0"),
        ({"temperature": 1.0, "top_k": 2.5}, "top_k=2.5; allowed: integers from 1, or None"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict, message: str) -> None:
    asked = {"model": random_model(), "tokens": prompts(), "max_new": 3} | arguments
    with pytest.raises(ValueError, match=message):
        generate(**asked)
