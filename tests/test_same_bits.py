"""Products have the bits that another machine of the same kind wrote down, on an H200."""

from pathlib import Path

import pytest
import same_bits
import torch

STORED = Path(__file__).with_name("same_bits_h200.txt")


def test_every_case_is_written_down() -> None:
    _, *stored = STORED.read_text().splitlines()
    cases = {tuple(line.split()[:3]) for line in stored}
    assert len(cases) == len(stored)
    assert len(cases) == len(same_bits.SHAPES) * len(same_bits.SPARSITIES) * len(same_bits.FORMATS)
    assert {len(line.split()) for line in stored} == {4 + len(same_bits.COLUMNS)}


def test_a_hash_is_of_values_not_of_their_place() -> None:
    one = torch.arange(6).view(2, 3)
    assert same_bits.hash_of(one) == same_bits.hash_of(one.T.contiguous().T)
    assert same_bits.hash_of(one) != same_bits.hash_of(one.T)
    assert same_bits.hash_of(one, one) != same_bits.hash_of(one)


@pytest.mark.gpu
def test_an_h200_has_the_bits_of_another() -> None:
    if "H200" not in (name := torch.cuda.get_device_name()):
        pytest.skip(f"bits are written down of an H200; this is {name}")
    _, *stored = STORED.read_text().splitlines()
    assert list(same_bits.lines()) == stored
