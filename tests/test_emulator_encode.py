"""The GPU encoder of zero-row 2:4, in the emulator: the CPU's bytes, and what it says of damage."""

import ctypes

import pytest
import torch
from emulated import compiled, linked
from matrices import ODD_BITS, flipped, same_bits
from torch import Tensor

from lab_utils.backends.simt import Machine
from lab_utils.formats import ZeroRow24, native
from lab_utils.patterns import random_sparse
from lab_utils.toolchains import KERNELS

OPTIONS = {
    "default": {},
    "packed": {"pairs": False, "slice_cols": 144, "reach": 16},
    "pairs": {"pairs": True, "slice_cols": 96},
    "plain order": {"pairs": True, "slice_cols": 48, "reach": -1},
}


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


def check(on_gpu, dense: Tensor, **options) -> None:
    expected = ZeroRow24.encode(dense, **options)
    A = on_gpu(ZeroRow24.encode, dense, **options)
    assert A.constants == expected.constants
    for name, array in expected.arrays.items():
        assert torch.equal(A.arrays[name], array), name
    on_gpu(A.validate)
    assert same_bits(on_gpu(A.decode), dense)
    assert on_gpu(lambda: A.nnz) == expected.nnz


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.8, 0.97, 1.0])
def test_same_bytes(on_gpu, case, sparsity):
    for seed, shape in enumerate([(1, 1), (70, 49), (64, 200)]):
        check(on_gpu, random_sparse(*shape, sparsity, seed=seed), **OPTIONS[case])
    assert len(on_gpu.called) == 6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dense_tiles_odd_values_and_rows_of_any_length(on_gpu, dtype):
    dense = random_sparse(70, 151, 0.7, pattern="row_skewed", dtype=dtype)
    dense[20:68, 48:130] = 1.5
    for row, pattern in enumerate(ODD_BITS):
        dense.view(torch.int16)[row, 3 * row] = pattern - (1 << 16 if pattern >= 1 << 15 else 0)
    for options in OPTIONS.values():
        check(on_gpu, dense, **options)


def outcome(A: ZeroRow24, arrays: dict[str, Tensor]) -> str:
    try:
        ZeroRow24(A.shape, A.dtype, arrays)
    except ValueError as error:
        return str(error)
    return "valid"


def test_damage_is_found_as_on_the_cpu(on_gpu):
    generator, said = torch.Generator().manual_seed(0), set()
    for seed in range(60):
        dense = random_sparse(70, 120, (0.2, 0.6, 0.9)[seed % 3], seed=seed)
        A = ZeroRow24.encode(dense, slice_cols=96, pairs=seed % 2 == 0)
        name = "data" if seed % 4 else ("chunk_start", "first_chunk", "geometry")[seed // 4 % 3]
        size = 1200 if seed % 3 else A.arrays[name].nbytes  # mostly in the first headers
        bit = int(torch.randint(8 * min(size, A.arrays[name].nbytes), (), generator=generator))
        arrays = {**A.arrays, name: flipped(A.arrays[name], bit)}
        expected = outcome(A, arrays)
        assert on_gpu(outcome, A, arrays) == expected
        said.add(expected)
    assert len(said) > 10


def test_noise_in_the_data_is_found_as_on_the_cpu(on_gpu):
    generator = torch.Generator().manual_seed(0)
    for seed in range(12):
        A = ZeroRow24.encode(random_sparse(70, 120, 0.6, seed=seed), slice_cols=96)
        data = A.arrays["data"].clone()
        start = (0, 512, 576)[seed % 3]  # metadata, starts, values
        noise = torch.randint(256, (64,), generator=generator, dtype=torch.uint8)
        data[start : start + 64] = noise
        arrays = {**A.arrays, "data": data}
        assert on_gpu(outcome, A, arrays) == outcome(A, arrays)
