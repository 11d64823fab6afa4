"""The streams of a zero-row 2:4 encoding, read one by one: codes, addresses, and bank conflicts.

kernels/cpu/encode/zero_row_24_tile.h has the layout, zero_row_24_nested.h that of nested chunks.
"""

import numpy as np

from lab_utils.analysis.zero_row_24 import (
    METADATA_BYTES,
    ORDERS,
    START_BYTES,
    Streams,
    header_bytes,
)

NIBBLES = np.array([0, 4, 8, 9, 12, 13, 14, 15])  # that codes of packed streams stand for
STEPS_AT = 256  # of sixes, behind their indices
# Of nested chunks: codes that say that a group sends a weight to level 1, and their nibbles.
SENDING = {0: 14, 1: 15, 2: 12, 5: 11, 6: 8, 10: 3}
LEVEL_SLOTS = 2  # of a group of that level
SIXES = ORDERS // 2  # of a stream in a piece, 48 columns


def wavefronts(
    data: np.ndarray,
    chunk_start: np.ndarray,
    streams: Streams | bool,
    pieces: np.ndarray | None = None,
) -> float:
    """Mean shared-memory wavefronts of a warp's load from the streams of an encoding.

    `data` uint8 and `chunk_start` int32 are its arrays; `pieces` int [chunks]: those of 48 columns
    in each chunk (`ZeroRow24.pieces`), None: one. A load of 32 lanes takes as many wavefronts as
    one of the 32 banks has different words of it; a kernel loads packed streams, and level 1 of
    nested chunks, twice a gather, words of sixes once for both steps.
    """
    starts = START_BYTES * chunk_start[:-1].astype(np.int64)
    pieces = np.ones_like(starts) if pieces is None else pieces
    found = [
        np.bincount(np.unique(load) % 32).max()
        for start, number in zip(starts, pieces, strict=True)
        for load in _words_of_loads(data[start:], streams, int(number))
    ]
    return float(np.mean(found))


def codes_of(chunk: np.ndarray, streams: Streams | bool, pieces: int = 1) -> np.ndarray:
    """The nibbles of a chunk's metadata in the order of streams, int [tile, g, 32 * pieces].

    Bits 0 and 1 are the index of slot 0, bits 2 and 3 that of slot 1; 3: not in use. Groups are in
    the order (piece, step, half, row half, t). `chunk`: its bytes, uint8.
    """
    if streams == Streams.NESTED:
        raise ValueError("streams are nested; allowed: packed, pairs, sixes")
    of_pieces = [_codes_of(chunk[header_bytes(streams) * i :], streams) for i in range(pieces)]
    return np.concatenate(of_pieces, axis=-1)


