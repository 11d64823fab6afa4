"""Tensor parallelism: one process per GPU, each with its share of every layer's four matrices.

    qkv [3H, H], fc1 [F, H]   cut by rows: each rank computes whole heads, and its own F/g features
    out [H, H],  fc2 [H, F]   cut by columns: each rank has a part of every sum, all_reduce adds up

That is two all_reduces of [tokens, H] for each layer (Flash-LLM section 5, FasterTransformer's
cut). Embedding, norms and head are whole on every rank. `torchrun` starts the processes.
"""

import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from lab_utils.llm.config import OPTConfig
from lab_utils.llm.watch import Watch

BY_ROWS = ("qkv", "fc1")
BY_COLUMNS = ("out", "fc2")
TIMEOUT_S = 120.0  # that a rank may be behind, or late at the start
LEAVE_S = 10.0  # that a rank which fails gives NCCL to end


@dataclass(frozen=True)
class Ranks:
    """This process among `world`; its collectives need `running` (or torch.distributed) around.

    `watch`: who counts the points that this process passes.
    """

    rank: int = 0
    world: int = 1
    watch: Watch | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank={self.rank}; allowed: 0 to world - 1 = {self.world - 1}")

    def passes(self) -> None:
        """Come to a point where ranks wait for one another: count it, if there is a watch."""
        if self.watch:
            self.watch.passed += 1

    def sum(self, x: Tensor) -> Tensor:
        """The sum of x over all ranks, in place, on each of them."""
        if self.world > 1:
            self.passes()
            dist.all_reduce(x)
        return x

    def first(self, x: Tensor) -> Tensor:
        """x as it is on rank 0, in place, on each rank."""
        if self.world > 1:
            self.passes()
            dist.broadcast(x, 0)
        return x

    def all_of(self, value: float, device: torch.device) -> list[float]:
        """The values that all ranks have, on each of them; the way leads over `device`."""
        values = torch.zeros(self.world, dtype=torch.float64, device=device)
        values[self.rank] = value
        return self.sum(values).tolist()


ALONE = Ranks()


def cut(
    name: str, weight: Tensor, bias: Tensor | None, ranks: Ranks
) -> tuple[Tensor, Tensor | None]:
    """The share of one rank in a matrix [M, K] and its bias [M]; views where they can be.

    `name`: qkv, out, fc1 or fc2. A bias that belongs to a sum over the ranks stays whole: each rank
    adds it to the sum. Raises ValueError for another name, and where `world` does not divide the
    rows or columns.
    """
    if name not in BY_ROWS + BY_COLUMNS:
        raise ValueError(f"name={name!r}; allowed: {', '.join(BY_ROWS + BY_COLUMNS)}")
    if name in BY_COLUMNS:
        return _part(weight, 1, ranks), bias
    blocks = 3 if name == "qkv" else 1  # q, k and v are cut each for itself
    rows = [_part(block, 0, ranks) for block in weight.chunk(blocks)]
    biases = [] if bias is None else [_part(block, 0, ranks) for block in bias.chunk(blocks)]
    if blocks == 1:
        return rows[0], biases[0] if biases else None
    return torch.cat(rows), torch.cat(biases) if biases else None


def _part(x: Tensor, dim: int, ranks: Ranks) -> Tensor:
    if x.shape[dim] % ranks.world:
        raise ValueError(f"world={ranks.world} must divide dimension {dim} of {tuple(x.shape)}")
    return x.chunk(ranks.world, dim)[ranks.rank]


@contextmanager
def running(
    config: OPTConfig, device: torch.device | str, timeout_s: float = TIMEOUT_S
) -> Iterator[Ranks]:
    """The ranks that `torchrun` started, joined by NCCL (cuda) or gloo (cpu); else this process.

    Raises ValueError, before any rank waits for another, where there are fewer GPUs than ranks, or
    the ranks do not divide the heads and the MLP of the model; DistError where a rank does not come
    within TIMEOUT_S. All leave the context together.
    Where another rank stays behind for more than `timeout_s`, or its process dies or is stopped,
    this process ends with a message (see `Watch`). A rank that fails leaves the group: with gloo
    the others' next collective fails, with NCCL `torchrun` ends them, or their watch; where NCCL
    does not let it go for LEAVE_S, its process ends there. NCCL ends a group only when no graph is
    left that holds a collective of it: let go of decoders inside.
    """
    world = _from_environment("WORLD_SIZE", 1, "1")
    config.share(world)
    if world == 1:
        yield ALONE
        return
    cuda = torch.device(device).type == "cuda"
    place = _own_gpu(_from_environment("LOCAL_RANK", 0)) if cuda else None
    # Or else NCCL registers what graphs sum, as if it were no part of an expandable segment.
    os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
    store, rank, _ = next(dist.rendezvous("env://", timeout=timedelta(seconds=TIMEOUT_S)))
    limit = timedelta(seconds=2 * timeout_s)  # so that the watch, which says more, comes first
    group = {"store": store, "rank": rank, "world_size": world, "timeout": limit}
    dist.init_process_group("nccl" if cuda else "gloo", device_id=place, **group)
    try:
        with Watch(store, rank, world, timeout_s) as watch:
            yield (ranks := Ranks(rank, world, watch))
            ranks.all_of(0.0, torch.device(device))
    except BaseException as error:
        if cuda:
            _let_go(error)
            _end(error, _abort)
        else:
            dist.destroy_process_group()
        raise
    gc.collect()  # graphs that only cycles hold
    dist.destroy_process_group()


def _abort() -> None:
    """Leave NCCL's group; ending it in good order would wait for ranks that wait for this one."""
    dist.group.WORLD.abort()
    dist.destroy_process_group()


def _end(error: BaseException, leave: Callable[[], None]) -> None:
    """Call `leave`; where it has not returned after LEAVE_S, tell the error and end the process.

    NCCL waits for graphs that hold a collective, whoever has them, and `torchrun` for this process.
    """
    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    leaving.join(LEAVE_S)
    if leaving.is_alive():
        traceback.print_exception(error)
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(1)


def _let_go(error: BaseException | None) -> None:
    """Forget what the functions had that `error` ended: graphs, for which NCCL would wait."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _from_environment(name: str, least: int, otherwise: str = "") -> int:
    found = os.environ.get(name, otherwise)
    if not found.isdecimal() or int(found) < least:
        what = f"what torchrun sets it to, an integer from {least}"
        raise ValueError(f"{name}={found!r}; allowed: {what}")
    return int(found)


def _own_gpu(local_rank: int) -> torch.device:
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise ValueError(f"LOCAL_RANK={local_rank}; allowed: below {count}, the GPUs of this host")
    place = torch.device("cuda", local_rank)
    torch.cuda.set_device(place)
    return place
