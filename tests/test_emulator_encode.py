"""GPU encoders in the emulator: the CPU's bytes, and what they say of damage."""

import pytest
import torch
from emulated_encode import check, outcome
from lane_24_slow import words_of_banks
from lane_24_unused import UNUSED, damaged, of_row_0
from matrices import ODD_BITS, fitting, flipped, same_bits
from torch import Tensor

from lab_utils.formats import SparseMatrix, encode
from lab_utils.patterns import random_sparse

ROWS, STRIPS, LANES = "zero_row_24", "zero_row_24_strips", "lane_24_strips"
BITMAPS, CODES = "bitmap_strips", "coded_strips"
CASES = {
    "default": (ROWS, {}),
    "packed": (ROWS, {"streams": "packed", "slice_cols": 144, "reach": 16}),
    "pairs": (ROWS, {"streams": "pairs", "slice_cols": 96, "levels": 1}),
    "sixes": (ROWS, {"streams": "sixes", "slice_cols": 144}),
    "nested": (ROWS, {"streams": "nested", "slice_cols": 144}),
    "plain order": (ROWS, {"streams": "pairs", "slice_cols": 48, "reach": -1, "levels": 0}),
    "strips": (STRIPS, {}),
    "strips, entries": (STRIPS, {"levels": 0, "reach": 8}),
    "strips, level 1": (STRIPS, {"levels": 1, "reach": -1}),
    "lanes": (LANES, {}),
    "bitmaps": (BITMAPS, {}),
    "codes": (CODES, {}),
    "csr": ("csr", {}),
    "tiled_csl": ("tiled_csl", {}),
    "tiled_csl, in order": ("tiled_csl", {"reorder": False}),
    "tca_bme": ("tca_bme", {}),
    "2:4": ("2:4", {}),
    "sparta": ("sparta", {}),
}
SENDING = {f"lscd_{name}_send" for name in (ROWS, STRIPS)}  # where words have a level 1
# Other compiled functions of each format, all of them to be called; SparTA has two of its own.
FUNCTIONS = {
    ROWS: 6,
    STRIPS: 6,
    LANES: 5,
    BITMAPS: 5,
    CODES: 5,
    "csr": 4,
    "tiled_csl": 4,
    "tca_bme": 5,
    "2:4": 4,
    "sparta": 9,
}

formats = pytest.mark.parametrize("format", [ROWS, STRIPS, LANES, BITMAPS, CODES])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.8, 0.97, 1.0])
def test_same_bytes(on_gpu, case, sparsity):
    sends = False
    for seed, shape in enumerate([(1, 1), (70, 49), (64, 200)]):
        A = check(on_gpu, random_sparse(*shape, sparsity, seed=seed), *CASES[case])
        sends |= bool(getattr(A, "levels", 0) and getattr(A, "pairs", True))
    assert len(on_gpu.called - SENDING) == FUNCTIONS[CASES[case][0]]
    assert bool(on_gpu.called & SENDING) == sends


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dense_tiles_odd_values_and_rows_of_any_length(on_gpu, dtype):
    dense = random_sparse(70, 151, 0.7, pattern="row_skewed", dtype=dtype)
    dense[20:68, 48:130] = 1.5
    for row, pattern in enumerate(ODD_BITS):
        dense.view(torch.int16)[row, 3 * row] = pattern - (1 << 16 if pattern >= 1 << 15 else 0)
    for case in CASES.values():
        check(on_gpu, dense, *case)


@pytest.mark.parametrize("case", CASES)
def test_a_part_of_the_rows(on_gpu, case):
    format, options = CASES[case]
    dense = random_sparse(200, 151, 0.6, seed=2)
    dense[70:90, 48:100] = 1.5
    dense = fitting(dense, format)
    A = encode(dense, format, **options)
    for first, rows in [(0, 128), (128, 72)] + [(64, 128)] * (A.ROW_BLOCK <= 64):
        out = torch.full((rows, 151), torch.nan, dtype=dense.dtype)
        on_gpu(A.decode_rows, first, out)
        assert same_bits(out, dense[first : first + rows])


def same_outcome(on_gpu, A: SparseMatrix, name: str, array: Tensor) -> str:
    """What both say of A with another array."""
    arrays = {**A.arrays, name: array}
    expected = outcome(A, arrays)
    assert on_gpu(outcome, A, arrays) == expected
    return expected


