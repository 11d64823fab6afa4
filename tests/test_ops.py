"""The operation's contract: what it refuses, what it honours, how it looks to torch."""

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.testing._internal.two_tensor import TwoTensor

from lab_utils import (
    SparseMatrix,
    accuracy,
    backends,
    encode,
    explain,
    ops,
    sparse_linear,
    spmm,
)
from lab_utils.backends import cpu, emulator
from lab_utils.ops import sparse_relu
from lab_utils.patterns import random_sparse

W = random_sparse(96, 160, 0.6, mean=0.5)
B = torch.randn(160, 8, generator=torch.Generator().manual_seed(0)).half()


@pytest.fixture
def A() -> SparseMatrix:
    return encode(W, "tca_bme")


@pytest.mark.parametrize("backend", [None, "cpu", "reference"])
def test_backends_agree_with_fp64(A: SparseMatrix, backend: str | None) -> None:
    accuracy.check(spmm(A, B, backend=backend), W, B)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_autocast_leaves_products_as_exact_as_they_are(backend: str) -> None:
    dense = random_sparse(64, 2048, 0.5, mean=0.5)
    x = torch.randn(2048, 8, generator=torch.Generator().manual_seed(0)).half()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        C = spmm(encode(dense, "csr"), x, backend=backend)
    accuracy.check(C, dense, x)


def test_operands_have_memory(A: SparseMatrix, monkeypatch) -> None:
    freed = B.clone()
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="B is a Tensor without memory; allowed: a tensor with v"):
        spmm(A, freed)
    out = torch.empty(96, 8).half()
    out.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="out is a Tensor without memory"):
        spmm(A, B, out=out)
    dense = torch.empty(96, 160).half()
    dense.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="out is a Tensor without memory"):
        A.decode(out=dense)
    monkeypatch.setattr(ops, "has_epilogue", lambda A: True)  # as on a GPU
    bias = torch.empty(96).half()
    bias.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="bias is a Tensor without memory"):
        sparse_relu(B.T, A, bias)
    wrapped = spmm(A, TwoTensor(B, -B))  # what has no memory of its own may know what to do
    assert torch.equal(wrapped.a, spmm(A, B)) and torch.equal(wrapped.b, -spmm(A, B))


