"""Encoders of GPUs write the bytes of those of the CPU; decoders and checks there agree as well."""

import pytest
import torch
from matrices import ODD_BITS, VARIANTS, fitting, flipped, same_bits
from torch import Tensor

from lab_utils.formats import FORMATS, SparseMatrix, checks, encode, native
from lab_utils.patterns import PATTERNS, random_sparse

pytestmark = pytest.mark.gpu

DTYPES = [torch.float16, torch.bfloat16]
# Single rows and columns; nothing divides by a tile; whole tiles; rows on 2, 4 and 16 bytes.
SHAPES = [(1, 1), (1, 300), (300, 1), (129, 65), (77, 130), (128, 64), (200, 520), (260, 1032)]
NEEDED = 30e9  # bytes: a matrix of 2^31 weights, its encoding, and what torch needs to compare
variants = pytest.mark.parametrize("format, options", VARIANTS)


def as_bytes(array: Tensor) -> Tensor:
    return array.cpu().view(torch.uint8)


def check(dense: Tensor, format: str, **options) -> None:
    """Encoding `dense`, on a GPU, gives the CPU's bytes, which decode there and are found valid."""
    expected, A = encode(dense.cpu(), format, **options), encode(dense, format, **options)
    assert A.device == dense.device and A.constants == expected.constants
    for name, array in expected.arrays.items():
        assert A.arrays[name].dtype == array.dtype, name
        assert torch.equal(as_bytes(A.arrays[name]), as_bytes(array)), name
    A.validate()
    assert same_bits(A.decode().cpu(), dense.cpu())


@variants
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sparsity", [0.0, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0])
def test_same_bytes(format, options, dtype, sparsity):
    for seed, shape in enumerate(SHAPES):
        dense = random_sparse(*shape, sparsity, dtype=dtype, seed=seed)
        check(fitting(dense, format).cuda(), format, **options)


@variants
@pytest.mark.parametrize("pattern", PATTERNS)
def test_same_bytes_of_patterns(format, options, pattern):
    dense = random_sparse(1000, 900, 0.6, pattern=pattern)
    dense[128:256, 64:128] = 1.5  # one dense tile
    check(fitting(dense, format).cuda(), format, **options)


@pytest.mark.parametrize("missing", range(9))
def test_same_padding_of_nearly_full_tiles(missing):
    dense = torch.ones(128, 64, dtype=torch.float16)
    holes = torch.randperm(128 * 64, generator=torch.Generator().manual_seed(missing))[:missing]
    dense.view(-1)[holes] = 0
    for reorder in (True, False):
        check(dense.cuda(), "tiled_csl", reorder=reorder)


@variants
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_odd_values_keep_their_bits(format, options, dtype):
    dense = random_sparse(48, 80, 0.7, dtype=dtype)
    for row, pattern in enumerate(ODD_BITS):
        dense.view(torch.int16)[row, 3 * row] = pattern - (1 << 16 if pattern >= 1 << 15 else 0)
    check(fitting(dense, format).cuda(), format, **options)


@variants
def test_any_strides(format, options):
    wide = torch.zeros(200, 400, dtype=torch.float16, device="cuda")
    tail = wide.view(-1)[1 : 1 + 96 * 80].view(96, 80)  # contiguous, not on 4 bytes
    for view in (wide[:96, :80], wide[:192:2, 3:83], wide[:80, 5:101].T, wide[1:97, ::5], tail):
        view.copy_(fitting(random_sparse(96, 80, 0.6), format))
        check(view, format, **options)


@variants
def test_large(format, options):
    check(fitting(random_sparse(4096, 4104, 0.5), format).cuda(), format, **options)


@variants
def test_more_weights_than_32_bits_count(format, options):
    free = torch.cuda.mem_get_info()[0]
    if free < NEEDED:
        pytest.skip(f"needs {NEEDED / 1e9:.0f} GB of GPU memory; {free / 1e9:.0f} GB are free")
    dense = torch.zeros(2**16 + 1, 2**15 + 8, dtype=torch.float16, device="cuda")
    dense[::911, ::977] = 1.5
    dense[-1, -1] = 2.5
    A = encode(dense, format, **options)
    A.validate()
    assert A.nnz == 72 * 34 + 1
    assert same_bits(A.decode(), dense)


