"""What every format promises: a round trip without loss, its size, and refusals that say why."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from matrices import VARIANTS, encodings, fitting, matrices, same_bits

from lab_utils.analysis import our_formats, variants
from lab_utils.analysis.compression import stored_extra_bytes
from lab_utils.formats import (
    FORMATS,
    Csr,
    SparseMatrix,
    by_name,
    check_options,
    checks,
    encode,
    encode_variant,
    is_variant,
)
from lab_utils.patterns import PATTERNS, random_sparse


def test_the_registry_is_in_order():
    papers = ["dense", "csr", "tiled_csl", "tca_bme", "2:4", "sparta"]
    strips = ["zero_row_24_strips", "lane_24_strips", "bitmap_strips", "coded_strips"]
    assert list(FORMATS) == [*papers, "zero_row_24", *strips]
    assert all(cls.name == name and cls.__doc__ for name, cls in FORMATS.items())


@pytest.mark.parametrize("format, options", VARIANTS)
@settings(max_examples=60, deadline=None)
@given(dense=matrices())
def test_the_round_trip_keeps_every_bit(format, options, dense):
    dense = fitting(dense, format)
    A = encode(dense, format, **options)
    A.validate()  # which `encode` leaves to this test
    assert same_bits(A.decode(), dense)
    assert A.nnz == int((dense.view(torch.int16) != 0).sum())
    assert A.sparsity == 1 - A.nnz / dense.numel()


@pytest.mark.parametrize("format, options", VARIANTS)
@pytest.mark.parametrize("shape", [(1, 1), (128, 64), (256, 128), (129, 65)])
@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_all_zero_and_fully_dense(format, options, shape, sparsity):
    dense = fitting(random_sparse(*shape, sparsity), format)
    assert same_bits(encode(dense, format, **options).decode(), dense)


@pytest.mark.parametrize("format, options", VARIANTS)
def test_any_strides(format, options):
    dense = fitting(random_sparse(96, 80, 0.6), format)
    spread = torch.zeros(160, 96, dtype=torch.float16)[::2].t()
    spread.copy_(dense)
    assert not spread.is_contiguous()
    assert same_bits(encode(spread, format, **options).decode(), dense)


def test_an_encoding_does_not_follow_later_changes_of_the_weights():
    dense = random_sparse(8, 8, 0.0)
    for format in FORMATS:
        weights = fitting(dense, format)
        A = encode(weights, format)
        before = weights.clone()
        weights.zero_()
        assert same_bits(A.decode(), before)


# The bytes of the others are an expectation.
PAPERS = [name for name in FORMATS if name not in our_formats.FORMULAS]


@pytest.mark.parametrize("format", PAPERS)
@pytest.mark.parametrize("sparsity", [0.25, 0.5, 0.75, 0.875])
def test_real_bytes_are_the_papers_formula_and_the_known_extras(format, sparsity):
    M, K = 1024, 768  # whole tiles of every format, and a whole number of zeros
    A = encode(fitting(random_sparse(M, K, sparsity), format), format)
    expected = FORMATS[format].expected_nbytes(M, K, sparsity) + stored_extra_bytes(format, M, K)
    assert abs(A.nbytes - expected) <= five_deviations(format, M, K)


def five_deviations(format: str, M: int, K: int) -> float:
    """Bytes by which a random mask may miss the formula and the mean of the paddings.

    Paddings are uniform over 0 to 3 words (deviation 1.12) or 0 to 7 values (2.29) per tile, and
    SparTA's overflow, 0 to 2 of a group of four, deviates by less than 1. All else is exact.
    """
    deviation = {
        "tiled_csl": 4 * 1.12 * math.sqrt(M / 128 * K / 64),
        "tca_bme": 2 * 2.29 * math.sqrt(M / 64 * K / 64),
        "sparta": 6 * 1.0 * math.sqrt(M * K / 4),
    }
    return 5 * deviation.get(format, 0)


@pytest.mark.parametrize("format", [name for name in PAPERS if name != "2:4"])
@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_real_bytes_are_exact_where_no_tile_is_padded(format, sparsity):
    M, K = 256, 128
    expected = FORMATS[format].expected_nbytes(M, K, sparsity)
    offsets = {"tiled_csl": 2, "tca_bme": 4 * (M // 64) * (K // 64) + 1}  # beyond the formula
    A = encode(random_sparse(M, K, sparsity), format)
    assert A.nbytes == expected + 4 * offsets.get(format, 0)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_decode_in_every_format(pattern):
    dense = random_sparse(300, 260, 0.7, pattern=pattern)
    for format, options in VARIANTS:
        weights = fitting(dense, format)
        assert same_bits(encode(weights, format, **options).decode(), weights)


BAD_INPUT = {
    "float32": (torch.zeros(2, 2), "float32"),
    "int16": (torch.zeros(2, 2, dtype=torch.int16), "int16"),
    "rank 1": (torch.zeros(4, dtype=torch.float16), r"shape \(4,\)"),
    "rank 3": (torch.zeros(1, 2, 2, dtype=torch.float16), r"shape \(1, 2, 2\)"),
    "empty": (torch.zeros(0, 4, dtype=torch.float16), r"shape \(0, 4\)"),
    "sparse layout": (torch.zeros(2, 2, dtype=torch.float16).to_sparse(), "sparse_coo"),
    "numpy": (np.zeros((2, 2), np.float16), "ndarray"),
    "list": ([[1.0]], "list"),
    "another device": (torch.zeros(2, 2, dtype=torch.float16, device="meta"), "meta"),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_named(format, case):
    dense, message = BAD_INPUT[case]
    with pytest.raises(ValueError, match=message):
        encode(dense, format)


@pytest.mark.parametrize("M, where", [(64, 0), (1000, 7)])
def test_many_negative_zeros_are_warned_of(M, where):
    dense = random_sparse(M, 96, 0.8)
    masked = torch.where(dense == 0, -0.0, dense)[where:]
    with pytest.warns(UserWarning, match=r"80% of the weights are -0.*dense \+ 0") as told:
        A = encode(masked, "tca_bme")
    assert told[0].filename == __file__ and same_bits(A.decode(), masked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encode(masked + 0, "tca_bme").nbytes < 0.5 * A.nbytes
        encode(masked, "dense")
        encode(dense.index_fill(1, torch.tensor([3]), -0.0), "tca_bme")  # a column of 96


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match=r"'ellpack'.*allowed: dense, csr"):
        encode(torch.zeros(2, 2, dtype=torch.float16), "ellpack")


@pytest.mark.parametrize("format", [name for name in FORMATS if name not in ("dense", "2:4")])
def test_offsets_beyond_32_bits_are_refused_with_their_size(format, monkeypatch):
    dense = random_sparse(256, 128, 0.0)
    monkeypatch.setattr(checks, "INT32_MAX", 1000)
    with pytest.raises(ValueError, match=r"\d{4,5} does not fit 32-bit indices \(at most 1000\)"):
        encode(dense, format)


def test_a_column_beyond_32_bits_is_refused(monkeypatch):
    monkeypatch.setattr(checks, "INT32_MAX", 98)
    with pytest.raises(ValueError, match="last column of A: 99"):
        encode(torch.zeros(1, 100, dtype=torch.float16), "csr")


def test_offsets_are_summed_in_64_bits():
    counts = torch.full((3,), 2**30, dtype=torch.int32)
    assert checks.offsets_from_counts(counts[:1], "x").tolist() == [0, 2**30]
    with pytest.raises(ValueError, match=f"x: {3 * 2**30} does not fit"):
        checks.offsets_from_counts(counts, "x")


@settings(max_examples=5, deadline=None)
@given(A=encodings("csr"))
def test_it_prints_shape_dtype_sparsity_and_size(A: SparseMatrix):
    M, K = A.shape
    assert f"<Csr {M}x{K} {str(A.dtype)[6:]}, " in repr(A)
    assert "% zeros, " in repr(A) and repr(A).endswith(" MB on cpu>")


@pytest.mark.parametrize("format, options", VARIANTS)
def test_inference_mode(format, options):
    dense = fitting(random_sparse(70, 70, 0.5), format)
    with torch.inference_mode():
        A = encode(dense.clone(), format, **options)
        assert same_bits(A.decode(), dense)
    assert same_bits(A.to("cpu").decode(), dense)


@pytest.mark.parametrize("format", FORMATS)
def test_copies_are_independent_and_valid(format):
    dense = fitting(random_sparse(40, 40, 0.5), format)
    A = encode(dense, format)
    copies = [A.clone(), copy.deepcopy(A)]
    for array in A.arrays.values():
        array.zero_()
    assert all(same_bits(B.decode(), dense) for B in copies)


def test_a_valid_encoding_is_not_validated_again(monkeypatch):
    A = encode(random_sparse(40, 40, 0.5), "csr")
    monkeypatch.setattr(Csr, "validate", lambda self: pytest.fail("validated again"))
    A.ensure_valid()
    A.decode()
    assert A.to("cpu") is A


def test_goes_to_devices_and_to_nothing_else():
    A = encode(random_sparse(64, 64, 0.5), "tca_bme")
    assert A.to("cpu") is A and A.to(torch.device("cpu")) is A
    for other in (torch.float32, torch.float16, "gpu", None, 1.5):
        with pytest.raises(ValueError, match=f"device={other!r}; allowed: a device of torch"):
            A.to(other)


def test_options_belong_to_their_format():
    dense = random_sparse(8, 8, 0.5)
    with pytest.raises(ValueError, match="reorder=True: no option of csr; allowed: none"):
        encode(dense, "csr", reorder=True)
    with pytest.raises(ValueError, match="tile=64: no option of tiled_csl; allowed: reorder"):
        encode(dense, "tiled_csl", tile=64)
    with pytest.raises(ValueError, match="reorder='yes'; allowed: True, False"):
        encode(dense, "tiled_csl", reorder="yes")
    with pytest.raises(ValueError, match=r"format=\['csr'\]: unknown"):
        encode(dense, ["csr"])
    assert isinstance(encode(random_sparse(8, 8, 0.5), "csr"), Csr)


def test_variants_are_encoded_as_a_format_would_not_choose():
    dense = random_sparse(64, 96, 0.8)
    pairs, packed = (encode_variant(dense, f"zero_row_24{end}") for end in ("", "_packed"))
    assert pairs.pairs and not packed.pairs
    assert [pairs.variant, packed.variant] == ["zero_row_24", "zero_row_24_packed"]
    assert encode(random_sparse(64, 96, 0.1), "zero_row_24").variant == "zero_row_24"  # packed, too
    assert encode_variant(dense, "csr").variant == "csr"
    for name in variants.VARIANTS:
        A = encode_variant(dense, name)
        assert A.variant == name and is_variant(A, name) and not is_variant(A, A.name)
    dense = random_sparse(64, 96, 0.1)
    chosen = encode(dense, "zero_row_24")  # packed, too
    assert is_variant(chosen, "zero_row_24") and is_variant(chosen, "zero_row_24_packed")
    assert not is_variant(pairs, "zero_row_24_packed") and is_variant(packed, packed.variant)
    assert not is_variant(chosen, "csr") and not is_variant(encode(dense, "csr"), chosen.name)
    for wrong in ("coo", ["csr"], None, Csr):
        with pytest.raises(ValueError, match=r"format=.*: unknown; allowed: dense.*_24_packed"):
            encode_variant(dense, wrong)
    with pytest.raises(ValueError, match="here: format='zero_row_24', streams='packed'"):
        encode(dense, "zero_row_24_packed")


def test_formats_and_options_can_be_checked_without_weights():
    assert {name: by_name(name) for name in FORMATS} == FORMATS
    for wrong in ("coo", ["csr"], [], None, Csr):
        with pytest.raises(ValueError, match=r"format=.*: unknown; allowed: dense, csr"):
            by_name(wrong)
    check_options(by_name("tiled_csl"), {"reorder": False})
    with pytest.raises(ValueError, match="reoder=1: no option of tiled_csl; allowed: reorder"):
        check_options(by_name("tiled_csl"), {"reoder": 1})


@pytest.mark.gpu
@pytest.mark.parametrize("format, options", VARIANTS)
def test_there_and_back_on_a_gpu(format, options):
    dense = fitting(random_sparse(200, 100, 0.5), format)
    A = encode(dense, format, **options)
    B = A.to("cuda")
    assert B.device.type == "cuda" and B.nnz == A.nnz
    B.validate()
    assert same_bits(B.decode().cpu(), dense) and same_bits(B.to("cpu").decode(), dense)
