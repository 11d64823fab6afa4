"""Zero-row 2:4 in strips: a slow reading of its drawing, its entries, its bytes, its conflicts."""

import numpy as np
import pytest
import torch
from matrices import same_bits
from torch import Tensor

from lab_utils import accuracy, spmm
from lab_utils.analysis import zero_row_24_streams, zero_row_24_strips
from lab_utils.formats import ZeroRow24Strips
from lab_utils.patterns import PATTERNS, random_sparse

both = pytest.mark.parametrize("levels", [0, 1])


class SlowReading:
    """The weights of an encoding, found as zero_row_24_strips.h draws them, one by one."""

    def __init__(self, A: ZeroRow24Strips):
        self.A, self.entries, self.sent = A, 0, 0  # weights without a slot; those of level 1
        self.dense = np.zeros(A.shape, np.uint16)
        self.regular = -(-A.shape[1] // 192)
        starts = A.arrays["chunk_start"].tolist()
        for chunk in range(A.strips * A.rounds):
            data = A.arrays["data"][16 * starts[chunk] : 16 * starts[chunk + 1]].numpy()
            self.read_chunk(*divmod(chunk, A.rounds), data)

    def of_level(self, nth: int) -> bool:
        return self.A.levels and (nth % 4 == 3 or nth == self.A.rounds - 1)

    def column(self, nth: int, j: int) -> int:
        if not self.A.levels:
            return 192 * nth + j
        if self.of_level(nth):
            return 3 * (192 * (nth // 4) + j) + 1
        return 192 * (nth - nth // 4) + j

    def put(self, row: int, column: int, value: int) -> None:
        assert self.dense[row, column] == 0 and value != 0
        self.dense[row, column] = value

    def read_chunk(self, strip: int, nth: int, data: np.ndarray) -> None:
        halves, words = data.view(np.uint16), data.view(np.uint32)
        tops = [int(halves[256 + i]) >> 14 for i in range(32)]
        header = [sum(tops[8 * i + m] << 2 * m for m in range(4)) for i in range(4)]
        steps, size = header[0], header[1] + 256 * header[2]
        assert 16 * size == data.size and header[3] == 0
        for place, word in enumerate(words[144 : 144 + 8 * steps].tolist()):
            of_b = word >> 16 & 255
            assert of_b % 8 == place % 8 or of_b == place % 8 // 4 * 4 + 3
            if of_b % 4 != 3:
                column = self.column(nth, of_b // 4 * 3 + of_b % 4)
                self.put(16 * strip + (word >> 24), column, word & 0xFFFF)
                self.entries += 1
                self.sent += self.of_level(nth)
        for tile, g in np.ndindex(4, 8):
            at = int(halves[256 + 4 * g + tile]) & 0x3FFF
            assert at >= 576 + 32 * steps
            for step, half, row, t in np.ndindex(2, 2, 2, 4):
                code = int(words[(4 * g + 2 * step + half) * 4 + tile]) >> (16 * row + 4 * t) & 15
                group = 16 * tile + 8 * step + 4 * half + t
                for slot, index in enumerate((code & 3, code >> 2)):
                    if index != 3:
                        column = self.column(nth, 3 * group + index)
                        self.put(16 * strip + g + 8 * row, column, halves[at // 2 + slot])
                        self.sent += self.of_level(nth)
                at += 4 * (code >> 2 != 3)


@both
@pytest.mark.parametrize("shape", [(1, 1), (64, 192), (65, 700), (150, 31)])
@pytest.mark.parametrize("sparsity", [0.0, 0.4, 0.9, 1.0])
def test_every_element_is_where_the_drawing_puts_it(shape, sparsity, levels):
    dense = random_sparse(*shape, sparsity, pattern="row_skewed")
    A = ZeroRow24Strips.encode(dense, levels)
    found = SlowReading(A)
    assert np.array_equal(found.dense, dense.view(torch.int16).numpy().view(np.uint16))
    assert levels or found.entries == full_groups(dense)


def full_groups(dense: Tensor) -> int:
    """Groups of three columns that have three weights."""
    return int(is_full(dense[:, : dense.shape[1] // 3 * 3]).sum())


def is_full(dense: Tensor) -> Tensor:
    """Which of them, bool [M, K / 3]."""
    return (dense.view(torch.int16).reshape(dense.shape[0], -1, 3) != 0).all(2)


@pytest.mark.parametrize(
    ("weights", "sent", "values"),
    [
        ([0, 3, 4], 1, 4),  # a lone weight, and two, of which one is the middle one
        ([1, 3, 5], 1, 4),  # a lone middle one, and two without
        ([0, 1, 3, 6, 8], 1, 8),  # two with a middle one, a lone weight, and two without
        ([0, 3, 5], 0, 8),  # neither: a zero, and the lone weight, are a word
        ([0, 3, 6, 7], 0, 8),  # two lone weights are partners
        ([1], 1, 0),  # at the end as well
        ([0], 0, 4),
        ([1, 3, 4, 5, 6, 7, 8], 2, 12),  # full groups have both slots of its three
    ],
)
def test_a_middle_weight_that_spares_a_zero_goes_to_level_1(weights, sent, values):
    dense = torch.zeros(64, 192, dtype=torch.float16)
    dense[0, weights] = 1
    A = ZeroRow24Strips.encode(dense, levels=1)
    assert SlowReading(A).sent == sent
    first, last = 16 * A.arrays["chunk_start"][:2]
    assert int(last - first) == -(-(576 + values + 4) // 16) * 16


def test_only_full_groups_make_entries():
    dense = random_sparse(64, 1728, 0.3)
    found, full = SlowReading(ZeroRow24Strips.encode(dense, levels=1)), is_full(dense)
    assert found.sent > 1.1 * full.sum()
    assert found.entries == full.reshape(64, -1, 3).all(2).sum()


@both
@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_dense_tile(pattern, levels):
    dense = random_sparse(200, 500, 0.8, pattern=pattern)
    dense[64:130, 48:203] = 1.5
    for reach in (-1, 0, 8, 32):
        A = ZeroRow24Strips.encode(dense, levels, reach)
        A.validate()
        assert same_bits(A.decode(), dense)


@both
def test_a_chunk_without_zeros_is_the_largest_and_stands_in_plain_order(levels):
    dense = torch.ones(64, 576, dtype=torch.float16)
    A = ZeroRow24Strips.encode(dense, levels)
    most = 576 + 32 * 171 + 4096 + 16
    assert A.largest_chunk == most == 10160 and A.levels == levels
    placed = ZeroRow24Strips.encode(dense[:, :192], levels, reach=-1)
    last = placed.arrays["data"][-most:] if levels else placed.arrays["data"][:most]
    starts = zero_row_24_streams.starts_of(last.numpy(), streams=True)
    steps = 171 if not levels else 22  # 64 columns of level 1: 22 groups, the last with one
    assert levels or starts[0, 0] == 576 + 32 * steps
    assert same_bits(A.decode(), dense)


def test_full_groups_choose_the_levels():
    dense = torch.zeros(64, 192, dtype=torch.float16)
    dense[:, :3] = 1  # one group in 64
    assert ZeroRow24Strips.encode(dense).levels == 0
    dense[0, 3:6] = 1
    assert ZeroRow24Strips.encode(dense).levels == 1
    for sparsity, levels in ((0.5, 1), (0.7, 1), (0.8, 0), (0.9, 0)):
        assert ZeroRow24Strips.encode(random_sparse(256, 1000, sparsity)).levels == levels


def test_entries_of_a_step_meet_no_bank_twice():
    A = ZeroRow24Strips.encode(random_sparse(64, 400, 0.5), levels=0)
    data, starts = A.arrays["data"].numpy(), 16 * A.arrays["chunk_start"].numpy()
    for first in starts[:-1]:
        steps = sum(int(data[first + 513 + 2 * m]) >> 6 << 2 * m for m in range(4))
        entries = data[first + 576 : first + 576 + 32 * steps].view(np.uint32).reshape(steps, 8)
        places = np.broadcast_to(np.arange(8), entries.shape)
        of_b = entries >> 16 & 255
        assert steps > 1 and (of_b % 8 == places)[of_b % 4 != 3].all()


# --- bytes


@both
@pytest.mark.parametrize("sparsity", [0.05, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("shape", [(512, 9216), (330, 5000)])
def test_bytes_are_expected(sparsity, levels, shape):
    A = ZeroRow24Strips.encode(random_sparse(*shape, sparsity), levels, reach=-1)
    parts = zero_row_24_strips.parts(*shape, np.float64(1 - sparsity), levels)
    assert A.nbytes == pytest.approx(sum(parts.values()), rel=0.002)


@pytest.mark.parametrize("sparsity", [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
def test_bytes_of_the_default_encoding(sparsity):
    A = ZeroRow24Strips.encode(random_sparse(256, 7168, sparsity))
    assert -0.001 < A.nbytes / ZeroRow24Strips.expected_nbytes(256, 7168, sparsity) - 1 < 0.01


@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_bytes_of_all_and_of_no_weights(sparsity):
    A = ZeroRow24Strips.encode(random_sparse(256, 1152, sparsity), reach=-1)
    expected = ZeroRow24Strips.expected_nbytes(256, 1152, sparsity)
    assert A.nbytes == pytest.approx(expected, rel=0.012)


def test_steps_of_entries_are_those_of_a_simulation():
    rng = np.random.default_rng(0)
    for density in (0.2, 0.5, 0.9, 1.0):
        even, odd = (rng.binomial(16 * n, density**3, 20_000) for n in (16, 15))
        mean = (-(-np.maximum(even, odd) // 3)).mean()
        expected = zero_row_24_strips.steps_of_chunk(16, 93, np.float64(density))
        assert expected == pytest.approx(mean, abs=0.05)


# --- bank conflicts


def wavefronts(A: ZeroRow24Strips) -> float:
    data, chunk_start = A.arrays["data"].numpy(), A.arrays["chunk_start"].numpy()
    return zero_row_24_streams.wavefronts(data, chunk_start, streams=True)


# What the docstring of `encode` says, in plain order and with the default reach.
@pytest.mark.parametrize(
    ("sparsity", "plain", "placed"),
    [(0.5, 2.17, 1.79), (0.6, 2.34, 1.66), (0.7, 1.89, 1.43), (0.8, 2.02, 1.45), (0.9, 1.54, 1.15),
     (0.95, 1.0, 1.0)],
)  # fmt: skip
def test_placement_avoids_bank_conflicts(sparsity, plain, placed):
    dense = random_sparse(128, 1728, sparsity)
    assert wavefronts(ZeroRow24Strips.encode(dense, reach=-1)) == pytest.approx(plain, abs=0.05)
    assert wavefronts(ZeroRow24Strips.encode(dense)) == pytest.approx(placed, abs=0.05)


# --- use, and refusals


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@both
def test_weights_that_are_not_finite_are_flagged(dtype, levels):
    dense = random_sparse(70, 100, 0.5, dtype=dtype)
    assert ZeroRow24Strips.encode(dense, levels).nonfinite is False
    dense[:] = 1  # so that the one below is an entry
    for bad in (torch.inf, -torch.inf, torch.nan):
        dense[16, 0] = bad
        A = ZeroRow24Strips.encode(dense, levels)
        A.validate()
        assert A.nonfinite and A.constants == (levels, A.largest_chunk, 1)
        assert same_bits(A.decode(), dense)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("levels", [0, 1])
def test_rounds_multiply_without_a_gpu(backend, levels):
    W, B = random_sparse(150, 1000, 0.3, mean=0.5), torch.randn(1000, 3).half()
    accuracy.check(spmm(ZeroRow24Strips.encode(W, levels=levels), B, backend=backend), W, B)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": 2}, "levels=2; allowed: None, 0, 1"),
        ({"levels": True}, "levels=True"),
        ({"reach": -2}, "reach=-2; allowed: -1 to 32 bytes"),
        ({"reach": 33}, "reach=33"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ZeroRow24Strips.encode(torch.zeros(2, 2, dtype=torch.float16), **options)
