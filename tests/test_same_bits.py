"""Products have the bits that another machine wrote down, on GPUs of the same kind."""

import itertools
from pathlib import Path

import pytest
import same_bits
import torch

STORED = Path(__file__).with_name("same_bits_hopper.txt")


def test_every_case_is_written_down() -> None:
    title, *stored = STORED.read_text().splitlines()
    assert title == same_bits.title()
    cases = itertools.product(same_bits.SHAPES, same_bits.SPARSITIES, same_bits.FORMATS)
    expected = [same_bits.case(*shape, *case) for shape, *case in cases]
    assert [" ".join(line.split()[:3]) for line in stored] == expected
    assert {len(line.split()) for line in stored} == {5 + len(same_bits.COLUMNS)}


def test_a_hash_is_of_values_not_of_their_place() -> None:
    one = torch.arange(6).view(2, 3)
    assert same_bits.hash_of(one) == same_bits.hash_of(one.T.contiguous().T)
    assert same_bits.hash_of(one) != same_bits.hash_of(one.T)
    assert same_bits.hash_of(one, one) != same_bits.hash_of(one)


@pytest.mark.gpu
def test_a_hopper_gpu_has_the_bits_of_another() -> None:
    gpu = torch.cuda.get_device_properties()
    if (gpu.major, gpu.minor, gpu.multi_processor_count) != (9, 0, 132):
        pytest.skip(f"bits are of sm_90 with 132 multiprocessors; this is {gpu.name}")
    _, *stored = STORED.read_text().splitlines()
    assert list(same_bits.lines()) == stored
