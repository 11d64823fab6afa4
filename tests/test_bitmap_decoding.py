"""Bitmap decoding in numpy: the encoder's inverse, and what the kernel does lane by lane."""

import numpy as np
import pytest
import torch

from lab_utils import encode, spmm
from lab_utils.analysis import bitmap_decoding as b
from lab_utils.backends import emulator
from lab_utils.formats import SparseMatrix
from lab_utils.patterns import random_sparse


def arrays_of(A: SparseMatrix) -> dict[str, np.ndarray]:
    """The encoding's arrays; values as their 16 bits."""
    bits = A.arrays | {"values": A.arrays["values"].view(torch.int16)}
    return {name: array.numpy() for name, array in bits.items()}


@pytest.mark.parametrize("sparsity", [0.0, 0.4, 0.9, 1.0])
@pytest.mark.parametrize(("M", "K"), [(64, 64), (130, 200), (1, 70)])
def test_lanes_decode_what_was_encoded(M: int, K: int, sparsity: float) -> None:
    A = encode(random_sparse(M, K, sparsity, seed=M), "tca_bme")
    dense = torch.from_numpy(b.decode(arrays_of(A), M, K))
    assert torch.equal(dense, A.decode().view(torch.int16))


def test_halves_count_the_bits_below() -> None:
    bitmaps = np.random.default_rng(0).integers(-(2**63), 2**63, 50)
    lanes = b.decode_lanes(b.bits_of(bitmaps), np.zeros(50, dtype=np.int64))
    for t, lane in np.ndindex(50, 32):
        bits, (low, high) = int(bitmaps[t]) % 2**64, b.masks(lane)
        assert lanes.low[t, lane] == (bits & 0xFFFFFFFF & low).bit_count()
        assert lanes.high[t, lane] == (bits >> 32 & high).bit_count()
        below = bits & ((1 << 2 * lane) - 1)
        assert lanes.at[t, lane] == below.bit_count()
        assert lanes.second_at[t, lane] == (bits & ((1 << 2 * lane + 1) - 1)).bit_count()
        assert (lanes.first[t, lane], lanes.second[t, lane]) == (
            bits >> 2 * lane & 1, bits >> 2 * lane + 1 & 1)  # fmt: skip


def test_lanes_load_where_the_kernel_loads() -> None:
    """Addresses of the emulated kernel's two phases, against `at` and `second_at`."""
    A = encode(random_sparse(64, 64, 0.5), "tca_bme")
    with emulator.recording(watch=0) as traces:
        spmm(A, torch.ones(64, 8).half(), backend="emulator")
    for warp in range(4):
        strip = b.strip_of(arrays_of(A), 0, warp)
        lanes = b.decode_lanes(strip.bits, strip.starts)
        loads = [r for r in traces[0].requests if r.warp == warp and "halves" in r.place.text]
        firsts = [r for r in loads if "first" in r.place.text]
        seconds = [r for r in loads if "second" in r.place.text]
        base = min(r.shared[0] - 2 * lanes.at[t, r.lanes[0]] for t, r in enumerate(firsts))
        for phase, has, at in ((firsts, lanes.first, lanes.at),
                               (seconds, lanes.second, lanes.second_at)):  # fmt: skip
            assert len(phase) == 16
            for t, request in enumerate(phase):
                assert list(request.lanes) == np.flatnonzero(has[t]).tolist()
                assert list(request.shared) == (base + 2 * at[t, has[t]]).tolist()


def test_fragments_hold_every_element_once() -> None:
    places = {b.fragment_place(*one) for one in np.ndindex(32, 4, 2)}
    assert places == set(np.ndindex(16, 16))
    assert b.fragment_place(5, 2, 1) == (1, 11)


def test_strips_out_of_range() -> None:
    arrays = arrays_of(encode(torch.eye(64).half(), "tca_bme"))
    with pytest.raises(ValueError, match="group=1, strip=0: allowed: below 1 and below 4"):
        b.strip_of(arrays, 1, 0)
