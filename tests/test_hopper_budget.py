"""The Hopper kernel's budget: what a trace counts, what bytes and units allow, and its figures."""

import pandas as pd
import pytest
import torch

from lab_utils import catalog, plots, spmm
from lab_utils.analysis import hopper_budget as budget
from lab_utils.analysis import zero_row_24_streams
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends import emulator, hopper
from lab_utils.formats import ZeroRow24
from lab_utils.formats.zero_row_24_slices import fixed_chunks
from lab_utils.patterns import random_sparse

H200 = catalog.device("H200-SXM")
M, K, N = 128, 480, 8
TRIAL, PEERS = (catalog.published(name) for name in ("h200_zero_row_24_trial", "h200_peers"))


# Of a piece: loads of values, and bmma; steps.
LOADS = {Streams.PACKED: 64, Streams.PAIRS: 32, Streams.SIXES: 16, Streams.NESTED: 80}
BMMA = {Streams.PACKED: 8, Streams.PAIRS: 8, Streams.SIXES: 4, Streams.NESTED: 18}
STEPS = dict.fromkeys(Streams, 2) | {Streams.NESTED: 4}


@pytest.fixture(scope="module", params=Streams, ids=str)
def run(request):
    """An encoding and what the emulator counted in a product with it.

    Of nested chunks without an extra one, which has no level 1.
    """
    sparsity = 0.95 if request.param == Streams.NESTED else 0.6
    A = ZeroRow24.encode(random_sparse(M, K, sparsity), streams=request.param.name.lower())
    with emulator.recording() as traces:
        spmm(A, torch.ones(K, N).half(), backend="emulator")
    return A, traces[0]


def test_gathers_take_the_wavefronts_of_the_encoding(run) -> None:
    A, trace = run
    parts = budget.wavefronts(trace, M * K)
    assert list(parts) == list(dict.fromkeys(budget.PARTS.values()))
    none = {name for name, wavefronts in parts.items() if not wavefronts}
    assert none == ({"rows of B for extra chunks"} if A.streams == Streams.NESTED else set())
    pieces = int(A.pieces.sum())
    arrays = (A.arrays[name].numpy() for name in ("data", "chunk_start"))
    mean = zero_row_24_streams.wavefronts(*arrays, A.streams, A.pieces.numpy())
    assert parts["values"] * M * K / 64 == pytest.approx(LOADS[A.streams] * pieces * mean)
    assert parts["metadata, starts"] * M * K / 64 == pytest.approx(headers(A, pieces))
    cut = (M, K, A.slice_cols, A.levels, A.streams)
    extra = hopper.chunks_of(A) - int(fixed_chunks(*cut, A.device).sum())  # of a piece each
    assert parts["rows of B"] * M * K / 64 == pytest.approx(
        (pieces - extra) * STEPS[A.streams] * 4  # of 8 columns
    )


def headers(A: ZeroRow24, pieces: int) -> int:
    """Wavefronts of starts, and of words that lanes have of metadata."""
    chunks = hopper.chunks_of(A)
    if A.streams == Streams.SIXES:  # presence of both pieces; indices and steps of each
        return chunks * (1 + 4) + pieces * (2 + 1)
    if A.streams == Streams.NESTED:  # planes of steps 0 and 1, and of step 2
        return chunks * (1 + 4 + 2)
    return chunks * (1 + (4 if A.pairs else 3))


def test_tensor_core_has_four_mma_sp_a_step(run) -> None:
    """And as many bmma, of sixes half, and of nested chunks two more."""
    A, trace = run
    clocks = budget.clocks_needed(trace, M * K)
    each = budget.TENSOR_CLOCKS["bmma"] * BMMA[A.streams]
    each += budget.TENSOR_CLOCKS["mma_sp"] * 4 * STEPS[A.streams]
    assert clocks["tensor core"] == pytest.approx(each * int(A.pieces.sum()) * 64 / (M * K))
    assert clocks["shared wavefronts"] == sum(budget.wavefronts(trace, M * K).values())


def test_bytes_take_their_time_at_any_clock() -> None:
    clocks = budget.clocks_of_bytes(H200, 64 * 2)
    us = budget.product_us(H200, 36864, 9216, clocks)
    assert us == pytest.approx(2 * 36864 * 9216 / H200.bandwidth_gb_s / 1e3)