def _codes_of(piece: np.ndarray, streams: Streams | bool) -> np.ndarray:
    metadata = piece[: METADATA_BYTES[streams]].view(np.uint32)
    n = np.arange(8, dtype=np.uint32)  # of a lane's groups
    if streams == Streams.SIXES:
        codes = _words_of_sixes(metadata) >> 4 * n & 15
    elif streams:
        codes = metadata.reshape(8, 4, 4, 1) >> 4 * n & 15  # g, lane, tile
    else:
        stored = metadata.reshape(8, 4, 3, 1) >> 4 * (n // 2 + n % 2 * 4) & 15
        last = (stored >> 3 << np.arange(3, dtype=np.uint32)[:, None]).sum(2, keepdims=True)
        codes = NIBBLES[np.concatenate([stored & 7, last], axis=2)]
    return codes.transpose(2, 0, 1, 3).reshape(4, 8, ORDERS).astype(int)


def _words_of_sixes(metadata: np.ndarray) -> np.ndarray:
    """The words of pairs, [g, lane, tile, 1]: indices, and 3 where a slot is the other step's."""
    indices, steps = np.split(metadata, [STEPS_AT // 4])
    steps = steps.reshape(8, 2, 2, 1) >> np.arange(2, dtype=np.uint32)  # g, half, two tiles
    others = (steps.reshape(8, 2, 4, 1) & np.uint32(0x55555555)) * np.uint32(3)
    indices = indices.reshape(8, 2, 4, 1)
    return np.concatenate([indices | others, indices | ~others], axis=1)


def starts_of(chunk: np.ndarray, streams: Streams | bool) -> np.ndarray:
    """Where the streams of a chunk begin, in bytes from its own start: int [tile, g]."""
    starts = chunk[METADATA_BYTES[streams] : header_bytes(streams)].view(np.uint16)
    return (starts.reshape(8, 4).T & 0x3FFF).astype(int)


def addresses_of(codes: np.ndarray, starts: np.ndarray, streams: Streams | bool) -> np.ndarray:
    """Bytes from the chunk's start to each group's values, counted one by one: int, as codes.

    `codes` int [..., 32 * pieces], `starts` int [...]. Slots in use before a group move it: by 2
    bytes each, in streams of words by 4 for each slot 1; both groups of a six have one address.
    """
    if streams == Streams.SIXES:
        of_steps = codes.reshape(*codes.shape[:-1], -1, 2, SIXES)
        moves = 4 * (of_steps // 4 != 3).any(-2).reshape(*codes.shape[:-1], -1)
        at = (starts[..., None] + moves.cumsum(-1) - moves).reshape(of_steps[..., 0, :].shape)
        return np.stack([at, at], axis=-2).reshape(codes.shape)
    first, second = codes % 4 != 3, codes // 4 != 3
    moves = 4 * second if streams else 2 * (first.astype(int) + second)
    return starts[..., None] + moves.cumsum(-1) - moves


def _words_of_loads(chunk: np.ndarray, streams: Streams | bool, pieces: int) -> np.ndarray:
    """The word that each lane reads in each load of a chunk, int [loads, 32]."""
    if streams == Streams.NESTED:
        words, level = nested_addresses(chunk)
        loads = [_by_gathers(words[None]), _by_gathers(np.stack([level, level + 2]))]
        return np.concatenate(loads) // 4
    at = addresses_of(codes_of(chunk, streams, pieces), starts_of(chunk, streams), streams)
    if streams == Streams.SIXES:
        at = at.reshape(4, 8, pieces, 2, SIXES)[..., 0, :].reshape(4, 8, -1)
    return _by_gathers(np.stack([at] if streams else [at, at + 2])) // 4


def _by_gathers(addresses: np.ndarray) -> np.ndarray:
    """What lanes ask for, int [loads, 32], of addresses [slot, tile, g, group]."""
    of_four = addresses.reshape(len(addresses), 4, 8, -1, 4)
    return of_four.transpose(0, 1, 3, 2, 4).reshape(-1, 32)  # slot, tile, gather, g, t


def nested_addresses(chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of a nested chunk bytes from its start to each group's word, and to its values in level 1.

    int [tile, g, 48] and [tile, g, 16], groups in the order (step, half, row half, t).
    """
    planes = chunk[: METADATA_BYTES[Streams.NESTED]].view(np.uint32)
    lanes = [planes[:128].reshape(8, 4, 4), planes[128:].reshape(8, 2, 4)]
    words = np.concatenate(lanes, axis=1)[..., None, None]  # g, (step, half), plane
    bits = words >> (4 * np.arange(8, dtype=np.uint32)[:, None] + np.arange(4, dtype=np.uint32)) & 1
    codes = (bits << np.arange(4, dtype=np.uint32)[:, None, None]).sum(2)
    codes = codes.transpose(3, 0, 1, 2).reshape(4, 8, -1)
    nibbles = np.array([SENDING.get(code, code) for code in range(16)])[codes]
    moves = 4 * (nibbles // 4 != 3)
    begin = starts_of(chunk, Streams.NESTED)[..., None]
    values = np.isin(codes, list(SENDING)).reshape(4, 8, 3, -1).sum(2).clip(max=LEVEL_SLOTS)
    of_level = begin + moves.sum(-1, keepdims=True) + 2 * (values.cumsum(-1) - values)
    return begin + moves.cumsum(-1) - moves, of_level
