"""What the first launch of an encoding finds is there for others once the GPU has it."""

from types import SimpleNamespace

import torch

from lab_utils.backends.remembered import remembered


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
