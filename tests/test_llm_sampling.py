"""Tokens are drawn with the probabilities that temperature, top-k and top-p leave."""

import pytest
import torch
from transformers.generation import logits_process as theirs

from lab_utils.llm.sampling import Sampling

LOGITS = 3 * torch.randn(4, 50, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 7, 50, 500])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.6, 1.0])
def test_probabilities_are_those_of_transformers(temperature, top_k, top_p) -> None:
    scores = theirs.TemperatureLogitsWarper(temperature)(None, LOGITS.clone())
    if top_k is not None:
        scores = theirs.TopKLogitsWarper(top_k)(None, scores)
    if top_p is not None:
        scores = theirs.TopPLogitsWarper(top_p)(None, scores)
    found = Sampling(temperature, top_k, top_p).probabilities(LOGITS)
    torch.testing.assert_close(found, scores.softmax(-1))


def test_tokens_fall_as_their_probabilities_say() -> None:
    sampling = Sampling(1.5, top_k=4)
    logits, draws = LOGITS[:1], 20_000
    noise = torch.empty(draws, 50).exponential_(generator=torch.Generator().manual_seed(1))
    drawn = sampling.choose(logits.expand(draws, -1), noise).bincount(minlength=50) / draws
    expected = sampling.probabilities(logits)[0]
    deviation = (expected * (1 - expected) / draws).sqrt()
    assert torch.all((drawn - expected).abs() <= 4 * deviation)
    assert torch.count_nonzero(drawn) == 4


def test_greedy_takes_the_most_likely() -> None:
    assert torch.equal(Sampling().choose(LOGITS), LOGITS.argmax(-1))


@pytest.mark.parametrize(
    "values", [{"temperature": 1e-300}, {"temperature": 1e-40}, {"temperature": 1, "top_p": 1e-60}]
)
def test_the_least_of_chance_takes_the_most_likely(values: dict) -> None:
    chances = Sampling(**values).probabilities(1000 * LOGITS)
    assert torch.equal(chances.argmax(-1), LOGITS.argmax(-1))
    assert torch.equal(chances.amax(-1), torch.ones(len(LOGITS)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -1.0}, "temperature=-1.0; allowed: finite numbers from 0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"temperature": "hot"}, "temperature='hot'; allowed: finite numbers from 0"),
        ({"temperature": None}, "temperature=None"),
        ({"temperature": 1.0, "top_k": 0}, "top_k=0; allowed: integers from 1, or None"),
        ({"temperature": 1.0, "top_k": 2.5}, "top_k=2.5; allowed: integers from 1, or None"),
        ({"temperature": 1.0, "top_k": True}, "top_k=True"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p=0.0; allowed: numbers above 0, to 1"),
        ({"temperature": 1.0, "top_p": "x"}, "top_p='x'; allowed: numbers above 0, to 1, or None"),
        ({"temperature": 1.0, "top_p": float("nan")}, "top_p=nan"),
        ({"temperature": 1.0, "top_p": 1.1}, "top_p=1.1"),
        ({"top_k": 5}, "top_k=5 and top_p=None would change nothing"),
    ],
)
def test_values_out_of_range_are_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**values)