@variants
def test_streams_and_inference_mode(format, options):
    dense = fitting(random_sparse(512, 512, 0.5), format)
    on_gpu, stream = dense.cuda(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.inference_mode():
        A = encode(on_gpu, format, **options)
        decoded = A.decode()
    stream.synchronize()
    assert same_bits(decoded.cpu(), dense)


def outcome(A: SparseMatrix, arrays: dict[str, Tensor]) -> str:
    """What the constructor says of `arrays`."""
    try:
        type(A)(A.shape, A.dtype, arrays)
    except ValueError as error:
        return str(error)
    return "valid"


def same_outcome(A: SparseMatrix, name: str, damaged: Tensor) -> str:
    """What the constructor says of A with another array, which is the same on both devices."""
    arrays = {**A.arrays, name: damaged}
    said = outcome(A, arrays)
    assert outcome(A, {name: array.cuda() for name, array in arrays.items()}) == said
    return said


def small(format: str, seed: int, **options) -> SparseMatrix:
    """A matrix of a few tiles, most of them ragged."""
    dense = random_sparse(150, 140, (0.2, 0.6, 0.9)[seed % 3], seed=seed)
    return encode(fitting(dense, format), format, **options)


@variants
def test_flipped_bits_are_found_as_on_the_cpu(format, options):
    generator, said = torch.Generator().manual_seed(0), set()
    for seed in range(100):
        A = small(format, seed, **options)
        for name, array in A.arrays.items():
            if array.numel():
                bit = int(torch.randint(8 * array.nbytes, (), generator=generator))
                said.add(same_outcome(A, name, flipped(array, bit)))
    assert format == "dense" or len(said) > 5


@variants
def test_noise_and_truncation_are_found_as_on_the_cpu(format, options):
    generator = torch.Generator().manual_seed(0)
    for seed in range(20):
        A = small(format, seed, **options)
        for name, array in A.arrays.items():
            for largest in (2, 256):
                size = (array.nbytes,)
                noise = torch.randint(largest, size, generator=generator, dtype=torch.uint8)
                same_outcome(A, name, noise.view(array.dtype))
            assert "invalid" in same_outcome(A, name, array[:-1].clone())
            assert "invalid" in same_outcome(A, name, torch.cat([array, array[:1], array[:3]]))


@pytest.mark.parametrize("format", ["csr", "tca_bme"])
def test_stored_zeros_are_found_as_on_the_cpu(format):
    for seed in range(9):
        A = small(format, seed)
        values = A.arrays["values"].clone()
        values[torch.arange(seed, 400, 67)] = 0
        assert "stores a +0" in same_outcome(A, "values", values)


@pytest.mark.parametrize("damage", ["zeros", "twice", "far", "outside", "offsets"])
def test_bad_words_are_found_as_on_the_cpu(damage):
    for seed in range(9):
        A = small("tiled_csl", seed)
        words, offsets = A.arrays["words"].clone(), A.arrays["tile_offsets"].clone()
        at = 4 * int(offsets[4]) + 1  # in the lower left tile
        if damage == "zeros":
            words[at : at + 8] &= ~0xFFFF
        elif damage == "twice":
            words[at + 40] = words[at]
        elif damage == "far":
            words[at] = 8192 << 16
        elif damage == "outside":
            words[at] = 60 * 64 << 16 | 1
        else:
            offsets[1:5] = offsets[5]  # all of a row of tiles in one, more words than places
        name, array = ("tile_offsets", offsets) if damage == "offsets" else ("words", words)
        assert "invalid tiled_csl" in same_outcome(A, name, array)


def test_a_write_after_encoding_is_found_before_the_next_use():
    A = encode(random_sparse(80, 80, 0.6).cuda(), "tca_bme")
    A.arrays["gt_offset"][0] = 8
    for use in (A.decode, A.ensure_valid, A.validate, lambda: A.to("cpu")):
        with pytest.raises(ValueError, match="gt_offset does not match the bitmaps"):
            use()


def test_an_array_off_16_bytes_is_refused():
    A = encode(random_sparse(8, 8, 0.5).cuda(), "dense")
    moved = torch.zeros(65, dtype=torch.float16, device="cuda")[1:]
    assert "'values' does not start on 16 bytes" in outcome(A, {"values": moved})


@pytest.mark.parametrize("nonzero", [(0, 1, 2), (5, 6, 7), (96, 97, 98)])
def test_the_first_overfull_group_is_named_as_on_the_cpu(nonzero):
    dense = torch.zeros(5, 99, dtype=torch.float16)
    dense[3:, list(nonzero)] = 1
    with pytest.raises(ValueError, match=f"row 3, group {nonzero[0] // 4} ") as on_gpu:
        encode(dense.cuda(), "2:4")
    with pytest.raises(ValueError) as on_cpu:
        encode(dense, "2:4")
    assert str(on_gpu.value) == str(on_cpu.value)


@pytest.mark.parametrize("format", [name for name in FORMATS if name not in ("dense", "2:4")])
def test_offsets_beyond_32_bits_are_refused_with_their_size(format, monkeypatch):
    monkeypatch.setattr(checks, "INT32_MAX", 1000)
    with pytest.raises(ValueError, match=r"\d{4,5} does not fit 32-bit indices \(at most 1000\)"):
        encode(random_sparse(256, 128, 0.0).cuda(), format)


def test_a_failed_launch_raises_what_cuda_says():
    nothing = torch.empty(0, dtype=torch.int64, device="cuda")
    with pytest.raises(RuntimeError, match="lscd_tca_bme_mark failed: invalid "):
        native.call("lscd_tca_bme_mark", nothing, 0, 0, nothing)


def test_every_format_is_covered():
    assert {name for name, _ in VARIANTS} == set(FORMATS)
