"""Attention of one token: by batched products where these are faster, else torch's own."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lab_utils.llm import cache
from lab_utils.llm.cache import FEW_SLOTS, MANY_HEADS, by_products, of_products, step_mask
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.residual import Product

DIM = 64
DTYPES = [torch.float16, torch.bfloat16]


def operands(
    heads: int, slots: int, dtype: torch.dtype, device: str = "cpu"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k and v of a cache that has more slots, with scores of some size; masked at both ends."""
    batch, generator = 4, torch.Generator().manual_seed(slots)
    held = torch.randn(2, batch, heads, slots + 32, DIM, generator=generator)
    q = 3 * torch.randn(batch, heads, 1, DIM, generator=generator)
    starts, slot = torch.tensor([0, 3, slots - 9, 5]), torch.tensor([slots - 5])
    mask = step_mask(starts, slot, slots, dtype)
    k, v = held.to(device, dtype)[..., :slots, :]
    return q.to(device, dtype), k, v, mask.to(device)


def check(result: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> None:
    """To rounding of weights and of the result."""
    scores = q.double() @ k.double().mT / math.sqrt(DIM) + mask.double()
    exact = scores.softmax(-1) @ v.double()
    eps = torch.finfo(q.dtype).eps
    assert result.shape == q.shape and result.dtype == q.dtype
    torch.testing.assert_close(result.double(), exact, rtol=2 * eps, atol=3 * eps)


def test_of_products_is_attention(monkeypatch) -> None:
    """With a stand-in for products of 16 bits that are fp32, which no CPU has."""
    monkeypatch.setattr(torch, "bmm", lambda a, b, out_dtype: a.to(out_dtype) @ b.to(out_dtype))
    for dtype in DTYPES:
        for slots in (32, 96, FEW_SLOTS):
            given = operands(3, slots, dtype)
            check(of_products(*given), *given)


def test_a_cpu_has_torch_s_own(monkeypatch) -> None:
    monkeypatch.setattr(cache, "MANY_HEADS", 1)
    assert not by_products(torch.zeros(64, 72, 1, DIM).half(), 32)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_heads_and_few_slots_on_a_gpu(dtype: torch.dtype) -> None:
    torch.compiler.reset()
    enough = MANY_HEADS // 4
    for slots in (32, FEW_SLOTS):
        given = operands(enough, slots, dtype, "cuda")
        assert by_products(given[0], slots)
        check(of_products(*given), *given)
    q = given[0]
    assert not by_products(q, FEW_SLOTS + 1) and not by_products(q.float(), FEW_SLOTS)
    assert not by_products(q[:, :-1], FEW_SLOTS)


@pytest.mark.gpu
def test_steps_take_either(monkeypatch) -> None:
    """The rule decides how, and changes no more than rounding."""
    config = replace(OPTConfig.of("OPT-125M"), layers=1, hidden=256, heads=4)
    held = cache.KVCache(config, 4, 64, device="cuda", dtype=torch.float16)
    held.data.normal_()
    slot = torch.tensor([40], device="cuda")
    starts = torch.zeros(4, dtype=torch.int64, device="cuda")
    attend = cache.StepAttention(held, slot, step_mask(starts, slot, 64, torch.float16))
    y = torch.randn(3, 4, 4, 1, 64, device="cuda").half()
    own = attend(0, Product(y))
    monkeypatch.setattr(cache, "MANY_HEADS", 1)
    called = []
    monkeypatch.setattr(cache, "of_products", lambda *a: called.append(len(a)) or of_products(*a))
    torch.testing.assert_close(attend(0, Product(y)), own, rtol=2e-3, atol=2e-3)
    assert called == [4]