def small_without_level(dense: Tensor, streams: str) -> SparseMatrix:
    """With one extra chunk for 64 rows: two with a weight would be a race."""
    return encode(dense, ROWS, slice_cols=144, streams=streams)


def small(format: str, seed: int) -> SparseMatrix:
    """A matrix of a few ragged chunks; streams, or levels, by turns."""
    dense = random_sparse(70, 120, (0.2, 0.6, 0.9)[seed % 3], seed=seed)
    if format in (LANES, BITMAPS, CODES):
        return encode(dense, format)
    even = seed % 2 == 0
    if format == ROWS and seed % 6 in (1, 5):
        return small_without_level(dense, "sixes" if seed % 6 == 5 else "nested")
    options = {"slice_cols": 96, "streams": "pairs" if even else "packed"} if format == ROWS else {}
    return encode(dense, format, levels=int(seed % 4 < 2 if format == ROWS else even), **options)


@formats
def test_damage_is_found_as_on_the_cpu(on_gpu, format):
    generator, said = torch.Generator().manual_seed(0), set()
    for seed in range(40):
        A = small(format, seed)
        tables = [name for name in A.arrays if name != "data"]
        name = "data" if seed % 4 else tables[seed // 4 % len(tables)]
        size = 1200 if seed % 3 else A.arrays[name].nbytes  # mostly in the first headers
        bit = int(torch.randint(8 * min(size, A.arrays[name].nbytes), (), generator=generator))
        said.add(same_outcome(on_gpu, A, name, flipped(A.arrays[name], bit)))
    assert len(said) > 10


@pytest.mark.parametrize("format", ["csr", "tiled_csl", "tca_bme", "2:4", "sparta"])
def test_damage_of_published_formats_is_found_as_on_the_cpu(on_gpu, format):
    generator, said = torch.Generator().manual_seed(0), set()
    for seed in range(40):
        dense = random_sparse(70, 120, (0.2, 0.6, 0.9)[seed % 3], seed=seed)
        A = encode(fitting(dense, format), format)
        name = list(A.arrays)[seed % len(A.arrays)]
        bit = int(torch.randint(8 * A.arrays[name].nbytes, (), generator=generator))
        said.add(same_outcome(on_gpu, A, name, flipped(A.arrays[name], bit)))
    assert len(said) > 3


@formats
def test_noise_in_the_data_is_found_as_on_the_cpu(on_gpu, format):
    generator = torch.Generator().manual_seed(0)
    for seed in range(9):
        A = small(format, seed)
        data = A.arrays["data"].clone()
        # Metadata, bitmaps or codes; starts, halves, banks or codes; values, or banks and more.
        start = (0, 512, {LANES: 776, BITMAPS: 640, CODES: 768}.get(format, 576))[seed % 3]
        noise = torch.randint(256, (64,), generator=generator, dtype=torch.uint8)
        data[start : start + 64] = noise
        same_outcome(on_gpu, A, "data", data)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.7, 0.95])
def test_nested_chunks(on_gpu, sparsity):
    shapes = [(64, 72, None, 8), (130, 73, 72, 32), (65, 300, 216, 8), (17, 500, None, -1)]
    for seed, (M, K, slice_cols, reach) in enumerate(shapes):
        dense = random_sparse(M, K, sparsity, seed=seed)
        dense[:16] = 1.5  # up to three extra chunks
        dense[16:40, 40:90] = 0
        dense[-1, ::2] = float("-inf")
        options = {"streams": "nested", "slice_cols": slice_cols, "reach": reach}
        check(on_gpu, dense, ROWS, options)


@pytest.mark.parametrize("sparsity", [0.3, 0.7])
def test_damage_of_nested_chunks_is_found_as_on_the_cpu(on_gpu, sparsity):
    """In codes, starts and lists of a regular chunk and an extra one, and in values."""
    A = small_without_level(random_sparse(70, 120, sparsity), "nested")
    extra = 16 * int(A.arrays["chunk_start"][2])
    generator, said = torch.Generator().manual_seed(0), set()
    for first, size in [(0, 768), (extra, 768), (768, 64), (extra + 832, 768), (832, 64)]:
        for _ in range(16):
            bit = 8 * first + int(torch.randint(8 * size, (), generator=generator))
            said.add(same_outcome(on_gpu, A, "data", flipped(A.arrays["data"], bit)))
    assert len(said) > 6


