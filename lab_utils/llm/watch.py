"""A watch over the ranks: none waits for ever for another that stays away.

    rank 0   830 points   in tolist (generate.py:98)      ahead: it waits for rank 1
    rank 1   812 points   in read (hugging_face.py:124)   behind: it has `timeout_s` to come further

All ranks run one program, so they pass the same points: collectives that Python calls, and steps,
whose graphs hold others. Each rank tells in a store how many it has passed, and hears the others.
It ends its process where another is *behind* for too long, whatever that one does, or is *silent*:
has died, is stopped, or does not let Python's threads run. It does so from a thread, and at once:
what waits in a library or for a GPU cannot be interrupted.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from traceback import walk_stack
from typing import NamedTuple

import torch.distributed as dist

BEAT_S = 1.0  # between two looks, of which a limit has ten or more
SILENT_S = 20.0  # without news of one that waits for nobody
FRAMES = 6  # of Python's stack, the innermost first, that say where a rank is
STORE = "rank 0 or torchrun, which keeps the store of the ranks,"


class News(NamedTuple):
    """What a rank tells: for which time, how many points it has passed, and where it is."""

    beat: int
    passed: int
    where: str

    @property
    def place(self) -> str:
        return f"at point {self.passed}, in {self.where}"


@dataclass
class Peer:
    """A rank as another one sees it, whose looks are the clock: stopped itself, it counts none."""

    name: str
    news: News
    silent_s: float = 0.0  # since it told something
    behind_s: float = 0.0  # since it passed a point, or was not behind

    def look(self, news: News, passed: int, beat_s: float) -> None:
        """Take in what it tells `beat_s` later, when the other has `passed` so many points."""
        stays = self.news.passed == news.passed < passed
        self.behind_s = self.behind_s + beat_s if stays else 0.0
        self.silent_s = self.silent_s + beat_s if self.news.beat == news.beat else 0.0
        self.news = news

    @property
    def gone(self) -> str:
        return f"{self.name} has died or hangs: silent {_for(self.silent_s)}, {self.news.place}"

    @property
    def late(self) -> str:
        return f"{self.name} is behind: no further {_for(self.behind_s)}, {self.news.place}"


def end_process(message: str) -> None:
    """End this process with exit code 1; nothing is waited for, not even the lock of a stream."""
    os.write(2, f"{message}\n".encode())
    os._exit(1)


class Watch:
    """Watches, within its context, over the `world` ranks that share `store`.

    A rank may be behind for `timeout_s` seconds, and silent for as long; where it is among the
    last, and so waits for nobody, silent for half of them and SILENT_S at most. Then `end` hears,
    once, which rank it is, since when, and where it and this one are: in which functions the thread
    is that entered the context. `passed` is to be counted up at each point.
    Raises DistStoreError where a rank does not enter within the time that the store allows.
    """

    def __init__(self, store: dist.Store, rank: int, world: int, timeout_s: float,
                 end: Callable[[str], object] = end_process):  # fmt: skip
        self.rank, self.passed, self.timeout_s = rank, 0, timeout_s
        self._store = dist.PrefixStore("watch", store).clone()  # has a connection of its own
        self._keys = [f"rank {one}" for one in range(world)]
        self._beat_s, self._end = min(BEAT_S, timeout_s / 10), end
        self._over = threading.Event()

    def __enter__(self) -> "Watch":
        self._watched = threading.get_ident()
        self._news = self._exchanged(0)
        # Two, since a store whose process is stopped never lets go of who asks.
        self._threads = [threading.Thread(target=do, daemon=True) for do in (self._ask, self._look)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(BEAT_S)

    def _own(self, beat: int) -> News:
        return News(beat, self.passed, _where(self._watched))

    def _exchanged(self, beat: int) -> list[News]:
        """What all ranks tell, this one included, once each has told something."""
        self._store.set(self._keys[self.rank], json.dumps(self._own(beat)))
        return [News(*json.loads(told)) for told in self._store.multi_get(self._keys)]

    def _ask(self) -> None:
        for beat in count(1):
            if self._over.wait(self._beat_s):
                return
            try:
                self._news = self._exchanged(beat)
            except dist.DistError:  # there is no store any more: all are silent, this rank as well
                return

    def _look(self) -> None:
        peers = [Peer(*one) for one in zip(self._keys, self._news, strict=True)]
        while not self._over.wait(self._beat_s):
            news = self._news
            for peer, told in zip(peers, news, strict=True):
                peer.look(told, news[self.rank].passed, self._beat_s)
            if away := self._away(peers):
                return self._end(f"rank {self.rank} ends, {self._own(0).place}, because:\n{away}")

    def _away(self, peers: list[Peer]) -> str:
        """What is to be said of ranks that are away for too long; nothing where none is."""
        soon, me = min(SILENT_S, self.timeout_s / 2), peers[self.rank]
        if me.silent_s >= soon:
            return f"{STORE} has died or hangs: silent {_for(me.silent_s)}"
        fewest = min(one.news.passed for one in peers)
        last = [one for one in peers if one.news.passed == fewest]
        # The others may wait for these in a kernel's launch, which keeps Python from its threads.
        silent = [one for one in last if one.silent_s >= soon + 2 * self._beat_s]
        silent += [one for one in peers if one.silent_s >= self.timeout_s and one not in silent]
        late = [one.late for one in last if one.behind_s >= self.timeout_s]
        return "\n".join([one.gone for one in silent] or late)


def _for(seconds: float) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
    return f"for {seconds:.1f} s, since {clock}"


def _where(thread: int) -> str:
    """The functions that a thread is in."""
    frames = islice(walk_stack(sys._current_frames()[thread]), FRAMES)
    calls = ((one.f_code.co_name, Path(one.f_code.co_filename).name, line) for one, line in frames)
    return " < ".join(f"{name} ({file}:{line})" for name, file, line in calls)
