"""What tests run in several processes: a file of its own, since each process imports it anew."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.multiprocessing as mp
from opt_models import prompts, pruned, random_model, share, sparse

from lab_utils.llm import OPT, OPTConfig, generate
from lab_utils.llm.generate import Decoder
from lab_utils.llm.parallel import Ranks, running
from lab_utils.llm.prompts import Prompts

LONG_S = 100.0  # processes start one after the other on a busy machine
POST_NORM = {"norm_first": False, "final_norm": False, "embed": 24}  # like OPT-350M
CHANCE = {"temperature": 1.0, "top_p": 0.95}
FORMATS = {"float16": "tca_bme", "bfloat16": "tiled_csl"}
SIGNALS = {"is stopped": signal.SIGSTOP, "is killed": signal.SIGKILL}


def start(
    world: int, job: Callable, config: OPTConfig, *arguments, device="cpu", timeout_s=LONG_S
) -> list:
    """Processes that run `job(ranks, *arguments)` in a group, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    context, processes = mp.get_context("spawn"), []
    for rank in range(world):
        environment = {**group, "RANK": rank, "LOCAL_RANK": rank}
        one = (environment, (config, device, timeout_s), job, arguments)
        processes.append(context.Process(target=_one, args=one))
        processes[-1].start()
    return processes


def joined(processes: list) -> None:
    """They have ended, each without an error."""
    for process in processes:
        process.join(3 * LONG_S)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def _one(environment: dict, group: tuple, job: Callable, arguments: tuple) -> None:
    torch.set_num_threads(1)
    os.environ |= {name: str(value) for name, value in environment.items()}
    with running(*group) as ranks:
        job(ranks, *arguments)


def models() -> dict[str, OPT]:
    """The models that are cut: dense in fp32, and with pruned matrices in 16 bits."""
    made = {"dense": random_model(), "post-norm": random_model(**POST_NORM)}
    for dtype in FORMATS:
        made[dtype] = pruned(random_model(getattr(torch, dtype), 0.1), 0.6)
    return made


@torch.inference_mode()
def compute(ranks: Ranks, folder: Path, device: str = "cpu") -> None:
    """Write this rank's logits and tokens of every model."""
    found = {}
    for name, model in models().items():
        part = share(model, ranks).to(device)
        if name in FORMATS:
            part = sparse(part, FORMATS[name])
        tokens = generate(part, prompts(), 10)
        drawn = generate(part, prompts(), 10, **CHANCE)  # each rank with a seed of its own
        logits = part(prompts().to(device))
        found[name] = {"logits": logits.cpu(), "tokens": tokens.cpu(), "drawn": drawn.cpu()}
    torch.save(found, folder / f"{ranks.rank}.pt")


def decode_alone(
    ranks: Ranks, folder: Path, away: int, how: str, seconds: float = 600, device: str = "cpu"
) -> None:
    """Rank `away` goes away amid a generation, which the others go on with."""
    model = share(random_model(), ranks).to(device)
    asked = Prompts.of(prompts(), model.config, 30, model.device)
    decoder = Decoder(model, 3, 40)
    decoder.rehearse(asked, 30)
    (folder / f"{ranks.rank}").touch()
    decoder.run(asked, 5).tolist()
    if ranks.rank == away:
        go_away(how, seconds)
    decoder.run(asked, 30).tolist()


def go_away(how: str, seconds: float) -> None:
    if how == "fails":
        raise RuntimeError("this rank fails")
    if how in SIGNALS:
        os.kill(os.getpid(), SIGNALS[how])
    time.sleep(seconds)