def test_codes_that_change_places_are_found_as_on_the_cpu(on_gpu):
    """Some are sound, others send a weight where two groups do, or where no level 1 is."""
    A, said = small_without_level(random_sparse(70, 120, 0.3), "nested"), set()
    generator = torch.Generator().manual_seed(0)
    for code in (0, 1, 2, 5, 6, 8, 10, 12, 15) * 2:
        chunk, lane, n = (int(torch.randint(most, (), generator=generator)) for most in (3, 48, 7))
        data = A.arrays["data"].clone()
        planes = data[16 * int(A.arrays["chunk_start"][chunk]) + 16 * lane :][:16].view(torch.int32)
        for bit in range(4):  # of all tiles
            planes[bit] = planes[bit] & ~(15 << 4 * n) | (code >> bit & 1) * 15 << 4 * n
        said.add(same_outcome(on_gpu, A, "data", data))
    assert any("sends a weight where level 1 has no room" in one for one in said)


def test_lanes_of_several_chunks(on_gpu):
    dense = random_sparse(40, 605, 0.6, pattern="row_skewed", seed=1)
    dense[16:32, 256:512] = 1.5  # as many far steps as there can be
    dense[:8, :256] = 0
    dense[3, :256:2] = 2.5  # lanes with words that cost more as lines
    check(on_gpu, dense, LANES, {})


# Offset in the first chunk, what is written there, and the number of what a check says of it.
LANES_DAMAGE = [
    (771, [200], 1),  # far steps
    (772, [0, 0, 0, 0], 1),  # where far steps begin
    (776, [32], 2),  # banks
    (776, [0, 0], 2),
    (512, [0, 1, 0, 0], 3),  # halves of lane 0's groups of step 0: one that no group has begun
    (640 + 4 * 7, [0, 128, 0, 0], 3),  # of lane 7's step 1, though step 0 ends with a first half
    (512, [255, 255, 255, 255], 4),
    (888, [0, 0], 5),  # value and row of an entry in the third step
    (888 + 4, [3], 5),
    (0, [0x27], 6),  # metadata
    (770, [0x24], 5),  # two fours, where there is room for three
    (1288, [255], 5),  # metadata of fours
    (1407, [1], 9),  # behind near steps
]


@pytest.mark.parametrize("at, written, problem", LANES_DAMAGE)
def test_damage_of_lanes_is_named(on_gpu, at, written, problem):
    A = encode(random_sparse(64, 256, 0.66), LANES)
    data = A.arrays["data"].clone()
    data[at : at + len(written)] = torch.tensor(written, dtype=torch.uint8)
    arrays = {**A.arrays, "data": data}
    said = on_gpu(outcome, A, arrays)
    assert f"chunk 0 {A.PROBLEMS[problem]}" in said
    assert said == outcome(A, arrays)


@pytest.mark.parametrize(("groups", "damage"), UNUSED)
def test_lanes_entries_that_are_not_in_use_say_what_they_are(on_gpu, groups, damage):
    A = of_row_0(groups)
    arrays = damaged(A, damage)
    said = on_gpu(outcome, A, arrays)
    assert A.PROBLEMS[5] in said and said == outcome(A, arrays)


def test_lanes_values_without_a_place_are_found(on_gpu):
    whole = encode(random_sparse(64, 64, 0.5), LANES)
    for shape in ((63, 64), (64, 63)):
        A = encode(torch.zeros(shape, dtype=torch.float16), LANES)
        said = on_gpu(outcome, A, whole.arrays)
        assert whole.PROBLEMS[7] in said and said == outcome(A, whole.arrays)


def test_lanes_words_of_nothing_are_found(on_gpu):
    A = encode(random_sparse(64, 256, 0.8), LANES)
    data = A.arrays["data"]
    lines_at = int(data[768:770].view(torch.int16))
    words = words_of_banks(A, 0)
    shortest = min(words, key=words.get)
    for line, problem in ((words[shortest] - 1, 8), (words[shortest], 9)):
        at = lines_at + 128 * line + 4 * shortest
        damaged = data.clone()
        damaged[at : at + 4] = int(problem == 9)
        arrays = {**A.arrays, "data": damaged}
        said = on_gpu(outcome, A, arrays)
        assert f"chunk 0 {A.PROBLEMS[problem]}" in said and said == outcome(A, arrays)
