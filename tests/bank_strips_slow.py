"""Chunks whose lanes have banks, read and written slowly, by the rules of banks.h."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch
from matrices import same_bits

from lab_utils.formats.banks import BankStrips


def bits_of(dense: torch.Tensor) -> np.ndarray:
    return dense.contiguous().view(torch.int16).numpy().view(np.uint16)


def chunk_bytes(A: BankStrips, chunk: int) -> np.ndarray:
    starts = A.arrays["chunk_start"].tolist()
    return A.arrays["data"][16 * starts[chunk] : 16 * starts[chunk + 1]].numpy()


def places(lane: int, half: int) -> list[tuple[int, int]]:
    """Row and column of the places of a lane's half, by order."""
    g, t = divmod(lane, 4)
    return [
        (g + 8 * r, 64 * w + 16 * kk + 8 * c8 + 2 * t + h)
        for w, kk, c8, r, h in product((2 * half, 2 * half + 1), range(4), (0, 1), (0, 1), (0, 1))
    ]


@dataclass(frozen=True)
class SlowFormat:
    """How a format says where values are, and what follows from it."""

    cls: type[BankStrips]
    banks: int  # offsets in a chunk
    lines: int
    begin: Callable[[int], int]  # the first position of a bank
    # Says in the front of a chunk where a lane's half has weights, of all of its places by order;
    # returns what stands at its positions.
    write: Callable[[np.ndarray, int, int, list[int]], list[int]]
    # Orders and positions of its values, and how many positions it takes.
    read: Callable[[np.ndarray, int, int], tuple[list[tuple[int, int]], int]]

    def value_at(self, bank: int, position: int) -> int:
        return self.lines + 128 * (position // 2) + 4 * bank + 2 * (position % 2)

    def lines_in(self, A: BankStrips, chunk: int) -> int:
        return (chunk_bytes(A, chunk).size - self.lines) // 128

    def chunk(self, weights: np.ndarray, banks: list[int] | None = None) -> np.ndarray:
        """The bytes of a chunk of `weights` [16, 256] (bits); `banks`, unless as encoded."""
        front, streams = np.zeros(self.banks, np.uint8), {}
        for lane, half in product(range(32), (0, 1)):
            own = [int(weights[place]) for place in places(lane, half)]
            streams[lane, half] = self.write(front, lane, half, own)
        there = [[0] * self.begin(bank) + streams[bank, 0] for bank in range(32)]
        if banks is None:
            lanes = sorted(range(32), key=lambda lane: -len(streams[lane, 1]))
            emptiest = sorted(range(32), key=lambda bank: len(there[bank]))
            banks = [emptiest[lanes.index(lane)] for lane in range(32)]
        for lane, bank in enumerate(banks):
            there[bank] += streams[lane, 1]
        lines = -(-max(len(bank) for bank in there) // 2)
        data = np.zeros(self.lines + 128 * lines, np.uint8)
        for bank, position in ((b, p) for b in range(32) for p in range(len(there[b]))):
            data.view(np.uint16)[self.value_at(bank, position) // 2] = there[bank][position]
        data[: self.banks], data[self.banks : self.banks + 32] = front, banks
        return data

    def encoding(self, dense: torch.Tensor) -> list[np.ndarray]:
        """The bytes of all chunks."""
        (M, K), bits = dense.shape, bits_of(dense)
        padded = np.pad(bits, ((0, -M % 64), (0, -K % 256)))
        rows, columns = padded.shape
        return [
            self.chunk(padded[row : row + 16, column : column + 256])
            for row in range(0, rows, 16)
            for column in range(0, columns, 256)
        ]

    def reading(self, data: np.ndarray) -> np.ndarray:
        """The weights [16, 256] (bits) of a chunk, whatever its permutation of banks."""
        weights, banks = np.zeros((16, 256), np.uint16), data[self.banks :][:32].tolist()
        for lane, half in product(range(32), (0, 1)):
            bank = banks[lane] if half else lane
            first = self.begin(bank) + (self.read(data, bank, 0)[1] if half else 0)
            for order, position in self.read(data, lane, half)[0]:
                value = data.view(np.uint16)[self.value_at(bank, first + position) // 2]
                weights[places(lane, half)[order]] = value
        return weights

    def assert_written(self, dense: torch.Tensor) -> BankStrips:
        """Raise unless the encoder writes what the slow one does; returns the encoding."""
        A, expected = self.cls.encode(dense), self.encoding(dense)
        for chunk, data in enumerate(expected):
            assert np.array_equal(chunk_bytes(A, chunk), data), f"chunk {chunk}"
        assert A.arrays["data"].numel() == sum(data.size for data in expected)
        assert A.largest_chunk == A.largest_copy == max(data.size for data in expected)
        A.validate()
        assert same_bits(A.decode(), dense)
        assert A.nnz == np.count_nonzero(bits_of(dense))
        return A


# --- damage


def refused(A: BankStrips, message: str, **arrays: torch.Tensor) -> None:
    """Raise unless A with these arrays instead is refused, for that reason."""
    with pytest.raises(ValueError, match=f"invalid {A.name} encoding.*{message}"):
        type(A)(A.shape, A.dtype, {**A.arrays, **arrays})


def damaged(A: BankStrips, at: int, values: list[int]) -> torch.Tensor:
    """The data with other bytes from one on."""
    data = A.arrays["data"].clone()
    assert data[at : at + len(values)].tolist() != values
    data[at : at + len(values)] = torch.tensor(values, dtype=torch.uint8)
    return data


def other_size(A: BankStrips, units: int) -> torch.Tensor:
    """Starts of chunks where the first one has so many times 16 bytes."""
    starts = A.arrays["chunk_start"].clone()
    assert starts[1] != units
    starts[1] = units
    return starts
