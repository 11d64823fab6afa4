"""2:4 and SparTA against slow readings of their drawings, and CSR against torch's."""

import pytest
import torch
from hypothesis import given, settings
from matrices import matrices, same_bits, two_of_four
from torch import Tensor

from lab_utils.formats import SparTA, TwoFour, encode
from lab_utils.patterns import random_sparse


def slow_group(group: list[int]) -> tuple[list[int], int]:
    """The two stored values of four, and their indices as 4 bits."""
    nonzero = [c for c in range(4) if group[c]][:2]
    free = [c for c in range(4) if not group[c]]
    first, second = sorted(nonzero + free[len(free) - 2 + len(nonzero) :])
    return [group[first], group[second]], first | second << 2


def slow_encode(dense: Tensor) -> tuple[list[int], list[int]]:
    padded = torch.nn.functional.pad(dense.view(torch.int16), (0, -dense.shape[1] % 8))
    values, nibbles = [], []
    for group in padded.reshape(-1, 4).tolist():
        pair, nibble = slow_group(group)
        values += pair
        nibbles.append(nibble)
    pairs = zip(nibbles[::2], nibbles[1::2], strict=True)
    return values, [low | high << 4 for low, high in pairs]


@settings(max_examples=60, deadline=None)
@given(dense=matrices())
def test_two_four_holds_values_and_columns_as_drawn(dense):
    kept = two_of_four(dense)
    A = TwoFour.encode(kept)
    values, indices = slow_encode(kept)
    assert A.arrays["values"].view(torch.int16).tolist() == values
    assert A.arrays["indices"].tolist() == indices


@pytest.mark.parametrize("nonzero", [{0, 1, 2}, {1, 2, 3}, {0, 1, 2, 3}])
def test_the_first_overfull_group_is_named(nonzero):
    dense = torch.zeros(9, 30, dtype=torch.float16)
    dense[5, [12 + c for c in nonzero]] = 1.0
    dense[6:] = 1.0
    with pytest.raises(ValueError, match=r"in row 5, group 3 \(columns 12 to 15\)"):
        TwoFour.encode(dense)


def test_an_overfull_group_at_a_ragged_edge_is_named():
    with pytest.raises(ValueError, match=r"row 0, group 1 \(columns 4 to 6\)"):
        TwoFour.encode(torch.tensor([[1, 0, 0, 0, 1, 1, 1]], dtype=torch.bfloat16))


def test_a_non_zero_right_of_the_last_column_is_found():
    A = TwoFour.encode(torch.zeros(2, 8, dtype=torch.float16))
    A.arrays["values"][-1] = 1.0  # at column 7
    with pytest.raises(ValueError, match="row 1, group 1 has a non-zero right of the last column"):
        TwoFour((2, 7), A.dtype, A.arrays)


@settings(max_examples=40, deadline=None)
@given(dense=matrices())
def test_sparta_is_the_first_two_of_each_group_and_csr_of_the_rest(dense):
    A = encode(dense, "sparta")
    first = two_of_four(dense)
    assert same_bits(A.two_four.decode(), first)
    rest = dense.masked_fill(first.view(torch.int16) != 0, 0)
    assert same_bits(A.csr.decode(), rest)
    assert A.nnz == A.two_four.nnz + A.csr.nnz


def test_sparta_refuses_parts_that_share_a_place():
    dense, other = random_sparse(8, 8, 0.2), random_sparse(8, 8, 0.8, seed=1)
    arrays = encode(dense, "sparta").arrays
    arrays |= {f"csr_{name}": array for name, array in encode(other, "csr").arrays.items()}
    with pytest.raises(ValueError, match="has a csr entry that is not right of two"):
        SparTA((8, 8), dense.dtype, arrays)


@pytest.mark.parametrize("name, part", [("two_four_indices", "2:4"), ("csr_col_idx", "csr")])
def test_a_bad_part_of_sparta_is_named(name, part):
    A = encode(torch.ones(4, 4, dtype=torch.float16), "sparta")
    A.arrays[name].zero_()
    with pytest.raises(ValueError, match=rf"its \w+_\* arrays: invalid {part} encoding"):
        A.validate()


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 1.0])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_csr_is_what_torch_calls_csr(sparsity):
    dense = random_sparse(90, 130, sparsity)
    A, theirs = encode(dense, "csr").arrays, dense.to_sparse_csr()
    assert torch.equal(A["row_ptr"], theirs.crow_indices().int())
    assert torch.equal(A["col_idx"], theirs.col_indices().int())
    assert same_bits(A["values"], theirs.values())


BAD_CSR = {
    "falls": ("row_ptr", 1, 99, "row 0 has a row_ptr that falls, or points out"),
    "start": ("row_ptr", 0, 1, "row_ptr starts at 1, not at 0"),
    "end": ("row_ptr", -1, 3, "row_ptr ends at 3, not at 4"),
    "range": ("col_idx", 3, 2, "row 1 has a col_idx out of"),
    "negative": ("col_idx", 0, -1, "row 0 has a col_idx out of"),
    "order": ("col_idx", 0, 1, "row 0 has col_idx that do not increase"),
}


@pytest.mark.parametrize("case", BAD_CSR)
def test_a_bad_csr_is_named(case):
    name, at, value, message = BAD_CSR[case]
    A = encode(torch.ones(2, 2, dtype=torch.float16), "csr")
    A.arrays[name][at] = value
    with pytest.raises(ValueError, match=message):
        A.validate()
