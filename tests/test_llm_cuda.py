"""On a GPU, the graphs of the decoder do what its steps do, and wait for nothing."""

import pytest
import torch
from opt_models import prompts, pruned, random_model, sparse

from lab_utils.backends import cuda
from lab_utils.llm import OPT, generate
from lab_utils.llm.generate import BUCKET, Decoder
from lab_utils.llm.model import DENSE_ABOVE
from lab_utils.llm.prompts import Prompts

pytestmark = pytest.mark.gpu
CHANCE = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}
LENGTH = BUCKET - 8  # so that the new tokens need two buckets


def model_of(format: str | None, dtype: torch.dtype = torch.float16) -> OPT:
    model = pruned(random_model(dtype, max_positions=3 * BUCKET), 0.6).cuda()
    return sparse(model, format) if format else model


@pytest.mark.parametrize("format", [None, *cuda.formats])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_graphs_give_the_tokens_of_eager_steps(format: str | None, dtype: torch.dtype) -> None:
    model = model_of(format, dtype)
    rows = [row.tolist() for row in prompts(4, LENGTH)]
    for tokens in (prompts(4, LENGTH), [row[i:] for i, row in enumerate(rows)]):
        asked = Prompts.of(tokens, model.config, 40, model.device)
        eager = Decoder(model, 4, LENGTH + 40, graphs=False).run(asked, 40)
        decoder = Decoder(model, 4, LENGTH + 40)
        assert torch.equal(decoder.run(asked, 40), eager)  # captures on its way
        assert torch.equal(decoder.run(asked, 40), eager)  # replays only
        rehearsed = Decoder(model, 4, LENGTH + 40)
        rehearsed.rehearse(asked, 40)
        graphs = dict(rehearsed._graphs.by_key)
        assert torch.equal(rehearsed.run(asked, 40), eager)
        assert rehearsed._graphs.by_key == graphs and graphs.keys() == decoder._graphs.by_key.keys()
        assert len(graphs) == 2


def test_a_model_computes_on_the_gpu_what_it_does_on_the_cpu() -> None:
    model = random_model()
    tokens = prompts(4, 6)
    expected = generate(model, tokens, 20)
    assert torch.equal(generate(model.cuda(), tokens, 20).cpu(), expected)


def test_sampling_is_repeatable_with_graphs() -> None:
    model = model_of("tca_bme")
    one = generate(model, prompts(), 20, seed=1, **CHANCE)
    assert torch.equal(one, generate(model, prompts(), 20, seed=1, **CHANCE))
    assert not torch.equal(one, generate(model, prompts(), 20, seed=2, **CHANCE))


@pytest.mark.parametrize("format", [None, "tca_bme"])
def test_steps_never_wait_for_the_gpu(format: str | None) -> None:
    model = model_of(format)
    asked = Prompts.of(prompts(), model.config, 30, model.device)
    for graphs in (False, True):
        decoder = Decoder(model, 3, 40, graphs=graphs)
        decoder.run(asked, 2)  # captures
        torch.cuda.set_sync_debug_mode("error")
        try:
            decoder.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_decoding_first_can_be_captured(monkeypatch) -> None:
    model = model_of("tca_bme")
    monkeypatch.setitem(DENSE_ABOVE, "cuda", 0)
    asked = Prompts.of(prompts(), model.config, 30, model.device)
    eager = Decoder(model, 3, 40, graphs=False).run(asked, 30)
    assert torch.equal(Decoder(model, 3, 40).run(asked, 30), eager)