def test_forward_mode_derivatives_are_refused(A: SparseMatrix, monkeypatch) -> None:
    products = {"B": lambda b: spmm(A, b), "x": lambda b: sparse_linear(b.T, A)}
    for name, product in products.items():
        said = f"{name} has a tangent; .* give them {name}.detach()"
        with pytest.raises(RuntimeError, match=said):
            torch.func.jvp(product, (B,), (B,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(B, B)
        with pytest.raises(RuntimeError, match="B has a tangent"):
            spmm(A, dual)
        assert torch.equal(spmm(A, dual.detach()), spmm(A, B))
        monkeypatch.setattr(ops, "has_epilogue", lambda A: True)  # as on a GPU
        bias = torch.zeros(96).half()
        with pytest.raises(RuntimeError, match="x has a tangent"):
            sparse_relu(dual.T, A, bias)
        with pytest.raises(RuntimeError, match="bias has a tangent"):
            sparse_relu(B.T, A, forward_ad.make_dual(bias, bias))
    compiled = torch.compile(lambda b: torch.func.jvp(product, (b,), (b,)), backend="eager")
    with pytest.raises(RuntimeError, match="x has a tangent"):
        compiled(B)


@pytest.mark.parametrize("format", emulator.formats)
def test_a_default_device_changes_nothing(format: str) -> None:
    encoded, expected = encode(W, format), spmm(encode(W, format), B, backend="emulator")
    with torch.device("meta"):
        assert explain(encoded, B, backend="emulator").backend == "emulator"
        assert torch.equal(spmm(encoded, B, backend="emulator"), expected)


@pytest.mark.parametrize(
    ("operand", "said"),
    [
        (B.float(), "B is torch.float32; allowed: torch.float16"),
        (B[:100], r"B has shape \(100, 8\); allowed with A \(96, 160\): \[160, N >= 1\]"),
        (B[:, :0], r"B has shape \(160, 0\)"),
        (B[:, 0], r"B is a torch.float16 tensor of shape \(160,\)"),
        (B.to_sparse(), "layout torch.sparse_coo; allowed: a strided"),
        (B.to("meta"), "B is on meta; allowed: cpu"),
        (B.tolist(), "B is a list"),
    ],
)
def test_refuses_activations_that_do_not_fit(A: SparseMatrix, operand: object, said: str) -> None:
    for call in (spmm, explain):
        with pytest.raises(ValueError, match=said):
            call(A, operand)


def test_refuses_other_arguments_that_do_not_fit(A: SparseMatrix) -> None:
    with pytest.raises(ValueError, match="A is a torch.float16 tensor.*encode"):
        spmm(W, B)
    with pytest.raises(ValueError, match="backend='tpu': unknown; allowed: cuda, cpu, emulator"):
        spmm(A, B, backend="tpu")
    with pytest.raises(ValueError, match=r"backend=\['cpu'\]: unknown"):
        spmm(A, B, backend=["cpu"])
    with pytest.raises(RuntimeError, match="no compiled backend for tensors on meta.*reference"):
        backends.for_device(torch.device("meta"))


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (torch.empty(96, 9).half(), r"allowed: a strided torch.Tensor \(96, 8\)"),
        (torch.empty(96, 8), "out is torch.float32 on cpu; allowed: torch.float16"),
        (torch.empty(96, 1).half().expand(96, 8), "its elements share memory"),
        (torch.empty(999).half().as_strided((96, 8), (4, 2)), "its elements share memory"),
        (torch.empty(96, 8).half().requires_grad_(), "B or out requires a gradient"),
        (B[:96], "out shares memory with A or B"),
    ],
)
def test_refuses_results_that_do_not_fit(A: SparseMatrix, out: Tensor, said: str) -> None:
    before = out.detach().clone()
    with pytest.raises(ValueError, match=said):
        spmm(A, B, out=out)
    assert torch.equal(out.nan_to_num(), before.nan_to_num())


def test_a_corrupted_encoding_never_reaches_a_kernel(A: SparseMatrix) -> None:
    A.arrays["gt_offset"][1] = 10**6
    with pytest.raises(ValueError, match="invalid tca_bme encoding"):
        spmm(A, B)
    truncated = encode(W, "tca_bme")
    truncated.arrays["values"] = truncated.arrays["values"][:-8]
    with pytest.raises(ValueError, match="invalid tca_bme encoding"):
        spmm(truncated, B)


