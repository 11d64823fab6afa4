"""The watch ends a process whose peer is behind or silent for too long, and no other."""

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import Queue

import pytest
import torch.distributed as dist

from lab_utils.llm.watch import News, Peer, Watch

LIMIT_S = 1.5


@contextmanager
def ranks(world: int) -> Iterator[tuple[list[Watch], Queue]]:
    """Watches that share a store, and what they would have ended their processes with."""
    store, ended = dist.HashStore(), Queue()
    watches = [Watch(store, rank, world, LIMIT_S, ended.put) for rank in range(world)]
    with ThreadPoolExecutor(world) as pool, ExitStack() as contexts:
        list(pool.map(contexts.enter_context, watches))
        yield watches, ended


def test_the_last_rank_is_named_by_the_others() -> None:
    with ranks(3) as (watches, ended):
        for watch, passed in zip(watches, (7, 6, 5), strict=True):
            watch.passed = passed
        messages = sorted(ended.get(timeout=10 * LIMIT_S) for _ in range(2))
        time.sleep(LIMIT_S)
    for rank, message in enumerate(messages):
        assert message.startswith(f"rank {rank} ends, at point {7 - rank}, in _worker (thread.py:")
        named = message.splitlines()[1:]
        assert len(named) == 1 and named[0].startswith("rank 2 is behind: no further for 1.")
    assert ended.empty()


def test_a_rank_that_passes_points_is_waited_for() -> None:
    with ranks(2) as (watches, ended):
        watches[0].passed = 100
        for _ in range(6):
            watches[1].passed += 1
            time.sleep(LIMIT_S / 2)
    assert ended.empty()


def test_ranks_at_the_same_point_wait_for_none_of_them() -> None:
    with ranks(2) as (watches, ended):
        watches[0].passed = watches[1].passed = 5
        time.sleep(2 * LIMIT_S)
    assert ended.empty()


@pytest.mark.parametrize(("passed", "sooner"), [(0, True), (9, False)])
def test_a_silent_rank_is_named(passed: int, sooner: bool) -> None:
    """Sooner than one that is behind, unless it is ahead, where it may wait for this one."""
    with ranks(2) as (watches, ended):
        watches[1].passed = passed
        time.sleep(LIMIT_S / 3)
        watches[1].__exit__()
        message = ended.get(timeout=10 * LIMIT_S).splitlines()[1]
    start, seconds, end = re.split(r"([\d.]+) s, since \d\d:\d\d:\d\d", message)
    assert start == "rank 1 has died or hangs: silent for "
    assert (float(seconds) < LIMIT_S) == sooner
    assert end.startswith(f", at point {passed}, in ")


def test_nothing_is_left_after_the_context() -> None:
    before = set(threading.enumerate())
    with ranks(2) as (watches, ended):
        assert len(set(threading.enumerate()) - before) >= 4
        watches[0].passed = 3
    assert set(threading.enumerate()) <= before
    time.sleep(1.5 * LIMIT_S)
    assert ended.empty()


def test_seconds_are_looks() -> None:
    """A process that was stopped itself does not blame the others for that time."""
    peer = Peer("rank 1", News(0, 5, "here"))
    for news, passed, silent_s, behind_s in [
        (News(1, 5, "here"), 5, 0.0, 0.0),
        (News(2, 5, "here"), 6, 0.0, 0.5),
        (News(2, 5, "here"), 7, 0.5, 1.0),
        (News(3, 6, "there"), 7, 0.0, 0.0),
        (News(4, 6, "there"), 7, 0.0, 0.5),
        (News(5, 7, "there"), 7, 0.0, 0.0),
        (News(6, 9, "there"), 7, 0.0, 0.0),
    ]:
        peer.look(news, passed, beat_s=0.5)
        assert (peer.silent_s, peer.behind_s) == (silent_s, behind_s)
