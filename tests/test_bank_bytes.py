"""Bytes of formats whose lanes have banks: of encodings, of all masks, at both ends."""

import itertools

import numpy as np
import pytest

from lab_utils.analysis import coded_strips
from lab_utils.analysis import compression as c
from lab_utils.formats import encode
from lab_utils.patterns import random_sparse

banks = pytest.mark.parametrize("format", ["bitmap_strips", "coded_strips"])


@banks
@pytest.mark.parametrize("shape", [(1024, 2048), (1016, 1931), (40, 71)])
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.8, 0.9, 0.97, 1.0])
def test_bytes_of_banks_are_those_of_encodings(format: str, shape: tuple, sparsity: float) -> None:
    masks = 1 if shape[0] > 1000 else 32
    encoded = [encode(random_sparse(*shape, sparsity, seed=i), format) for i in range(masks)]
    stored = sum(A.nbytes for A in encoded) / masks
    assert c.format_bytes(format, *shape, sparsity) == pytest.approx(stored, rel=0.01)


@pytest.mark.parametrize(
    ("format", "least", "most", "one"),
    [
        ("bitmap_strips", 640, 640 + 128 * 64, 4 * 640 + 128),
        ("coded_strips", 896, 768 + 128 * 65, 4 * 896 + 128),  # of a bank that begins a line below
    ],
)
def test_bytes_of_banks_without_and_with_all_weights(
    format: str, least: int, most: int, one: int
) -> None:
    chunks = 64 * 2
    tables = 4 * (chunks + 1) + 4
    assert c.format_bytes(format, 1024, 512, 1.0) == chunks * least + tables
    assert c.format_bytes(format, 1024, 512, 0.0) == chunks * most + tables
    # Of one weight: a line in one of four strips.
    assert c.format_bytes(format, 1, 1, 0.0) == one + 4 * 5 + 4


@banks
@pytest.mark.parametrize("shape", [(1024, 512), (1000, 301), (3, 5)])
def test_bytes_of_banks_never_rise(format: str, shape: tuple[int, int]) -> None:
    nbytes = c.format_bytes(format, *shape, np.linspace(0, 1, 201))
    assert (np.diff(nbytes) <= 0).all()


@pytest.mark.parametrize(("pairs", "single"), [(0, 0), (0, 2), (3, 0), (3, 1), (4, 2)])
def test_words_of_coded_strips_are_those_of_all_masks(pairs: int, single: int) -> None:
    p, q = 0.3, 0.7
    of_pairs = [(q * q, 2 * p * q, p * p)] * pairs + [(q, p)] * single  # by weights of each
    chances = np.zeros(pairs + single + 1)
    for weights in itertools.product(*map(enumerate, of_pairs)):
        words, room, chance = 0, False, 1.0
        for count, own in weights:
            words += count == 2 or (count == 1 and not room)
            room = not room if count == 1 else room and count == 0
            chance *= own
        chances[words] += chance
    cdf = coded_strips.LAYOUT.cdf(pairs, single, p)
    assert cdf == pytest.approx(chances.cumsum()[:-1])