def test_the_busiest_unit_bounds() -> None:
    needs = {0.5: {"shared wavefronts": 4.0, "tensor core": 1.0}}
    for memory, unit, clocks in ((5.0, "bytes", 5.0), (3.0, "shared wavefronts", 4.0)):
        found = budget.bounds(needs, {0.5: memory}, H200, 4096, 4096, 50.0).loc[0.5]
        assert found.unit == unit
        assert found["busiest unit"] == 50 / budget.product_us(H200, 4096, 4096, clocks)
        assert found["bytes"] == 50 / budget.product_us(H200, 4096, 4096, memory)


def test_tables_are_those_of_the_formulas() -> None:
    table = budget.bytes_table(M, K, [0.5, 0.9])
    assert table["dense"].tolist() == [128, 128]
    packed, pairs, sixes = (table[f"zero-row 2:4, {kind}"] for kind in ("packed", "pairs", "sixes"))
    expected = ZeroRow24.expected_nbytes(M, K, 0.9) * 64 / (M * K)
    assert sixes[0.9] == pytest.approx(expected)
    assert (packed < pairs).all() and sixes[0.9] < pairs[0.9]
    A = ZeroRow24.encode(random_sparse(512, 2304, 0.6), streams="packed")
    further = hopper.chunks_of(A) / (512 // 64 * 2304 // 48) - 1
    assert budget.further_share(512, 2304, [0.6])[0.6] == pytest.approx(further, abs=0.005)


# --- figures


def test_bytes_have_a_line_for_each_encoding() -> None:
    grid = [0.5, 0.7, 0.9]
    formulas, further = budget.bytes_table(M, K, grid), budget.further_share(M, K, grid)
    encoded = pd.DataFrame({"sparsity": [0.6], "bytes": [70.0], "further": [0.2]})
    fig = plots.encoded_bytes(formulas, further, encoded)
    lines = [trace for trace in fig.data if trace.mode == "lines"]
    assert [one.name for one in lines] == [*plots.hopper.ENCODINGS, "further chunks"]
    assert set(plots.hopper.ENCODINGS) == set(formulas)
    assert [one.y[0] for one in fig.data if one.mode == "markers"] == [70.0, 0.2]


def test_conflicts_have_a_line_for_each_order() -> None:
    rows = [(0.5, streams, order, 1.5) for streams in ("packed", "pairs")
            for order in ("plain order", "placed")]  # fmt: skip
    counted = pd.DataFrame(rows, columns=["sparsity", "streams", "order", "wavefronts"])
    names = [trace.name for trace in plots.gather_wavefronts(counted).data]
    assert names == [f"{streams}, {order}" for _, streams, order, _ in rows]


def test_bounds_are_drawn_with_what_was_measured() -> None:
    needs = {s: {"shared wavefronts": 2.0} for s in (0.5, 0.9)}
    bounds = budget.bounds(needs, {0.5: 4.0, 0.9: 1.0}, H200, 4096, 4096, 50.0)
    fig = plots.speedup_bounds(bounds, {"trial": pd.Series({0.5: 1.4})}, "")
    assert [trace.name for trace in fig.data] == ["bound: bytes", "bound: busiest unit", "trial"]
    assert list(fig.data[1].text) == ["bytes", "shared wavefronts"]


def test_trials_and_peers_share_panels() -> None:
    fig = plots.trial_and_peers(TRIAL, PEERS)
    drawn = [trace.name for trace in fig.data]
    assert {name: drawn.count(name) for name in plots.hopper.TRIALS} == {
        "Flash-LLM": 4, "SpInfer": 4, "trial, mma.sp": 4, "trial, wgmma.sp": 3,
    }  # fmt: skip
    assert all(list(trace.x) == [0.5, 0.6, 0.7, 0.8, 0.9] for trace in fig.data)


def test_speedups_of_the_trial_are_those_of_its_times() -> None:
    dense = TRIAL[TRIAL.sparsity.eq(0)].set_index("N").time_us
    rows = TRIAL[TRIAL.sparsity.gt(0)].dropna(subset="speedup_over_dense")
    assert len(rows) == 5 * (4 + 3)
    ratios = rows.N.map(dense) / rows.time_us
    assert (ratios - rows.speedup_over_dense).abs().max() < 0.015  # both are rounded
