"""2:4 in strips, words for each lane: entries that are not in use, damaged."""

from collections.abc import Callable

import torch
from lane_24_slow import STEPS

from lab_utils.formats import Lane24Strips


def clear(data: torch.Tensor, step: int, place: int, column: int) -> None:
    """Make a near step's entry one that is not in use, with this column."""
    at = STEPS + 40 * step
    value = at + place // 2 * 8 + place % 2 * 2
    data[value : value + 2] = data[value + 4 : value + 6] = 0
    data[at + 32 + place] = column


def of_row_0(groups: int) -> Lane24Strips:
    """Its first chunk has two entries in each of so many groups of a row, which forbids fours."""
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[1:16] = torch.tensor([1, 0, 0, 1]).repeat(64)  # so that every line pays
    dense[0, : 4 * groups] = 1
    return Lane24Strips.encode(dense)


def damaged(A: Lane24Strips, damage: Callable[[torch.Tensor], None]) -> dict[str, torch.Tensor]:
    """The arrays, after `damage` to the data."""
    data = A.arrays["data"].clone()
    damage(data)
    return {**A.arrays, "data": data}


def hole(data: torch.Tensor) -> None:
    clear(data, 0, 1, int(data[STEPS + 32]))


def first_step_without_entries(data: torch.Tensor) -> None:
    for place in range(8):
        clear(data, 0, place, 200)


def wrong_column_of_the_last_step(data: torch.Tensor) -> None:
    data[STEPS + 40 * 3 + 37] ^= 1


# Groups with two entries, of which 9 have three steps and an empty one, 16 four full ones; damage.
UNUSED = ((9, hole), (16, first_step_without_entries), (9, wrong_column_of_the_last_step))
