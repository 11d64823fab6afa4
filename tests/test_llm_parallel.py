"""Several ranks compute what one does; none waits for ever for another."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from opt_models import config, prompts, random_model, share
from opt_ranks import (
    LONG_S,
    SIGNALS,
    compute,
    decode_alone,
    joined,
    models,
    start,
)

from lab_utils.llm import OPT, OPTConfig, generate
from lab_utils.llm.parallel import Ranks, cut, running

FP32 = {"rtol": 1e-4, "atol": 1e-4}
LIMIT_S = 3.0  # that a rank may be behind


@pytest.fixture(scope="module")
def expected() -> dict[str, dict[str, torch.Tensor]]:
    """What one process computes, with dense matrices."""
    with torch.inference_mode():
        return {
            name: {"logits": model(prompts()), "tokens": generate(model, prompts(), 10)}
            for name, model in models().items()
        }


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_compute_what_one_process_does(world: int, tmp_path, expected) -> None:
    joined(start(world, compute, config(), tmp_path))
    compare(tmp_path, world, expected)


@pytest.fixture
def two_gpus() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 GPUs; here: {torch.cuda.device_count()}")


@pytest.mark.gpu
def test_gpus_compute_what_one_process_does(two_gpus, tmp_path, expected) -> None:
    """NCCL, its sums captured in the graphs of the steps."""
    joined(start(2, compute, config(), tmp_path, "cuda", device="cuda"))
    compare(tmp_path, 2, expected)


def compare(folder: Path, world: int, expected: dict) -> None:
    """All ranks have the same bits, and what one process computed."""
    ranks = [torch.load(folder / f"{rank}.pt") for rank in range(world)]
    for name, alone in expected.items():
        for found in ranks:
            for what in ("logits", "tokens", "drawn"):
                assert torch.equal(found[name][what], ranks[0][name][what]), (name, what)
        check(ranks[0][name], alone, name)


def check(found: dict[str, torch.Tensor], alone: dict[str, torch.Tensor], name: str) -> None:
    """fp32: to rounding, and token for token; 16 bits: within a few of their roundings."""
    if found["logits"].dtype == torch.float32:
        torch.testing.assert_close(found["logits"], alone["logits"], **FP32)
        assert torch.equal(found["tokens"], alone["tokens"]), name
        return
    logits, exact = found["logits"].float(), alone["logits"].float()
    error = (logits - exact).norm() / exact.norm()
    assert error < 4 * torch.finfo(found["logits"].dtype).eps, name


@pytest.mark.parametrize(
    ("away", "how", "told"),
    [
        (1, "fails", "RuntimeError: this rank fails"),
        (1, "sleeps", "rank 1 is behind: no further for"),
        (1, "is stopped", "rank 1 has died or hangs: silent for"),
        (0, "is stopped", "rank 0 or torchrun, which keeps the store of the ranks, has died or"),
        (1, "is killed", "RuntimeError: "),  # gloo sees it before the watch does
    ],
)
def test_no_rank_waits_for_ever(away: int, how: str, told: str, tmp_path, capfd) -> None:
    processes = start(2, decode_alone, config(), tmp_path, away, how, timeout_s=LIMIT_S)
    check_ended(processes, tmp_path, [1 - away] if how in SIGNALS else [0, 1])
    assert told in capfd.readouterr().err


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("fails", "RuntimeError: this rank fails"),
        ("sleeps", "rank 1 is behind: no further for"),
        ("is stopped", "rank 1 has died or hangs: silent for"),
        ("is killed", "rank 1 has died or hangs: silent for"),
    ],
)
def test_no_gpu_waits_for_ever(two_gpus, how: str, told: str, tmp_path, capfd) -> None:
    """Though NCCL would: its sums are in graphs."""
    job = (decode_alone, config(), tmp_path, 1, how, 600, "cuda")
    processes = start(2, *job, device="cuda", timeout_s=4 * LIMIT_S)
    check_ended(processes, tmp_path, [0] if how in SIGNALS else [0, 1])
    assert told in capfd.readouterr().err


def check_ended(processes: list, folder: Path, ranks: list[int]) -> None:
    """These ranks end themselves, with an error."""
    with under_way(processes, folder):
        for rank in ranks:
            processes[rank].join(LONG_S / 2)
            assert processes[rank].exitcode not in (None, 0), rank


def test_a_slow_rank_is_waited_for(tmp_path, capfd) -> None:
    """Longer than it could be silent, not as long as it may be behind."""
    joined(start(2, decode_alone, config(), tmp_path, 1, "sleeps", 2.0, timeout_s=LIMIT_S))
    assert "ends" not in capfd.readouterr().err


def test_a_process_that_nccl_does_not_let_go_ends() -> None:
    """Told by its error, and with an exit code that `torchrun` sees."""
    waits = "import time; from lab_utils.llm import parallel; parallel.LEAVE_S = 0.1; "
    waits += "parallel._end(RuntimeError('this rank fails'), lambda: time.sleep(600))"
    ended = subprocess.run([sys.executable, "-c", waits], capture_output=True, text=True)
    assert ended.returncode == 1 and "RuntimeError: this rank fails" in ended.stderr


@contextmanager
def under_way(processes: list, folder: Path) -> Iterator[None]:
    """Both have left their file in `folder`; whatever comes of them, none is left behind."""
    limit = time.monotonic() + LONG_S
    try:
        while len(list(folder.iterdir())) < 2:
            assert processes[0].is_alive(), "rank 0 failed before there was a group"
            assert time.monotonic() < limit, "rank 1 failed before there was a group"
            time.sleep(0.1)
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def test_cut_parts_make_the_whole() -> None:
    whole = random_model().layers[0]
    for name in ("qkv", "out", "fc1", "fc2"):
        weight, bias = getattr(whole, name).weight.detach(), getattr(whole, name).bias.detach()
        parts = [cut(name, weight, bias, Ranks(rank, 4)) for rank in range(4)]
        x = torch.randn(5, weight.shape[1])
        if name in ("out", "fc2"):
            assert all(torch.equal(part[1], bias) for part in parts)
            pieces = x.chunk(4, 1)
            y = sum(piece @ part[0].T for piece, part in zip(pieces, parts, strict=True)) + bias
        else:
            y = torch.cat([x @ W.T + b for W, b in parts], 1)
            if name == "qkv":  # each rank has q, k and v of its own heads
                y = y.unflatten(1, (4, 3, 16)).transpose(1, 2).flatten(1)
        torch.testing.assert_close(y, x @ weight.T + bias)


def test_one_rank_has_the_whole_model() -> None:
    model = random_model(bias=False)
    assert torch.equal(share(model)(prompts()), model(prompts()))


def test_numbers_of_ranks_that_do_not_divide_are_refused(monkeypatch) -> None:
    with pytest.raises(ValueError, match=r"world=3 must divide heads=4 of small"):
        OPT(config(), Ranks(0, 3))
    monkeypatch.setenv("WORLD_SIZE", "7")
    with (
        pytest.raises(ValueError, match=r"world=7 must divide heads=72 of OPT-66B"),
        running(OPTConfig.of("OPT-66B"), "cpu"),
    ):
        pytest.fail("7 ranks cannot share 72 heads")
    with pytest.raises(ValueError, match=r"world=3 must divide dimension 0 of \(64, 8\)"):
        cut("fc1", torch.zeros(64, 8), None, Ranks(0, 3))
    with pytest.raises(ValueError, match=r"name='fc3'; allowed: qkv, fc1, out, fc2"):
        cut("fc3", torch.zeros(64, 8), None, Ranks())
    with pytest.raises(ValueError, match=r"rank=2; allowed: 0 to world - 1 = 1"):
        Ranks(2, 2)


def test_more_ranks_than_gpus_are_refused(monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "63")
    with (
        pytest.raises(ValueError, match=r"LOCAL_RANK=63; allowed: below \d+, the GPUs"),
        running(config(), "cuda"),
    ):
        pytest.fail("63 GPUs cannot be here")


def test_without_torchrun_there_is_one_rank(monkeypatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with running(config(), "cpu") as ranks:
        assert ranks == Ranks(0, 1)


@pytest.mark.parametrize("found", ["abc", "", "-2", "1.0", "0"])
def test_what_torchrun_would_not_set_is_named(monkeypatch, found: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", found)
    with (
        pytest.raises(ValueError, match=f"WORLD_SIZE='{found}'; allowed: what torchrun sets it"),
        running(config(), "cpu"),
    ):
        pytest.fail("no group has that many ranks")
