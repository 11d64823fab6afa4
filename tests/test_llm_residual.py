"""Sums, norms and ReLUs between the products: the same numbers, however many kernels they are."""

import ctypes
import functools

import pytest
import torch
from opt_models import prompts, pruned, random_model, sparse
from torch import nn

from lab_utils.backends import cuda
from lab_utils.backends.kernels import WITH_EPILOGUE
from lab_utils.llm import OPT, generate, one_kernel
from lab_utils.llm.generate import Decoder
from lab_utils.llm.prompts import Prompts
from lab_utils.llm.residual import Product, Residual

KINDS = {
    "pre-norm": {},
    "post-norm": {"norm_first": False, "final_norm": False},
    "no bias": {"bias": False},
    "plain norms": {"norm_affine": False},
}


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """Makes steps on a CPU be compiled, though by no compiler; lists what is asked for."""
    asked = []

    @functools.cache
    def compile(function):
        asked.append(function.__name__)
        return torch.compile(function, backend="aot_eager")

    monkeypatch.setattr(one_kernel, "_compiled", compile)
    monkeypatch.setattr(one_kernel, "_obstacle", lambda device_type: None)
    torch.compiler.reset()
    return asked


def test_sums_wait_and_norms_are_of_all_that_was_added() -> None:
    x, y, z, bias = (torch.randn(2, 3, 8) for _ in range(4))
    norm = nn.LayerNorm(8)
    nn.init.normal_(norm.weight)
    first = Residual(x) + Product(y, bias[0, 0])
    second = first + Product(z)
    for _ in range(2):
        torch.testing.assert_close(first.sum(), x + (y + bias[0, 0]))
        torch.testing.assert_close(second.norm(norm), norm(x + (y + bias[0, 0]) + z))
        torch.testing.assert_close(second.sum(), x + (y + bias[0, 0]) + z)
    assert torch.equal(Residual(x).norm(norm), norm(x)) and Residual(x).sum() is x


def test_relu_adds_the_bias_first() -> None:
    y, bias = torch.tensor([[[-1.0, 2.0]]]), torch.tensor([3.0, -3.0])
    assert Product(y, bias).relu().tolist() == [[[2.0, 0.0]]]
    assert Product(y.clone()).relu().tolist() == [[[0.0, 2.0]]]


@pytest.mark.parametrize(
    ("kind", "format"),
    [("pre-norm", None), ("pre-norm", "tca_bme"), ("post-norm", "tca_bme"), ("no bias", "tca_bme"),
     ("plain norms", None)],
)  # fmt: skip
def test_compiled_steps_generate_the_same_tokens(kind: str, format: str | None, compiled) -> None:
    model = pruned(random_model(torch.bfloat16, **KINDS[kind]), 0.6)
    if format:
        sparse(model, format)
    found = generate(model, prompts(), 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_kernel, "_obstacle", lambda device_type: "not now")
        assert torch.equal(found, generate(model, prompts(), 9))
    always = {"step_mask", "_add_positions", "_add_norm", "_held", "_settle"}
    biased = format and kind != "no bias"
    assert set(compiled) == (always | {"_add_relu"} if biased else always)


def test_prompts_are_not_compiled(compiled) -> None:
    random_model()(prompts())
    assert compiled == []


def test_says_why_nothing_is_compiled(monkeypatch) -> None:
    one_kernel._obstacle.cache_clear()
    assert one_kernel.explain("cpu") == "torch's own (on cpu)"
    monkeypatch.setattr(one_kernel.importlib.util, "find_spec", lambda name: None)
    assert one_kernel.explain("cuda") == "torch's own (triton is not installed)"
    one_kernel._obstacle.cache_clear()


def test_torch_knows_the_options() -> None:
    assert set(one_kernel.OPTIONS) <= set(torch._inductor.list_options())


# --- on a GPU


def kernels_of_a_step(model: OPT) -> int:
    """The nodes of its CUDA graph."""
    decoder = Decoder(model, 3, 40, graphs=False)
    decoder.run(Prompts.of(prompts(), model.config, 30, model.device), 4)
    graph, nodes = torch.cuda.CUDAGraph(keep_graph=True), ctypes.c_size_t()
    with torch.inference_mode(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        decoder._step(32)
    driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(graph.raw_cuda_graph())
    assert driver.cuGraphGetNodes(handle, None, ctypes.byref(nodes)) == 0
    return nodes.value


@pytest.mark.gpu
@pytest.mark.parametrize("format", [None, "tca_bme", *WITH_EPILOGUE])
def test_a_layer_needs_few_kernels(format: str | None) -> None:
    """In a step, beside its products: two sums with norms, cache, attention, and the ReLU of a
    sparse format whose product does not take it; one more is room for what libraries may do.
    """
    if format in WITH_EPILOGUE and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip(f"{format} needs sm_90")
    counts = []
    for layers in (2, 6):
        model = pruned(random_model(torch.float16, layers=layers), 0.6).cuda()
        with cuda.forced("fused"):  # so small matrices are decoded first
            counts.append(kernels_of_a_step(sparse(model, format) if format else model))
    # At most: those split along K add up in a kernel of their own, and strips of 2:4 want B
    # expanded.
    products = {None: 4, "zero_row_24_strips": 12, "lane_24_strips": 12}.get(format, 8)
    relu = format not in (None, *WITH_EPILOGUE)
    assert (counts[1] - counts[0]) / 4 <= products + 5 + relu


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_compiled_steps_are_as_exact_as_torch_s_own(kind: str, dtype: torch.dtype) -> None:
    torch.compiler.reset()  # of which there are only so many for a function
    x, y = torch.randn(2, 8, 1, 9216, device="cuda", dtype=torch.float64).to(dtype)
    bias = None if kind == "no bias" else torch.randn(9216, device="cuda").to(dtype)
    norm = nn.LayerNorm(9216, elementwise_affine=kind != "plain norms").cuda().to(dtype)
    exact = x.double() + y.double() + (0 if bias is None else bias.double())
    waiting = Residual(x) + Product(y, bias)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(waiting.norm(norm).double(), norm.double()(exact), rtol=4 * eps,
                               atol=8 * eps)  # fmt: skip
    torch.testing.assert_close(waiting.sum().double(), exact, rtol=2 * eps, atol=4 * eps)
