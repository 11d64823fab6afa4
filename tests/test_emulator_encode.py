"""GPU encoders of zero-row 2:4, in the emulator: the CPU's bytes, and what they say of damage."""

import ctypes

import pytest
import torch
from emulated import compiled, linked
from matrices import ODD_BITS, flipped, same_bits
from torch import Tensor

from lab_utils.backends.simt import Machine
from lab_utils.formats import FORMATS, SparseMatrix, encode, native
from lab_utils.patterns import random_sparse
from lab_utils.toolchains import KERNELS

ROWS, STRIPS = "zero_row_24", "zero_row_24_strips"
CASES = {
    "default": (ROWS, {}),
    "packed": (ROWS, {"pairs": False, "slice_cols": 144, "reach": 16}),
    "pairs": (ROWS, {"pairs": True, "slice_cols": 96, "levels": 1}),
    "plain order": (ROWS, {"pairs": True, "slice_cols": 48, "reach": -1, "levels": 0}),
    "strips": (STRIPS, {}),
    "strips, entries": (STRIPS, {"levels": 0, "reach": 8}),
    "strips, level 1": (STRIPS, {"levels": 1, "reach": -1}),
}

formats = pytest.mark.parametrize("format", [ROWS, STRIPS])


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Machine:
    folder = tmp_path_factory.mktemp("encode")
    sources = sorted((KERNELS / "encode").glob("zero_row_24*.cu"))
    objects = [compiled(source, folder / f"{source.stem}.o") for source in sources]
    return linked(objects, folder / "encode.so")


@pytest.fixture
def on_gpu(machine, monkeypatch):
    """Calls a function with the GPU's encoders in place of the CPU's."""
    called = set()

    def call(function: str, *arguments: Tensor | int) -> None:
        tensors = [one for one in arguments if isinstance(one, Tensor) and one.numel()]
        converted = [native._converted(one) for one in arguments]
        arrays = {f"array {i}": tensor for i, tensor in enumerate(tensors)}
        machine.run(function, *converted, ctypes.c_void_p(), read={}, written=arrays)
        called.add(function)

    def run(work, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(native, "call", call)
            return work(*arguments, **options)

    run.called = called
    return run


def check(on_gpu, dense: Tensor, format: str, options: dict) -> None:
    expected = encode(dense, format, **options)
    A = on_gpu(encode, dense, format, **options)
    assert A.constants == expected.constants
    for name, array in expected.arrays.items():
        assert torch.equal(A.arrays[name], array), name
    on_gpu(A.validate)
    assert same_bits(on_gpu(A.decode), dense)
    assert on_gpu(lambda: A.nnz) == expected.nnz


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.8, 0.97, 1.0])
def test_same_bytes(on_gpu, case, sparsity):
    for seed, shape in enumerate([(1, 1), (70, 49), (64, 200)]):
        check(on_gpu, random_sparse(*shape, sparsity, seed=seed), *CASES[case])
    assert len(on_gpu.called) == 6


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
    A = encode(dense, format, **options)
    for first, rows in ((0, 64), (64, 128), (128, 72)):
        out = torch.full((rows, 151), torch.nan, dtype=dense.dtype)
        on_gpu(A._unpack, out, first)  # which writes zeros as well
        assert same_bits(out, dense[first : first + rows])


def outcome(A: SparseMatrix, arrays: dict[str, Tensor]) -> str:
    try:
        FORMATS[A.name](A.shape, A.dtype, arrays)
    except ValueError as error:
        return str(error)
    return "valid"


def small(format: str, seed: int) -> SparseMatrix:
    """A matrix of a few ragged chunks; streams, or levels, by turns."""
    dense = random_sparse(70, 120, (0.2, 0.6, 0.9)[seed % 3], seed=seed)
    even = seed % 2 == 0
    options = {"slice_cols": 96, "pairs": even} if format == ROWS else {}
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
        arrays = {**A.arrays, name: flipped(A.arrays[name], bit)}
        expected = outcome(A, arrays)
        assert on_gpu(outcome, A, arrays) == expected
        said.add(expected)
    assert len(said) > 10


@formats
def test_noise_in_the_data_is_found_as_on_the_cpu(on_gpu, format):
    generator = torch.Generator().manual_seed(0)
    for seed in range(9):
        A = small(format, seed)
        data = A.arrays["data"].clone()
        start = (0, 512, 576)[seed % 3]  # metadata, starts, values
        noise = torch.randint(256, (64,), generator=generator, dtype=torch.uint8)
        data[start : start + 64] = noise
        arrays = {**A.arrays, "data": data}
        assert on_gpu(outcome, A, arrays) == outcome(A, arrays)
