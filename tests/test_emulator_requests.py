"""The order of a watched block's requests, and what each says of its place."""

import pytest
import torch

from lab_utils import encode, spmm
from lab_utils.analysis.kernel_trace import Place, Request
from lab_utils.backends import emulator, published
from lab_utils.patterns import random_sparse


@pytest.fixture(scope="module", params=published.ARRAYS)
def requests(request: pytest.FixtureRequest) -> tuple[Request, ...]:
    A = encode(random_sparse(128, 320, 0.8), request.param)
    with emulator.recording(watch=0) as traces:
        spmm(A, torch.ones(320, 8).half(), backend="emulator")
    return traces[0].requests


def test_every_request_names_its_device_function(requests) -> None:
    functions = {one.place.function for one in requests}
    assert functions - {"decode"} in (
        {"offset", "gmem2reg", "rst_smem", "scatter", "ld_dense", "load_a", "load_b", "smem2tc",
         "run", "round_to"},
        {"locate", "ld_sparse", "run_starts", "ld_dense", "load_b", "multiply", "run", "round_to"},
    )  # fmt: skip
    assert Place("kernel", "elsewhere.cu", 3, "mma").function == ""


def test_waits_say_what_they_leave_under_way(requests) -> None:
    for one in requests:
        assert (one.pending in (0, 1)) == (one.place.operation == "wait")


def test_what_few_lanes_do_stays_in_its_place(requests) -> None:
    """Lanes whose two bits are zeros load nothing, but what others load precedes the next step."""
    mine = [one for one in requests if one.warp == 3]
    loads = [i for i, one in enumerate(mine) if "halves.load" in one.place.text]
    assert all(mine[i - 1].place.function == "decode" for i in loads)
    if loads:
        after = {mine[i + 1].place.operation for i in loads}
        assert after == {"shared_load", "shuffle", "ldmatrix"}


def test_barriers_of_a_warp_are_their_own_operation(requests) -> None:
    for one in requests:
        if "barrier" in one.place.operation:
            whole_warp = "__syncwarp" in one.place.text
            assert (one.place.operation == "warp_barrier") == whole_warp