def test_out_is_written_and_returned(A: SparseMatrix) -> None:
    out = torch.full((96, 8), torch.nan).half()
    assert spmm(A, B, out=out) is out
    accuracy.check(out, W, B)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (None, "x is a NoneType"),
        (B.T.float(), "x is a torch.float32.*allowed: torch.float16"),
        (B, r"shape \(160, 8\).*allowed: torch.float16 \[..., 160\]"),
        (B.T.to_sparse(), "x is .*layout torch.sparse_coo"),
        (B.T[:, :0], r"x is .*shape \(\d+, 0\)"),
    ],
)
def test_sparse_linear_names_x(A: SparseMatrix, x: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sparse_linear(x, A)


@pytest.mark.parametrize("shape", [(160,), (1, 160), (5, 160), (2, 3, 160)])
def test_sparse_linear_is_torch_linear(A: SparseMatrix, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).half()
    y = sparse_linear(x, A)
    assert y.shape == (*shape[:-1], 96) and y.is_contiguous()
    accuracy.check(y.reshape(-1, 96).T, W, x.reshape(-1, 160).T)


def test_explain_names_the_kernel_and_launches_nothing(A: SparseMatrix, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "spmm", None)
    with cpu.forced("portable"):
        plan = explain(A, B)
    assert (plan.backend, plan.kernel) == ("cpu", "tca_bme_portable")
    assert "C[96, 8] = A[96, 160] · B[160, 8]" in str(plan) and "forced" in str(plan)
    assert explain(A, B, backend="reference").kernel == "reference"


@pytest.mark.parametrize(
    ("format", "decodes"),
    [
        ("dense", "16 x 64 at a time, transposed"),
        ("csr", "64 x 64 at a time, weight by weight"),
        ("tca_bme", "64 x 64 at a time, 8 weights by pshufb"),
        ("zero_row_24", "64 x K at a time, weight by weight"),
    ],
)
def test_explain_says_how_the_cpu_decodes(format: str, decodes: str, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "supported", lambda: cpu.ISAS)
    with cpu.forced("avx2"):
        assert explain(encode(W, format), B).choices["decodes"] == decodes


def test_instruction_sets_can_be_forced(A: SparseMatrix, monkeypatch) -> None:
    with pytest.raises(ValueError, match="isa='sse9'.*allowed: portable"), cpu.forced("sse9"):
        pass
    monkeypatch.setenv("LSCD_CPU_ISA", "portable")
    assert explain(A, B).kernel == "tca_bme_portable"
    monkeypatch.setenv("LSCD_CPU_ISA", "mmx")
    with pytest.raises(ValueError, match="LSCD_CPU_ISA='mmx'"):
        spmm(A, B)
    assert "LSCD_CPU_ISA='mmx'" in cpu.problem()
    if "amx" in cpu.supported():
        with cpu.forced("amx"), pytest.raises(ValueError, match="multiplies bf16 only"):
            spmm(A, B)


@pytest.mark.parametrize("format", cpu.formats)
def test_torch_sees_a_well_formed_operator(format: str) -> None:
    dense = torch.eye(96, 160).half()
    A = encode(dense, format)
    arguments = ([A.arrays[n] for n in A.ARRAYS], A.constants, A.name, *A.shape, B, "cpu")
    torch.library.opcheck(torch.ops.lscd.spmm.default, arguments)
    torch.library.opcheck(torch.ops.lscd.spmm_out.default, (*arguments, torch.empty(96, 8).half()))


def test_torch_sees_a_well_formed_operator_with_an_epilogue() -> None:
    """The emulator runs it: no kernel of a CPU has an epilogue."""
    A, bias = encode(torch.eye(96, 160).half(), "zero_row_24"), torch.ones(96).half()
    encoding = ([A.arrays[n] for n in A.ARRAYS], A.constants, A.name, *A.shape)
    op = torch.ops.lscd.spmm_bias
    torch.library.opcheck(op.default, (*encoding, B, "emulator", bias, True))
    one = (*encoding, B[:, :1], "emulator", bias)
    assert torch.equal(op(*one, True), (B[:96, :1] + 1).relu())
    assert torch.equal(op(*one, False), B[:96, :1] + 1)
    tracked = (*encoding, B.clone().requires_grad_(), "emulator", bias, True)
    torch.library.opcheck(op.default, tracked, test_utils="test_autograd_registration")
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        op(*tracked).sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_linear_casts_under_autocast(dtype: torch.dtype) -> None:
    """Of the dtypes that torch's casts; only there, and to the dtype of its weights."""
    A, x = encode(W.to(dtype), "tca_bme"), B.T.float().contiguous()
    expected = sparse_linear(x.to(dtype), A)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(sparse_linear(x, A), expected)
        for other in (x.double(), x.long()):
            with pytest.raises(ValueError, match=f"x is a {other.dtype} tensor"):
                sparse_linear(other, A)
        compiled = torch.compile(lambda x: sparse_linear(x, A), fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), expected)
    for device in ("cpu", "meta"):  # meta has no autocast
        with pytest.raises(ValueError, match="x is a torch.float32 tensor"):
            sparse_linear(x.to(device), A)


@pytest.mark.parametrize("backend", ["nope", "cuda"])
def test_without_tokens_a_backend_is_checked(backend: str) -> None:
    A = encode(random_sparse(64, 64, 0.5), "tca_bme")
    x = torch.empty(0, 64).half()
    assert sparse_linear(x, A).shape == (0, 64)
    with pytest.raises(ValueError, match=backend):
        sparse_linear(x, A, backend=backend)
