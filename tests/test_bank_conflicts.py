"""Banks and the order of words: the arithmetic against the encoder, and against the real kernel."""

import numpy as np
import pytest
import torch

from lab_utils import encode, spmm
from lab_utils.analysis import bank_conflicts as b
from lab_utils.analysis.kernel_trace import Counts, KernelTrace
from lab_utils.backends import emulator
from lab_utils.formats import TiledCsl
from lab_utils.patterns import random_sparse

layouts = pytest.mark.parametrize("layout", [b.TILE, b.SMALL], ids=["32 banks", "4 banks"])
reorders = pytest.mark.parametrize("reorder", [False, True], ids=["in order", "reordered"])


def encoding(pattern: str, sparsity: float, reorder: bool, M: int = 200, K: int = 200) -> TiledCsl:
    return encode(random_sparse(M, K, sparsity, pattern=pattern), "tiled_csl", reorder=reorder)


def arrays(A: TiledCsl) -> tuple[np.ndarray, np.ndarray]:
    return A.arrays["words"].numpy(), A.arrays["tile_offsets"].numpy()


def traced(A: TiledCsl) -> KernelTrace:
    with emulator.recording(watch=0) as traces:
        spmm(A, torch.ones(A.shape[1], 8, dtype=A.dtype), backend="emulator")
    return traces[0]


def at_scatter(trace: KernelTrace) -> Counts:
    return sum((c for place, c in trace.lines.items() if place.text == b.SCATTER), Counts())


@layouts
def test_the_swizzle_is_undone_and_serves_ldmatrix(layout):
    rows, cols = np.indices((layout.rows, layout.cols))
    at = layout.location(rows, cols)
    assert np.array_equal(np.sort(at, axis=None), np.arange(layout.rows * layout.cols))
    assert all(map(np.array_equal, layout.place(at), (rows, cols)))
    for chunk in range(layout.chunks):
        window = slice(0, layout.chunks), slice(layout.chunk * chunk, layout.chunk * (chunk + 1))
        assert b.wavefronts(at[window].ravel(), layout) == 1
        plain = layout.location(rows, cols, swizzled=False)[window]
        assert b.wavefronts(plain.ravel(), layout) == layout.chunks


@layouts
def test_the_papers_bank_is_right_in_the_first_chunk_only(layout):
    rows, cols = np.indices((layout.rows, layout.cols))
    at = layout.location(rows, cols)
    assert np.array_equal(layout.paper_bank(at) == layout.bank(at), cols < layout.chunk)
    x, y = rows, cols
    if layout is b.TILE:
        assert np.array_equal(layout.paper_bank(at), x % 8 * 4 + y % 8 // 2)


def test_halves_of_a_word_are_no_conflict():
    assert b.wavefronts(np.array([0, 1])) == 1
    assert b.wavefronts(np.array([0, 64, 65, 2])) == 2
    assert b.wavefronts(b.TILE.location(np.arange(32) * 8, 0)[:16]) == 16


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.8, 0.97, 1.0])
@reorders
def test_the_words_are_those_of_the_encoder(sparsity, reorder):
    dense = random_sparse(128, 64, sparsity, pattern="clustered")
    words, _ = arrays(encode(dense, "tiled_csl", reorder=reorder))
    in_order = b.locations(dense.numpy() != 0)
    ours = b.reordered(in_order, b.picks(in_order)) if reorder else in_order
    assert np.array_equal(words.astype(np.int64) >> 16 & 0xFFFF, ours)


def test_picks_take_from_the_fullest_bucket_and_fill_the_tail_first():
    nonzero = random_sparse(8, 8, 0.6).numpy() != 0  # 26, and 2 of padding: 4 lanes, then 3
    in_order = b.locations(nonzero, b.SMALL)
    steps = b.picks(in_order, b.SMALL)
    before = np.bincount(b.SMALL.bank(in_order), minlength=4)
    for pick in steps:
        assert before[pick.bank] == before.max() and pick.bank == before.argmax()
        assert b.SMALL.bank(in_order[pick.word]) == pick.bank
        before = pick.left
    assert before.sum() == 0 and sorted(pick.word for pick in steps) == list(range(28))
    assert [pick.slot for pick in steps[:6]] == [16, 20, 24, 17, 21, 25]
    sizes = [len(request) for request in b.requests(in_order, b.SMALL)]
    assert sizes == [4] * 4 + [3] * 4


@pytest.mark.parametrize("pattern", ["random", "clustered", "row_skewed"])
@pytest.mark.parametrize("sparsity", [0.3, 0.8, 0.98])
@reorders
def test_the_kernel_counts_what_the_arithmetic_says(pattern, sparsity, reorder):
    A = encoding(pattern, sparsity, reorder)
    ours, counted = b.scatter(*arrays(A)), at_scatter(traced(A))
    assert (ours.requests, ours.wavefronts) == (counted.requests, counted.wavefronts)
    assert ours.requests == counted.least_wavefronts and ours.requests <= ours.bound


@reorders
def test_the_kernel_stores_where_and_when_the_arithmetic_says(reorder):
    A = encoding("random", 0.8, reorder, M=128, K=64)
    kernel = [r for r in traced(A).requests if r.place.text == b.SCATTER]
    asked = b.requests(*b.tiles_of(*arrays(A)))
    by_warp = sorted(range(len(asked)), key=lambda i: i // b.VECTOR % 4)
    assert [list(r.shared) for r in kernel] == [(2 * asked[i]).tolist() for i in by_warp]
    assert [r.counts.wavefronts for r in kernel] == [b.wavefronts(asked[i]) for i in by_warp]


def test_reordering_by_the_papers_formula_keeps_conflicts_that_the_swizzle_does_not():
    A = encoding("random", 0.7, False)
    words, offsets = arrays(A)
    cost = {"in order": b.scatter(words, offsets).wavefronts}
    for name, bank_of in (("real", b.Layout.bank), ("paper", b.Layout.paper_bank)):
        changed = torch.from_numpy(b.reorder_by(words, offsets, bank_of))
        like = A.arrays | {"words": changed}
        other = TiledCsl(A.shape, A.dtype, like)
        assert torch.equal(other.decode(), A.decode())
        cost[name] = at_scatter(traced(other)).wavefronts
        assert cost[name] == b.scatter(*arrays(other)).wavefronts
    assert torch.equal(
        torch.from_numpy(b.reorder_by(words, offsets, b.Layout.bank)),
        encoding("random", 0.7, True).arrays["words"],
    )
    assert cost["real"] < cost["paper"] < 1.1 * cost["in order"]


def test_a_tile_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"nonzero: shape \[8, 8\]; allowed: \[128, 64\]"):
        b.locations(np.zeros((8, 8), dtype=bool))


def test_an_empty_matrix_costs_nothing():
    cost = b.scatter(*arrays(encoding("random", 1.0, True)))
    assert cost == b.Scatter() and np.isnan(cost.per_request)
