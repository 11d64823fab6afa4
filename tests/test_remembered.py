"""What the first launch of an encoding finds is there for others once the GPU has it."""

import copy
import gc
import pickle
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from lab_utils import encode
from lab_utils.backends import remembered as remembered_module
from lab_utils.backends.remembered import MOST, memo_of, planned, prepared, remembered
from lab_utils.formats import SparseMatrix
from lab_utils.patterns import random_sparse


class Something:
    """Something that can be referred to weakly."""


def an_encoding(**changed: object) -> SimpleNamespace:
    arrays = {"second": torch.zeros(5), "first": torch.zeros(4)}  # in any order
    return SimpleNamespace(**{
        "name": "any", "ARRAYS": ("first", "second"), "arrays": arrays, "shape": (8, 8),
        "dtype": torch.half, "constants": (1,), "device": torch.device("cpu"),
        "validated": SimpleNamespace(memo=None),
    } | changed)  # fmt: skip


def again(A: SparseMatrix, **changed: object) -> SparseMatrix:
    """Another one of the same arrays, as compiled graphs make it."""
    shape, constants = changed.get("shape", A.shape), changed.get("constants", A.constants)
    return A.of_valid(shape, changed.get("dtype", A.dtype), A.arrays, constants)


def an_encoded() -> SparseMatrix:
    return encode(random_sparse(64, 64, 0.5), "tca_bme")


@pytest.fixture(name="A")
def fixture() -> SparseMatrix:
    return an_encoded()


def test_others_find_it_when_the_gpu_has_it(monkeypatch) -> None:
    A = an_encoding(device=torch.device("cuda"))
    made, waits = iter("abcd"), []

    def synchronize() -> None:
        """Another thread comes while the first one waits."""
        waits.append(1)
        if len(waits) == 1:
            assert remembered(A, "key", lambda: next(made)) == "b", "found before it was there"

    stream = SimpleNamespace(synchronize=synchronize, device=A.device)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    for set_it in ("set_device", "set_stream"):
        monkeypatch.setattr(torch.cuda, set_it, lambda one: None)
    monkeypatch.setattr("lab_utils.backends.remembered.is_captured", lambda device: capturing)
    capturing = False
    remembered(A, "key", lambda: next(made))
    assert len(waits) == 2
    assert remembered(A, "key", lambda: next(made)) in ("a", "b") and len(waits) == 2
    capturing = True
    with pytest.raises(RuntimeError, match="which a CUDA graph cannot capture"):
        remembered(A, "other", lambda: next(made))
    assert remembered(A, "key", lambda: next(made)) in ("a", "b")
    capturing = False
    assert remembered(A, "other", lambda: next(made)) == "c"


def test_a_memo_is_of_all_that_it_may_depend_on(A) -> None:
    memos = [memo_of(A), memo_of(again(A, shape=(64, 56))), memo_of(again(A, dtype=torch.bfloat16))]
    memos.append(memo_of(again(A, constants=(9,))))
    memos.append(memo_of(A.clone()))
    assert len({id(memo) for memo in memos}) == len(memos)
    assert memo_of(A) is memo_of(again(A)) is memos[0]
    assert memo_of(again(A, constants=(9,))) is memos[3]


def test_a_memo_is_of_arrays_as_they_are(A) -> None:
    memos = [memo_of(A)]

    def changed() -> bool:
        A.ensure_valid()
        memos.append(memo_of(A))
        return memos[-1] not in memos[:-1] and memo_of(again(A)) is memos[-1]

    values = A.arrays["values"]
    values.neg_()
    assert changed()
    A.arrays["values"] = values.clone()
    assert changed()
    A.arrays["values"] = (one := A.arrays["values"]).view(-1)  # its address, and count of writes
    assert A.arrays["values"]._version == one._version and changed()
    A.arrays["values"].data = values.clone()  # no write that torch counts
    assert changed()
    A.ensure_valid()
    assert memo_of(A) is memos[-1]


def test_another_thread_may_validate_meanwhile(A, monkeypatch) -> None:
    """What was found of arrays as they were stays with them."""
    before, shared = A.validated, remembered_module._shared

    def meanwhile(A: SparseMatrix) -> object:
        found = shared(A)
        A.arrays["values"].neg_()
        A.ensure_valid()
        return found

    monkeypatch.setattr(remembered_module, "_shared", meanwhile)
    assert memo_of(A) is before.memo and A.validated.memo is None
    monkeypatch.undo()
    assert memo_of(A) is A.validated.memo is not before.memo


def test_what_a_graph_may_launch_stays_after_a_write_and_goes_with_the_arrays() -> None:
    A = an_encoded()
    shares = weakref.ref(remembered(A, "key", Something))
    A.arrays["values"].neg_()
    A.ensure_valid()
    later = weakref.ref(remembered(A, "key", Something))
    gc.collect()
    assert shares() is not None and later() not in (None, shares())
    for of in (planned, prepared):
        plan = weakref.ref(of(A, "key", Something))
        A.arrays["values"].neg_()
        A.ensure_valid()
        memo_of(A)
        assert plan() is None, "what was planned for other arrays"
    arrays = A.arrays
    del A
    assert later() is not None
    del arrays
    assert shares() is None and later() is None


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda A: pickle.loads(pickle.dumps(A))]
)
def test_copies_have_none_of_their_own(A, copied) -> None:
    prepared(A, "key", Something)
    other = copied(A)
    assert other.validated is None
    other.ensure_valid()
    assert (memo_of(other) is memo_of(A)) == (other.arrays is A.arrays)


@pytest.mark.parametrize("of", [planned, prepared, remembered])
def test_what_fails_is_not_remembered(of) -> None:
    def fail() -> None:
        raise RuntimeError("not now")

    A = an_encoding()
    with pytest.raises(RuntimeError, match="not now"):
        of(A, "key", fail)
    assert of(A, "key", lambda: "now") == of(A, "key", fail) == "now"
    assert of(A, "none", lambda: None) is of(A, "none", fail) is None


def test_launches_made_while_a_graph_is_captured_are_made_anew(monkeypatch) -> None:
    monkeypatch.setattr("lab_utils.backends.remembered.is_captured", lambda device: capturing)
    capturing, made, A = False, iter("abcdef"), an_encoding(device=torch.device("cuda"))

    def found(key: str = "key") -> str:
        return prepared(A, key, lambda: next(made))

    assert [found(), found(), found("other"), found("other"), found()] == list("aabba")
    capturing = True
    assert [found(), found("third"), found("third")] == list("acd")
    capturing = False
    assert [found("third"), found("third")] == list("ee")


@pytest.mark.parametrize("of", [planned, prepared])
def test_threads_know_what_they_asked_for(of) -> None:
    """Also while others forget it."""
    A = an_encoding()

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
    A = an_encoding()
    made = [of(A, key, lambda key=key: key) for key in range(MOST + 1)]
    assert made == list(range(MOST + 1))
    assert [of(A, key, lambda: "anew") for key in (MOST, 1, 0)] == [MOST, 1, "anew"]
