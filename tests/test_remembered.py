"""What the first launch of an encoding finds is there for others once the GPU has it."""

import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from lab_utils.backends.remembered import MOST, planned, prepared, remembered


class OnGpu(torch.Tensor):
    """Claims to be on a GPU."""

    is_cuda = True


def test_others_find_it_when_the_gpu_has_it(monkeypatch) -> None:
    starts = torch.zeros(4).as_subclass(OnGpu)
    A = SimpleNamespace(name="any", ARRAYS=("chunk_start",), arrays={"chunk_start": starts})
    made, waits = iter("abcd"), []

    def synchronize() -> None:
        """Another thread comes while the first one waits."""
        waits.append(1)
        if len(waits) == 1:
            assert remembered(A, "key", lambda: next(made)) == "b", "found before it was there"

    stream = SimpleNamespace(synchronize=synchronize)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    remembered(A, "key", lambda: next(made))
    assert len(waits) == 2
    assert remembered(A, "key", lambda: next(made)) in ("a", "b") and len(waits) == 2
    assert remembered(A, "other", lambda: next(made)) == "c"
    starts.add_(1)
    assert remembered(A, "key", lambda: next(made)) == "d"


def test_a_plan_is_of_all_that_it_may_depend_on() -> None:
    first, more = torch.zeros(4), {"name": "any", "ARRAYS": ("first", "second")}
    one = {"shape": (8, 8), "dtype": torch.half, "constants": (1,)} | more
    others = [{"shape": (8, 9)}, {"dtype": torch.bfloat16}, {"constants": (2,)}, {"name": "other"}]
    made = iter(range(99))

    def found(key: str = "key", size: int = 5, **changed: object) -> int:
        arrays = {"second": torch.zeros(size), "first": first}  # in any order
        return planned(SimpleNamespace(arrays=arrays, **one | changed), key, lambda: next(made))

    plans = [found(), found("other"), found(size=6), *(found(**other) for other in others)]
    again = [found(), found("other"), found(size=6), *(found(**other) for other in others)]
    assert plans == again == list(range(7))


def test_a_plan_that_fails_is_not_remembered_and_goes_with_its_encoding() -> None:
    def fail() -> None:
        raise RuntimeError("not now")

    class Plan:
        """Something that can be referred to weakly."""

    A = SimpleNamespace(ARRAYS=("only",), arrays={"only": torch.zeros(4)}, name="any",
                        shape=(8, 8), dtype=torch.half, constants=())  # fmt: skip
    with pytest.raises(RuntimeError, match="not now"):
        planned(A, "key", fail)
    plan = weakref.ref(planned(A, "key", Plan))
    assert plan() is not None
    del A
    assert plan() is None


def test_a_launch_is_of_the_arrays_as_they_are_and_goes_with_them(monkeypatch) -> None:
    """Whatever there was before at the same address; while a graph is captured it is made anew."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    capturing, made = False, iter("abcdefghijkl")
    arrays = {"first": torch.zeros(4).as_subclass(OnGpu), "second": (second := torch.zeros(4))}
    A = SimpleNamespace(
        name="any", shape=(8, 8), dtype=torch.half, ARRAYS=("first", "second"), arrays=arrays,
        constants=(1,),
    )  # fmt: skip

    def found(key: str = "key") -> str:
        return prepared(A, key, lambda: next(made))

    assert [found(), found(), found("other"), found("other"), found()] == list("aabba")
    arrays["second"].add_(1)
    assert [found("other"), found("other"), found()] == list("ccd")
    arrays["second"] = second.new_zeros(4).add_(1)  # of the same count of writes
    assert [found(), found()] == list("ee")
    arrays["second"] = second.view(4)  # at the same address, with the same count
    assert [found(), found()] == list("ff")
    A.constants = (2,)
    assert [found(), found()] == list("gg")
    capturing = True
    assert [found(), found("other"), found("other")] == list("ghi")
    capturing = False
    assert found("other") == "j"

    class Launch:
        """Something that can be referred to weakly."""

    launch = weakref.ref(prepared(A, "third", Launch))
    assert launch() is not None
    arrays.clear()
    assert launch() is None


@pytest.mark.parametrize("of", [planned, prepared])
def test_threads_know_what_they_asked_for(of) -> None:
    """Also while others forget it."""
    A = SimpleNamespace(ARRAYS=("only",), arrays={"only": torch.zeros(4)}, name="any",
                        shape=(8, 8), dtype=torch.half, constants=())  # fmt: skip

    def ask(first: int) -> bool:
        keys = [(first * 7 + i) % (MOST + 6) for i in range(2000)]
        return all(of(A, key, lambda key=key: key) == key for key in keys)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask, range(4)))
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("of", [planned, prepared])
def test_the_last_ones_are_known(of) -> None:
    A = SimpleNamespace(ARRAYS=("only",), arrays={"only": torch.zeros(4)}, name="any",
                        shape=(8, 8), dtype=torch.half, constants=())  # fmt: skip
    made = [of(A, key, lambda key=key: key) for key in range(MOST + 1)]
    assert made == list(range(MOST + 1))
    assert [of(A, key, lambda: "anew") for key in (MOST, 1, 0)] == [MOST, 1, "anew"]
