"""Random matrices: as many zeros as asked for, where asked for, and no other zero."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_utils import encode
from lab_utils.patterns import PATTERNS, random_sparse


def zero_bits(dense: torch.Tensor) -> torch.Tensor:
    return dense.view(torch.int16) == 0


@settings(max_examples=60, deadline=None)
@given(
    M=st.integers(1, 90), K=st.integers(1, 90), sparsity=st.floats(0, 1), seed=st.integers(0, 99)
)
def test_random_has_exactly_the_zeros_asked_for(M, K, sparsity, seed):
    dense = random_sparse(M, K, sparsity, seed=seed)
    assert int(zero_bits(dense).sum()) == round(sparsity * M * K)


CASES = [
    (name, sparsity)
    for name, pattern in PATTERNS.items()
    for sparsity in (0.0, 0.01, 0.5, 0.9, 1.0)
    if sparsity >= pattern.least_sparsity
]


@pytest.mark.parametrize(("pattern", "sparsity"), CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_zeros_are_plus_zero_and_about_as_many_as_asked_for(pattern, dtype, sparsity):
    dense = random_sparse(500, 300, sparsity, pattern=pattern, dtype=dtype, mean=0.5)
    zeros = int(zero_bits(dense).sum())
    assert dense.dtype == dtype and dense.isfinite().all()
    assert zeros == int((dense == 0).sum())  # no -0
    allowed = 0 if sparsity in (0, 1) else 5 * math.sqrt(dense.numel()) / 2
    assert abs(zeros - sparsity * dense.numel()) <= allowed


def test_rare_zeros_and_rare_weights_are_exact_in_a_large_matrix():
    for sparsity, zeros in ((1e-6, 4), (1 - 1e-6, 2048 * 2048 - 4)):
        assert int(zero_bits(random_sparse(2048, 2048, sparsity)).sum()) == zeros


def test_every_place_is_as_likely_to_be_zero():
    drawn = [zero_bits(random_sparse(8, 8, 0.25, seed=seed)).double() for seed in range(1000)]
    deviation = math.sqrt(0.25 * 0.75 / 1000)
    assert (torch.stack(drawn).mean(0) - 0.25).abs().max() < 5 * deviation


def test_the_values_are_normal_around_the_mean():
    dense = random_sparse(1000, 1000, 0.0, mean=2.0)
    assert abs(float(dense.float().mean()) - 2) < 0.01
    assert abs(float(dense.float().std()) - 1) < 0.01


def test_clusters_and_rows_differ_in_density():
    def spread(pattern: str, dims: tuple[int, ...]) -> float:
        zeros = zero_bits(random_sparse(1024, 1024, 0.7, pattern=pattern)).float()
        return float(zeros.view(32, 32, 32, 32).mean(dims).std())

    rows, blocks = (2, 3), (1, 3)
    assert spread("clustered", blocks) > 5 * spread("random", blocks)
    assert spread("row_skewed", rows) > 5 * spread("random", rows)


@pytest.mark.parametrize("sparsity", [0.5, 0.6, 1.0])
@pytest.mark.parametrize("K", [5, 256, 258])
def test_two_four_fits_its_format(K, sparsity):
    dense = random_sparse(300, K, sparsity, pattern="two_four")
    assert torch.equal(encode(dense, "2:4").decode(), dense)


def test_two_four_uses_every_place_of_a_group_alike():
    kept = ~zero_bits(random_sparse(1000, 400, 0.5, pattern="two_four"))
    assert (kept.view(-1, 4).sum(1) == 2).all()
    assert (kept.view(-1, 4).double().mean(0) - 0.5).abs().max() < 5 * 0.5 / math.sqrt(1e5)


def test_the_same_seed_gives_the_same_matrix():
    first, again, other = (random_sparse(50, 50, 0.5, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_numpy_numbers_are_numbers():
    seeded = random_sparse(np.int64(3), np.int32(4), np.float64(0.5), seed=np.int64(2**63 - 1))
    assert torch.equal(seeded, random_sparse(3, 4, 0.5, seed=2**63 - 1))


def test_patterns_are_described():
    assert list(PATTERNS) == ["random", "clustered", "row_skewed", "two_four"]
    assert all(pattern.description for pattern in PATTERNS.values())


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"M": 0}, "M=0 must be a whole number of at least 1"),
        ({"K": 2.5}, "K=2.5 must be"),
        ({"sparsity": 1.1}, "sparsity=1.1 must lie between 0 and 1"),
        ({"sparsity": float("nan")}, "sparsity=nan"),
        ({"sparsity": 0.4, "pattern": "two_four"}, "sparsity=0.4 must be at least 0.5 for pattern"),
        ({"pattern": "striped"}, "pattern='striped': unknown; allowed: random, clustered"),
        ({"dtype": torch.float32}, "dtype=torch.float32; allowed: torch.float16"),
        ({"mean": 60000.0}, "mean=60000.0 must lie between"),
        ({"mean": float("nan")}, "mean=nan"),
        ({"seed": None}, "seed=None; allowed: integers from 0 to 9223372036854775807"),
        ({"seed": 1.5}, "seed=1.5; allowed"),
        ({"seed": True}, "seed=True; allowed"),
        ({"seed": -1}, "seed=-1; allowed"),
        ({"seed": 2**63}, "seed=9223372036854775808; allowed"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        random_sparse(**{"M": 4, "K": 4, "sparsity": 0.5, **arguments})


@pytest.mark.gpu
@pytest.mark.parametrize("pattern", PATTERNS)
def test_gpu_matrices_are_drawn_there_by_the_same_rules(pattern):
    dense = random_sparse(500, 300, 0.6, pattern=pattern, mean=0.5, device="cuda")
    again = random_sparse(500, 300, 0.6, pattern=pattern, mean=0.5, device="cuda")
    zeros = int(zero_bits(dense).sum())
    assert dense.is_cuda and torch.equal(dense, again) and dense.isfinite().all()
    assert zeros == int((dense == 0).sum())
    allowed = 0 if pattern == "random" else 5 * math.sqrt(dense.numel()) / 2
    assert abs(zeros - 0.6 * dense.numel()) <= allowed
