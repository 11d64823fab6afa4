"""Pruning: exact counts, +0, the masks of the papers' formulas, SparseGPT against brute force."""

import math

import pytest
import torch
from torch import Tensor

from lab_utils.llm.pruning import METHODS, prune
from lab_utils.llm.pruning.masks import Target, zeros
from lab_utils.llm.pruning.sparsegpt import sparsegpt

M, K = 12, 40
TARGETS = [
    *(Target(s, within) for s in (0.0, 0.33, 0.5, 0.8, 1.0) for within in ("row", "layer")),
    *(Target.n_of_m(pattern) for pattern in ("2:4", "1:8", "4:4", "0:5")),
]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def statistic(method: str) -> Tensor | None:
    x = random(64, K, seed=1) * torch.linspace(0.1, 3, K)
    found = {"squares": x.square().sum(0), "hessian": x.T @ x, "gradient": random(M, K, seed=2)}
    return found.get(METHODS[method].statistic)


def as_bits(values: Tensor) -> Tensor:
    return values.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()])


def counts(pruned: Tensor, target: Target) -> list[int]:
    """Zeros, that is bits of +0, in each group."""
    group = target.group(K) or pruned.numel()
    return (as_bits(pruned) == 0).reshape(-1, group).sum(1).tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_each_group_has_the_exact_count_of_plus_zeros(method, target, dtype):
    weight = random(M, K, dtype=dtype)
    pruned = prune(weight, target, method, statistic(method))
    group = target.group(K) or M * K
    assert counts(pruned, target) == [round(target.sparsity * group)] * (M * K // group)
    assert pruned.dtype == dtype and pruned.shape == weight.shape


@pytest.mark.parametrize("method", ["magnitude", "wanda", "taylor"])
def test_other_weights_stay_bit_for_bit(method):
    weight = random(M, K, dtype=torch.float16)
    before = weight.clone()
    pruned = prune(weight, Target(0.7), method, statistic(method))
    assert torch.equal(as_bits(weight), as_bits(before))
    kept = as_bits(pruned) != 0
    assert torch.equal(as_bits(pruned)[kept], as_bits(weight)[kept])


@pytest.mark.parametrize("within", ["row", "layer"])
@pytest.mark.parametrize("method", ["magnitude", "wanda", "taylor"])
def test_the_lowest_scores_go(method, within):
    weight, found = random(M, K), statistic(method)
    scores = {
        "magnitude": lambda: weight.abs(),
        "wanda": lambda: weight.abs() * found.sqrt(),
        "taylor": lambda: (weight * found).abs(),
    }[method]()
    pruned = prune(weight, Target(0.6, within), method, found) == 0
    for rows, mask in zip(
        scores.view(-1, K if within == "row" else M * K),
        pruned.view(-1, K if within == "row" else M * K),
        strict=True,
    ):
        assert rows[mask].max() < rows[~mask].min()


def test_wanda_and_magnitude_differ_by_the_inputs():
    weight = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    squares = torch.tensor([400.0, 1.0, 1.0, 0.01])
    assert prune(weight, Target(0.5)).tolist() == [[0, 0, 3, 4]]
    assert prune(weight, Target(0.5), "wanda", squares).tolist() == [[1, 0, 3, 0]]


@pytest.mark.parametrize("within, first", [("row", [1, 1]), ("layer", [2, 0]), ("1:2", [2, 2])])
def test_of_equal_scores_the_first_go(within, first):
    sparsity = 0.5 if within == "1:2" else 0.25
    pruned = prune(torch.ones(2, 4), Target(sparsity, within))
    expected = {
        "row": [[0, 1, 1, 1]] * 2, "layer": [[0, 0, 1, 1], [1, 1, 1, 1]], "1:2": [[0, 1, 0, 1]] * 2
    }[within]  # fmt: skip
    assert pruned.tolist() == expected and (pruned == 0).sum(1).tolist() == first


def test_minus_zero_becomes_zero_and_goes_first():
    weight = torch.tensor([[-0.0, 5.0, -1.0, 2.0]], dtype=torch.float16)
    for sparsity, left in ((0.0, [5, -1, 2]), (0.25, [5, -1, 2]), (0.5, [5, 2])):
        pruned = prune(weight, Target(sparsity))
        assert pruned[as_bits(pruned) != 0].tolist() == left
    assert not as_bits(prune(-weight.abs(), Target(1.0))).any()


# --- SparseGPT ----------------------------------------------------------------------------------


def brute_force(W: Tensor, H: Tensor, target: Target, block: int, damp: float) -> Tensor:
    """Section 3 of the paper with an explicit inverse for every column; fp64."""
    W, H = W.clone(), H + damp * H.diagonal().mean() * torch.eye(K, dtype=H.dtype)
    step = block if target.within in ("row", "layer") else target.group(K)
    mask = torch.zeros_like(W, dtype=torch.bool)
    for j in range(K):
        if j % step == 0:
            stop = min(j + step, K)
            # [H⁻¹] of the columns not yet done, at the moment when column c is the first of them
            own = [torch.linalg.inv(H[c:, c:])[0, 0] for c in range(j, stop)]
            scores = W[:, j:stop] ** 2 / torch.stack(own)
            rows = M if target.within == "layer" else 1
            count = round(target.sparsity * rows * stop) - round(target.sparsity * rows * j)
            flat = scores.reshape(-1, rows * (stop - j))
            lowest = flat.argsort(dim=1, stable=True)[:, :count]
            chosen = torch.zeros_like(flat, dtype=torch.bool).scatter_(1, lowest, True)
            mask[:, j:stop] = chosen.view(M, -1)
        inverse = torch.linalg.inv(H[j:, j:])
        error = torch.where(mask[:, j], W[:, j] / inverse[0, 0], 0)
        W[:, j:] -= error[:, None] * inverse[0]
        W[:, j] = torch.where(mask[:, j], 0, W[:, j])
    return W


@pytest.mark.parametrize("block", [4, 16, 40, 128])
@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
def test_sparsegpt_is_obs_column_by_column(target, block):
    weight, x = random(M, K).double(), random(64, K, seed=1).double()
    x[:, 1:] += x[:, :-1]  # correlated inputs: without them nothing is compensated
    H = x.T @ x
    found = sparsegpt(weight, target, H, block=block, damp=0.01)
    group = 1 if target.within in ("row", "layer") else target.group(K)
    expected = brute_force(weight, H, target, max(block // group, 1) * group, 0.01)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert torch.equal(found == 0, expected == 0)


def test_sparsegpt_changes_the_outputs_least():
    mixed = random(256, K // 4, seed=1) @ random(K // 4, K, seed=2) + random(256, K, seed=3)
    weight, x = random(M, K), mixed * torch.linspace(0.2, 3, K)
    y = x @ weight.T
    found = {
        "magnitude": prune(weight, Target(0.6)),
        "wanda": prune(weight, Target(0.6), "wanda", x.square().sum(0)),
        "sparsegpt": prune(weight, Target(0.6), "sparsegpt", x.T @ x),
    }
    error = {name: float((x @ W.T - y).norm() / y.norm()) for name, W in found.items()}
    assert error["sparsegpt"] < 0.7 * error["wanda"] and error["wanda"] < 0.7 * error["magnitude"]


def test_sparsegpt_prunes_inputs_that_were_always_zero_first():
    x = random(64, K, seed=1)
    x[:, ::2] = 0
    pruned = prune(random(M, K).sign(), Target(0.5), "sparsegpt", x.T @ x)
    assert torch.equal(pruned == 0, (torch.arange(K) % 2 == 0).expand(M, K))


def test_sparsegpt_without_any_input_is_magnitude():
    weight = random(M, K)
    pruned = prune(weight, Target(0.5), "sparsegpt", torch.zeros(K, K))
    assert torch.equal(pruned, prune(weight, Target(0.5)))


def test_sparsegpt_says_what_it_cannot_do():
    weight, indefinite = random(M, K), torch.diag(torch.linspace(-1, 1, K))
    with pytest.raises(RuntimeError, match="hessian is not positive definite with damp=0.01"):
        prune(weight, Target(0.5), "sparsegpt", indefinite)
    huge = torch.full((2, 4), 60000.0).half()
    x = torch.ones(8, 4) + 0.01 * random(8, 4)
    with pytest.raises(RuntimeError, match="updated weights exceed torch.float16"):
        prune(huge, Target(0.5), "sparsegpt", x.T @ x)


# --- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_finite_is_refused_by_name(method, value):
    weight, found = random(M, K), statistic(method)
    spoiled = weight.clone()
    spoiled[3, 4] = value
    with pytest.raises(ValueError, match="weight holds 1 NaN or infinite"):
        prune(spoiled, Target(0.5), method, found)
    if found is not None:
        found.view(-1)[0] = value
        with pytest.raises(ValueError, match=f"{METHODS[method].statistic} holds 1 NaN"):
            prune(weight, Target(0.5), method, found)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((random(K), Target(0.5)), r"weight is torch.float32 \(40,\); allowed"),
        ((random(M, K).int(), Target(0.5)), "weight is torch.int32"),
        (("weight", Target(0.5)), "weight is weight; allowed"),
        ((random(0, K), Target(0.5)), r"weight is torch.float32 \(0, 40\)"),
        ((random(M, K), 0.5), r"target=0.5; allowed: Target\(sparsity\), Target.n_of_m"),
        ((random(M, K), None, "wanda", torch.ones(K)), "target=None; allowed"),
        ((random(M, K), "2:4", "taylor", random(M, K)), "target='2:4'; allowed"),
        ((random(M, K), 0.5, "sparsegpt", torch.eye(K)), "target=0.5; allowed"),
        ((random(M, K), Target.n_of_m("2:3")), "needs rows of a multiple of 3, not K=40"),
        ((random(M, K), Target(0.5), "lottery"), "method='lottery': unknown; allowed: magnitude"),
        ((random(M, K), Target(0.5), "magnitude", random(K)), "method='magnitude' needs none"),
        ((random(M, K), Target(0.5), "wanda"), r"squares is None; allowed: a tensor \(40,\)"),
        (
            (random(M, K), Target(0.5), "wanda", random(M)),
            r"squares is .*\(12,\); allowed.*\(40,\)",
        ),
        ((random(M, K), Target(0.5), "wanda", -torch.ones(K)), "squares are as low as -1"),
        ((random(M, K), Target(0.5), "wanda", random(K).half()), "squares is torch.float16"),
        ((random(M, K), Target(0.5), "sparsegpt", random(K)), r"allowed.*\(40, 40\)"),
        ((random(M, K), Target(0.5), "taylor", random(K, M)), r"allowed.*\(12, 40\)"),
        ((random(M, K), Target(0.5), "wanda", torch.ones(K, device="meta")), "squares is on meta"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, said):
    with pytest.raises(ValueError, match=said):
        prune(*arguments)


@pytest.mark.parametrize("block", [0, -4, 2.5, "4", True, None])
def test_sparsegpt_refuses_blocks_of_no_column(block):
    with pytest.raises(ValueError, match=f"block={block!r}; allowed: integers from 1"):
        sparsegpt(random(M, K), Target(0.5), torch.eye(K), block=block)


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Target(1.5), "sparsity=1.5 must lie between 0 and 1"),
        (lambda: Target(math.nan), "sparsity=nan"),
        (lambda: Target("0.5"), "sparsity='0.5'"),
        (lambda: Target(0.5, "column"), "within='column'; allowed: row, layer, or N:M"),
        (lambda: Target(0.6, "2:4"), "sparsity=0.6: within='2:4' has 0.5"),
        (lambda: Target.n_of_m("4:2"), "within='4:2'; allowed"),
        (lambda: Target.n_of_m("0:0"), "within='0:0'; allowed"),
        (lambda: zeros(torch.tensor([[math.nan]]), Target(0.5)), "scores hold NaN"),
    ],
)
def test_targets_that_are_none_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("pattern", ["2:4", "1:4", "1:2", "2:8", "0:3"])
def test_patterns_that_leave_two_of_four(pattern):
    assert Target.n_of_m(pattern).holds(2, 4) and Target(1.0).holds(2, 4)


@pytest.mark.parametrize(("sparsity", "within"), [(0.2, "4:5"), (0.3, "7:10"), (0.6667, "1:3")])
def test_sparsities_of_patterns_may_be_rounded(sparsity: float, within: str) -> None:
    assert Target(sparsity, within) == Target.n_of_m(within)


@pytest.mark.parametrize("target", [*map(Target.n_of_m, ["3:4", "4:8", "1:3"]), Target(0.9)])
def test_others_may_leave_more(target):
    assert not target.holds(2, 4)


@pytest.mark.gpu
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("method", ["magnitude", "wanda", "taylor"])
def test_a_gpu_prunes_the_same_weights(method, target):
    weight, found = random(M, K, dtype=torch.float16), statistic(method)
    there = prune(weight.cuda(), target, method, None if found is None else found.cuda())
    assert torch.equal(as_bits(there.cpu()), as_bits(prune(weight, target, method, found)))


@pytest.mark.gpu
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_sparsegpt_on_a_gpu_is_the_same(target):
    weight, x = random(M, K).double(), random(64, K, seed=1).double()
    there = sparsegpt(weight.cuda(), target, (x.T @ x).cuda()).cpu()
    expected = sparsegpt(weight, target, x.T @ x)
    assert torch.equal(there == 0, expected == 0) and torch.allclose(there, expected)
