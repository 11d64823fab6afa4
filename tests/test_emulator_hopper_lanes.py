"""2:4 with words for each lane in the wgmma kernel, on the host: variants, entries of all kinds."""

import itertools

import pytest
import torch
from emulated import DTYPES, activations, product
from lane_24_slow import steps_of

from lab_utils import accuracy, encode, spmm
from lab_utils.backends import emulator
from lab_utils.backends.ways import FUSED, TILES, forced
from lab_utils.formats import Lane24Strips
from lab_utils.patterns import random_sparse

WIDTHS = (1, 17, 25, 33, 41, 49, 64, 70, 90, 100, 120, 130, 170)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_width_and_tail(dtype) -> None:
    """All blocks, and passes; M and K that no chunk divides; last strips without rows."""
    for N, (M, K) in itertools.product(WIDTHS, ((65, 257), (200, 800))):
        W = random_sparse(M, K, 0.85, dtype=dtype, seed=N, mean=0.5)
        product(Lane24Strips.encode(W), W, N)


@pytest.mark.parametrize("sparsity", [0.0, 0.02, 0.3, 0.6, 0.95, 1.0])
def test_every_sparsity(sparsity) -> None:
    """The densest have most of their entries behind what rings hold: far steps."""
    for dtype in DTYPES:
        W = random_sparse(100, 500, sparsity, dtype=dtype, mean=0.5)
        A = Lane24Strips.encode(W)
        assert (A.largest_chunk > A.largest_copy) == (sparsity < 0.9)
        product(A, W, 32)


@pytest.mark.parametrize("sparsity", [0.75, 0.8])
def test_four_steps_are_multiplied_at_once(sparsity) -> None:
    """Where their rows allow it: a row of weights alone forbids it."""
    W = random_sparse(128, 700, sparsity, mean=0.5)
    W[70] = 0.5
    A = Lane24Strips.encode(W)
    fours = [steps_of(A, chunk)[1] for chunk in range(A.strips * A.rounds)]
    assert set(fours) >= {0, 1 if sparsity == 0.8 else 2}
    for N in WIDTHS:
        product(A, W, N)
    with emulator.recording() as traces:
        spmm(A, activations(700, 64), backend="emulator")
    assert traces[0].total("mma_sp").requests == 8 * sum(fours)


def test_a_trace_counts_what_the_layout_promises() -> None:
    """Loads of words meet no bank twice, whichever lanes have one; entries one, or two."""
    A = Lane24Strips.encode(random_sparse(512, 1280, 0.9))
    with emulator.recording(split_k=3) as traces:
        spmm(A, activations(1280, 64), backend="emulator")
    trace, chunks = traces[0], A.strips * A.rounds
    assert trace.total("bmma").requests == 0
    assert trace.total("wgmma_sp").requests == 8 * chunks
    loads = [p for p in trace.lines if (p.function, p.operation) == ("prepare", "shared_load")]
    words = [trace.lines[p] for p in loads]
    requests, lanes = sum(w.requests for w in words), sum(w.lanes for w in words)
    assert sum(w.wavefronts for w in words) == requests == 32 * chunks and lanes == 32 * requests
    entries = [p for p in trace.lines if (p.function, p.operation) == ("add_to", "ldmatrix")]
    reads = [trace.lines[p] for p in entries]
    assert 4 < sum(r.wavefronts for r in reads) / sum(r.requests for r in reads) < 9


@pytest.mark.parametrize("way", [FUSED, TILES])
def test_weights_that_are_not_finite_are_multiplied(way) -> None:
    """As a dense product has it: in their rows alone."""
    W, B = random_sparse(64, 300, 0.9, mean=0.5), activations(300, 24)
    W[3, 5], W[17, 299] = torch.inf, torch.nan
    with forced(way):
        C = spmm(encode(W, "lane_24_strips"), B, backend="emulator")
    finite = torch.ones(64, dtype=torch.bool)
    finite[[3, 17]] = False
    assert not C[~finite].isfinite().any()
    accuracy.check(C[finite], W[finite], B)


def test_activations_that_are_not_finite_stay_in_their_columns() -> None:
    """And reach every row with a weight there; others, with 0 times infinity, may be NaN."""
    W, B = random_sparse(64, 256, 0.9, mean=0.5), activations(256, 24).contiguous()
    B[7, 3] = torch.inf
    C = spmm(encode(W, "lane_24_strips"), B, backend="emulator")
    others = torch.arange(24) != 3
    assert C[:, others].isfinite().all()
    assert not C[:, 3].isfinite()[W[:, 7] != 0].any()
