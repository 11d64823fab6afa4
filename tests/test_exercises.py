"""The exercises of notebook 23: right answers pass, wrong ones hear why, none is no failure."""

import pytest

from lab_utils.ladder import exercises


def test_the_start_is_no_failure_and_says_what_is_wrong(capsys) -> None:
    exercises.check_bank(lambda location: None)
    exercises.check_swizzle(exercises.START_PLACE)
    exercises.check_wait(exercises.START_PENDING)
    bank, swizzle, wait = capsys.readouterr().out.splitlines()
    assert bank.startswith("Your turn. As it stands: bank(0) is None")
    assert "ldmatrix takes 128 wavefronts; 16 could carry the same bytes" in swizzle
    assert "may still be writing: no wait between" in wait


def test_solutions_are_right(capsys) -> None:
    exercises.check_bank(exercises._solved_bank)
    exercises.check_swizzle(exercises.SOLVED_PLACE)
    exercises.check_wait(exercises.SOLVED_PENDING)
    assert [line[:7] for line in capsys.readouterr().out.splitlines()] == ["Right: "] * 3


def test_other_right_answers_are_right_too(capsys) -> None:
    exercises.check_bank(lambda location: 31 - location % 64 // 2)  # the same banks, renamed
    exercises.check_swizzle("row * 72 + col")  # padding
    assert capsys.readouterr().out.count("Right: ") == 2


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (lambda location: location % 32, "your banks make"),
        (lambda location: location // 4 % 32, "your banks make"),
        (lambda location: location // 2, "a bank is a whole number from 0 to 31"),
        (lambda location: location / 2, "a bank is a whole number from 0 to 31"),
    ],
)
def test_wrong_banks(bank, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        exercises.check_bank(bank)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("row * 64 + (col ^ 8 * (row % 4))", "ldmatrix takes 32 wavefronts; 16 could"),
        ("row * 32 + col", "a race"),
        ("row * 80 + col + 1", "misaligned"),
        ("row * 128 + col", "out of bounds"),
    ],
)
def test_wrong_swizzles(place: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        exercises.check_swizzle(place)


def test_what_does_not_compile_is_shown() -> None:
    with pytest.raises(AssertionError, match=r"'row \+ \)' is no C\+\+ of row and col: expected"):
        exercises.check_swizzle("row + )")


def test_a_division_by_zero_ends_nothing_else() -> None:
    with pytest.raises(AssertionError, match="'64 / row' divides by zero for some row and col"):
        exercises.check_swizzle("64 / row")


@pytest.mark.parametrize(
    ("pending", "message"),
    [(0, "nothing overlaps"), (3, "no wait between"), (-1, "allowed: 0 to 7"), ("1", "allowed")],
)
def test_wrong_waits(pending: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        exercises.check_wait(pending)


def test_kernels_are_shown_whole() -> None:
    for name in ("swizzle", "wait"):
        text = exercises.kernel(name)
        assert f"__global__ void {name}(" in text and text.endswith("}") and "LSCD" not in text
