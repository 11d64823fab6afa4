"""GPU encoders in the emulator: a fixture, and what tests ask of them."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
from emulated import compiled, linked
from matrices import fitting, same_bits
from torch import Tensor

from lab_utils.backends.simt import Machine
from lab_utils.formats import FORMATS, SparseMatrix, encode, native
from lab_utils.toolchains import SOURCES


@pytest.fixture(scope="session")
def encoders(tmp_path_factory) -> Machine:
    folder = tmp_path_factory.mktemp("encode")
    sources = sorted((SOURCES / "encode").glob("*.cu"))
    targets = [folder / f"{source.stem}.o" for source in sources]
    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, sources, targets))
    return linked(objects, folder / "encode.so")


@pytest.fixture
def on_gpu(encoders, monkeypatch):
    """Calls a function with the GPU's encoders in place of the CPU's."""
    called = set()

    def call(function: str, *arguments: Tensor | int) -> None:
        tensors = [one for one in arguments if isinstance(one, Tensor) and one.numel()]
        converted = [native._converted(one) for one in arguments]
        arrays = {f"array {i}": tensor for i, tensor in enumerate(tensors)}
        encoders.run(function, *converted, ctypes.c_void_p(), read={}, written=arrays)
        called.add(function)

    def run(work, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(native, "call", call)
            return work(*arguments, **options)

    run.called = called
    return run


def check(on_gpu, dense: Tensor, format: str, options: dict) -> SparseMatrix:
    dense = fitting(dense, format)
    expected = encode(dense, format, **options)
    A = on_gpu(encode, dense, format, **options)
    assert A.constants == expected.constants
    for name, array in expected.arrays.items():
        assert same_bits(A.arrays[name], array), name
    on_gpu(A.validate)
    assert same_bits(on_gpu(A.decode), dense)
    assert on_gpu(lambda: A.nnz) == expected.nnz
    return A


def outcome(A: SparseMatrix, arrays: dict[str, Tensor]) -> str:
    try:
        FORMATS[A.name](A.shape, A.dtype, arrays)
    except ValueError as error:
        return str(error)
    return "valid"
