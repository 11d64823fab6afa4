"""Attention of one token: by batched products where these are faster, else torch's own."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from lab_utils.llm import attention
from lab_utils.llm.attention import FEW_SLOTS, MANY_HEADS, by_products, slots_by_products
from lab_utils.llm.cache import KVCache, StepAttention, step_mask
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
    qkv = 3 * torch.randn(batch, 1, 3, heads, DIM, generator=generator)
    starts, slot = torch.tensor([0, 3, slots - 9, 5]), torch.tensor([slots - 5])
    mask = step_mask(starts, slot, slots, dtype)
    k, v = held.to(device, dtype)[..., :slots, :]
    q = qkv.to(device, dtype)[:, :, 0].transpose(1, 2)  # as it lies in a dense product
    return q, k, v, mask.to(device)


def check(result: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> None:
    """To rounding of weights and of the result."""
    scores = q.double() @ k.double().mT / math.sqrt(DIM) + mask.double()
    exact = scores.softmax(-1) @ v.double()
    eps = torch.finfo(q.dtype).eps
    assert result.shape == q.shape and result.dtype == q.dtype
    torch.testing.assert_close(result.double(), exact, rtol=2 * eps, atol=3 * eps)


def test_products_are_attention(monkeypatch) -> None:
    """With a stand-in for products of 16 bits that are fp32, which no CPU has."""

    def wide(a: Tensor, b: Tensor, out_dtype: torch.dtype) -> Tensor:
        assert out_dtype == torch.float32
        return a.float() @ b.float()

    monkeypatch.setattr(torch, "bmm", wide)
    for dtype in DTYPES:
        for slots in (32, 96, FEW_SLOTS):
            given = operands(3, slots, dtype)
            check(by_products(*given), *given)


def test_products_are_for_many_heads_and_few_slots_on_a_gpu(monkeypatch) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert slots_by_products(9999, cpu, torch.half) == 0
    monkeypatch.setattr(attention, "compiles", lambda device: device == gpu)
    assert slots_by_products(MANY_HEADS, gpu, torch.bfloat16) == FEW_SLOTS
    for others in (
        (MANY_HEADS - 1, gpu, torch.half),
        (9999, cpu, torch.half),
        (9999, gpu, torch.float),
    ):
        assert slots_by_products(*others) == 0
        assert attention.explain(*others) == "torch's own"
    said = "two batched products up to 128 slots, beyond that torch's own"
    assert attention.explain(MANY_HEADS, gpu, torch.half) == said


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_on_a_gpu(dtype: torch.dtype) -> None:
    torch.compiler.reset()
    for slots in (32, FEW_SLOTS):
        given = operands(MANY_HEADS // 4, slots, dtype, "cuda")
        check(by_products(*given), *given)


@pytest.mark.gpu
def test_steps_take_either(monkeypatch) -> None:
    """The rule decides how, and changes no more than rounding."""
    config = replace(OPTConfig.of("OPT-125M"), layers=1, hidden=256, heads=4)
    held = KVCache(config, 4, 160, device="cuda", dtype=torch.float16)
    held.data.normal_()
    slot, starts = torch.tensor([40], device="cuda"), torch.zeros(4, device="cuda").long()
    monkeypatch.setattr(attention, "by_products", called := Mock(wraps=by_products))
    y = Product(torch.randn(3, 4, 4, 1, 64, device="cuda").half())
    for slots in (64, 160):
        attend = StepAttention(held, slot, step_mask(starts, slot, slots, torch.float16))
        monkeypatch.setattr(attention, "MANY_HEADS", 17)
        own = attend(0, y)
        monkeypatch.setattr(attention, "MANY_HEADS", 16)
        torch.testing.assert_close(attend(0, y), own, rtol=2e-3, atol=2e-3)
    called.assert_called_once()
