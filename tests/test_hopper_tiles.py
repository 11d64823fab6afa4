"""How launches by tiles are laid out; who multiplies what is test_tile_shares.py's."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from emulated import activations, tiles_in_parts

from lab_utils import explain
from lab_utils.backends import cuda, hopper, hopper_tiles
from lab_utils.backends.hopper_tiles import layout_of
from lab_utils.backends.ways import forced
from lab_utils.formats import Lane24Strips, TcaBme
from lab_utils.patterns import random_sparse


@pytest.fixture(autouse=True)
def tiles() -> Iterator[None]:
    with forced("tiles"):
        yield


# --- layouts ---


@pytest.fixture
def h200(monkeypatch) -> None:
    """What backend cuda asks of the GPU; its plan is made, but nothing can be launched."""
    monkeypatch.setattr(cuda, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(cuda, "format_problem", lambda *_: None)


@pytest.mark.parametrize(
    ("N", "sparsity", "width", "passes"),
    [
        (1, 0.9, 160, 1), (320, 0.9, 160, 1), (321, 0.9, 192, 1), (384, 0.9, 192, 1),
        (385, 0.9, 224, 1), (448, 0.9, 224, 1), (449, 0.9, 256, 1), (512, 0.9, 256, 1),
        (513, 0.9, 288, 1), (577, 0.9, 320, 1), (641, 0.9, 352, 1), (705, 0.9, 384, 1),
        (769, 0.9, 224, 2), (1025, 0.9, 288, 2), (1300, 0.9, 224, 3), (2048, 0.9, 256, 4),
        (448, 0.0, 224, 1), (449, 0.0, 352, 1), (2048, 0.0, 352, 3),
    ],
)  # fmt: skip
def test_the_layout_costs_least_beside_the_chunks(N, sparsity, width, passes) -> None:
    """The largest leave no room for 256 columns."""
    A = Lane24Strips.encode(random_sparse(1000, 600, sparsity))
    layout = layout_of(A, N, 132, None)
    assert (layout.block_n, layout.passes, layout.blocks) == (width, passes, min(66, 24 * passes))
    assert 2 * width * passes >= N
    assert layout.shared_bytes <= hopper.SHARED_BYTES
    assert layout.rings.stage_bytes >= A.largest_copy and layout.stages == 2
    wider = replace(layout, block_n=256).shared_bytes > hopper.SHARED_BYTES
    assert wider == (sparsity == 0)


@pytest.mark.parametrize(
    ("N", "sparsity", "width", "passes", "stages"),
    [
        (512, 0.9, 256, 1, 8), (512, 0.5, 256, 1, 6), (640, 0.5, 320, 1, 8), (700, 0.5, 352, 1, 6),
        (768, 0.5, 192, 2, 8), (1024, 0.5, 256, 2, 6), (2048, 0.5, 352, 3, 6),
        (512, 0.3, 288, 1, 8), (512, 0.0, 288, 1, 6), (384, 0.0, 192, 1, 6),
    ],
)  # fmt: skip
def test_rings_of_group_tiles_have_what_room_there_is(N, sparsity, width, passes, stages) -> None:
    """Six of the largest at least: in dense matrices no room is left for 256 columns."""
    A = TcaBme.encode(random_sparse(1000, 600, sparsity))
    layout = layout_of(A, N, 132, None)
    assert (layout.block_n, layout.passes, layout.stages) == (width, passes, stages)
    (values,) = A.constants
    assert A.arrays["gt_offset"].diff().max() <= values
    # Bitmaps, where strips begin, values; what loads of whole words reach.
    needed = 512 + 4 * 4 + 2 * values + 16
    assert layout.rings.stage_bytes == needed
    assert layout.shared_bytes <= hopper.SHARED_BYTES
    assert (replace(layout, stages=8).shared_bytes <= hopper.SHARED_BYTES) == (stages == 8)


def test_only_hopper_has_tiles(h200, monkeypatch) -> None:
    """What multiplies TCA-BME elsewhere has none."""
    A, B = TcaBme.encode(random_sparse(1000, 600, 0.5)), activations(600, 512)
    assert cuda.plan(A, B).kernel == "tca_bme_tiles"
    monkeypatch.setattr(cuda, "is_hopper", lambda _: False)
    with pytest.raises(ValueError, match="way='tiles': tca_bme has none; allowed: fused, decoded"):
        cuda.plan(A, B)


@pytest.mark.parametrize(
    ("N", "columns", "shares", "slots"),
    [
        (512, "A is decoded once, for all: 2 x 256 of C", "24 row blocks of 128, 9 rounds each: "
         "3.3 rounds a pair in the mean", 78),
        (1000, "A is decoded 2 times, for 2 x 2 x 256 of C", "2 x 24 row blocks of 128, 9 rounds "
         "each: 6.5 rounds a pair in the mean", 102),
    ],
)  # fmt: skip
def test_the_plan_for_a_gpu_fills_it(h200, N, columns, shares, slots) -> None:
    A = Lane24Strips.encode(random_sparse(3000, 2304, 0.9))
    with tiles_in_parts():
        plan = cuda.plan(A, activations(2304, N))
        again = cuda._layout(A, N, plan.split_k, "tiles")  # as lab anatomy
        launch = hopper_tiles.launch_of(A, N, again)
    assert plan.kernel == "lane_24_strips_tiles" and plan.choices["decoded"].endswith(": forced")
    assert plan.choices["blocks"].startswith("66 pairs of 384 threads, ")
    assert plan.choices["columns"] == columns and plan.choices["shares"] == shares
    assert plan.choices["sums"] == (f"partial ones in {slots} slots; a kernel of its own adds them")
    problem = launch.problem
    assert (problem.blocks, problem.block_n) == (66, 256)
    assert problem.stage_bytes == again.rings.stage_bytes
    assert launch.sums == (2, problem.slots, 256 * 128)
    assert not launch.more
    added = launch.arrays["shared"]
    assert problem.added_rows == len(added) == 24 * again.passes % 66
    assert int(added[-1, 2]) == problem.slots == slots


def test_the_plan_tells_of_pairs_that_idle(h200) -> None:
    A = Lane24Strips.encode(random_sparse(3000, 2304, 0.9))
    plan = cuda.plan(A, activations(2304, 1000))
    assert plan.choices["sums"] == "of each row block in one pair; 18 pairs have one less"
    launch = hopper_tiles.launch_of(A, 1000, cuda._layout(A, 1000, None, "tiles"))
    assert launch.problem.slots == launch.problem.added_rows == 0


def test_as_many_pairs_as_rounds_at_most_and_one_at_least() -> None:
    A = Lane24Strips.encode(random_sparse(300, 700, 0.9))
    for N, split_k, pairs in ((100, 0.001, 1), (100, 1e6, 9), (800, 1e6, 18), (800, 1 / 6, 1)):
        layout = layout_of(A, N, 132, split_k)
        assert layout.blocks == pairs
        assert hopper_tiles.split_k_of(A, layout) == pairs / (3 * layout.passes)
    assert layout_of(A, 100, 1, None).blocks == 1 and layout_of(A, 100, 132, None).blocks == 9


def test_explain_tells_of_the_tiles() -> None:
    """And of entries that rings do not hold."""
    B = activations(600, 800)
    for sparsity, told in ((0.9, "copy them to the other"), (0.3, "read from global memory")):
        plan = explain(
            Lane24Strips.encode(random_sparse(200, 600, sparsity)), B, backend="emulator"
        )
        assert plan.kernel == "lane_24_strips_tiles"
        assert plan.choices["shares"].startswith(
            "2 x 2 row blocks of 128, 3 rounds each: 3.0 round"
        )
        assert plan.choices["ring"].startswith("2 chunks under way in each decoding warp, 4 tiles")
        assert plan.choices["values"].startswith("four warps of a block decode 64 rows, and copy ")
        assert plan.choices["values"].endswith(told)


def test_explain_tells_of_group_tiles() -> None:
    plan = explain(
        TcaBme.encode(random_sparse(200, 600, 0.5)), activations(600, 800), backend="emulator"
    )
    assert plan.kernel == "tca_bme_tiles"
    assert plan.choices["shares"].startswith("2 x 2 row blocks of 128, 10 rounds each: 10.0 rounds")
    assert plan.choices["ring"].startswith("8 GroupTiles under way, 4 tiles of A, 4 of B")
    assert plan.choices["values"] == (
        "two sets of four warps of a block decode 64 rows, and copy them to the other"
    )
