"""What kernels read of B."""

import pytest
import torch
from torch import Tensor

from lab_utils.backends.launch import ALIGN, aligned_columns, copies

WIDE = torch.arange(64 * 40).half().view(40, 64).T  # columns one behind the other, as activations


@pytest.mark.parametrize(
    ("B", "view"),
    [
        (WIDE, True),
        (WIDE[:50], True),
        (WIDE[8:], True),
        (WIDE[1:], False),  # not on 16 bytes
        (WIDE[:63, :1], False),  # of a single column 16 bytes more are read
        (WIDE[:, :1].expand(64, 9), False),  # the same column again and again
        (WIDE[:32, :1].as_strided((32, 9), (1, 16)), False),  # columns that share rows
        (WIDE[:, ::2], True),
        (WIDE[::2], False),
        (WIDE.contiguous(), False),
    ],
)
def test_columns_begin_on_16_bytes_one_behind_the_other(B: Tensor, view: bool) -> None:
    memory, pitch = aligned_columns(B)
    assert torch.equal(memory.as_strided(B.shape, (1, pitch)), B)
    assert (memory is B) == view
    assert pitch % ALIGN == 0 and pitch >= B.shape[0]
    assert memory.data_ptr() % 16 == 0


def test_the_pitch_of_a_single_column_is_its_own() -> None:
    """Whatever the stride of a dimension of one element says."""
    B = torch.arange(64).half().as_strided((64, 1), (1, 3))
    memory, pitch = aligned_columns(B)
    assert memory is B and pitch == 64


@pytest.mark.parametrize("K", [1, 50, 64, 65, 128])
def test_whole_blocks_of_rows_have_zeros_behind(K: int) -> None:
    """A view where K is a multiple, whatever its pitch; else a copy, as long as the blocks."""
    rows = torch.arange(1, 136 * 9 + 1).half().view(9, 136)
    B = rows.T[:K]  # behind K are others' numbers
    memory, pitch = aligned_columns(B, 64)
    whole = -(-K // 64) * 64
    assert (memory is B) == (K % 64 == 0)
    columns = memory.as_strided((9, whole), (pitch, 1))
    assert torch.equal(columns[:, :K], B.T) and pitch >= whole
    assert not columns[:, K:].any()
    assert (copies(B, 64) == {}) == (K % 64 == 0) and copies(B, 1) == {}
    if K % 64:
        assert f"it has {K} rows, of which" in copies(B, 64)["copies"]


@pytest.mark.parametrize(
    ("B", "said"),
    [
        (WIDE, None),
        (WIDE[:, :1], None),
        (WIDE[1:], "B before the kernel: its columns are not contiguous on 16 bytes"),
        (WIDE.contiguous(), "B before the kernel, and C behind it: its columns are not"),
    ],
)
def test_a_plan_tells_what_is_copied(B: Tensor, said: str | None) -> None:
    found = copies(B)
    assert found == {} if said is None else found["copies"].startswith(said)
