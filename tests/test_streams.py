"""Launches go to torch's current stream, and to the GPU of their tensors."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from lab_utils.backends.ways import asked_way, forced
from lab_utils.streams import apart, current_stream, is_captured, on


@pytest.fixture
def second_of_two(monkeypatch) -> list[torch.device]:
    """torch as if the second of two GPUs were current; which GPUs were made current since."""
    entered = []

    def device(one: torch.device) -> nullcontext:
        entered.append(one)
        return nullcontext()

    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda i: 100 + i, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 1, raising=False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device", device)
    return entered


def test_a_stream_is_that_of_the_gpu(second_of_two) -> None:
    streams = [current_stream(torch.device(name)).value for name in ("cuda:0", "cuda:1", "cuda")]
    assert streams == [100, 101, 101]


def test_other_devices_have_no_streams() -> None:
    with pytest.raises(ValueError, match="device='cpu'; allowed: cuda"):
        current_stream(torch.device("cpu"))


def test_whether_a_graph_is_captured_is_asked_of_that_gpu(second_of_two, monkeypatch) -> None:
    asked = torch.cuda, "is_current_stream_capturing"
    monkeypatch.setattr(*asked, lambda: second_of_two == [torch.device("cuda:0")])
    assert not is_captured(torch.device("cuda:1"))
    assert is_captured(torch.device("cuda:0"))
    assert not is_captured(torch.device("cpu"))


def test_another_gpu_becomes_current_for_a_launch(second_of_two) -> None:
    for name in ("cuda:1", "cuda", "cuda:0"):
        with on(torch.device(name)):
            assert second_of_two == [torch.device("cuda:0")] * (name == "cuda:0")


def test_what_lives_on_is_made_in_a_thread_of_its_own(monkeypatch) -> None:
    """On the stream of this one, and as `forced` as it is here."""
    used, cpu, gpu = [], torch.device("cpu"), torch.device("cuda")
    stream = SimpleNamespace(device=torch.device("cuda:1"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    for set_it in ("set_device", "set_stream"):
        monkeypatch.setattr(torch.cuda, set_it, used.append)
    with forced("tiles"):
        made = [
            apart(device, lambda: (threading.get_ident(), asked_way())) for device in (cpu, gpu)
        ]
    (here, _), (there, way) = made
    assert here == threading.get_ident() != there
    assert way == "tiles" and used == [stream.device, stream]
    with pytest.raises(ZeroDivisionError):
        apart(gpu, lambda: 1 / 0)


@pytest.mark.gpu
def test_streams_are_torchs() -> None:
    for index in range(torch.cuda.device_count()):
        device = torch.device("cuda", index)
        for inside in (torch.cuda.default_stream(device), torch.cuda.Stream(device)):
            with torch.cuda.stream(inside):
                assert (current_stream(device).value or 0) == inside.cuda_stream
                with torch.cuda.device(torch.cuda.device_count() - 1 - index):
                    assert (current_stream(device).value or 0) == inside.cuda_stream
                    assert not is_captured(device)
        with on(device):
            assert torch.cuda.current_device() == index
