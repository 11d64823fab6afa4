"""Zero-row 2:4: any mask on sparse tensor cores, three columns and a row of zeros a group."""

from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from lab_utils.analysis.variants import PACKED
from lab_utils.analysis.zero_row_24 import (
    Streams,
    check_kind,
    has_levels,
    piece_cols,
    streams_of,
    whole_pieces,
)
from lab_utils.formats.checks import check_dense
from lab_utils.formats.zero_row_24_chunks import PROBLEMS, ZeroRowChunks
from lab_utils.formats.zero_row_24_encode import (
    REACH,
    check_levels,
    check_reach,
    encoded,
)
from lab_utils.formats.zero_row_24_slices import (
    MOST_COLS,
    TILES,
    fixed_chunks,
    pieces_of_chunks,
    tiles_of,
)


class ZeroRow24(ZeroRowChunks):
    """Groups of three columns and a row of zeros: 2:4 metadata that needs no structure in A.

    ::

        group       columns  0 1 2  of A, and index 3: a row of zeros in B
        | a | 0 | b |   slots a b   indices 0 2       mma.sp multiplies a, b with rows 0, 2 of B
        | 0 | a | 0 |   slots a -   indices 1 3       -: whatever finite value is loaded there
        | 0 | 0 | 0 |   slots - -   indices 3 3
        | a | b | c |   slots a c   indices 0 2       b goes to level 1 or an extra chunk

        block 64 rows x a slice of K, in chunks of 64x48:  regular | level 1 | extra
              of sixes regular ones are 64x96, two pieces of 64x48, but for one at a slice's end;
              nested chunks are 64x72, and have their level 1 inside
        level 1   the middle columns of all groups, where `levels` is 1; a row that has three of
                  three there sends the middle one to an extra chunk; else all b's go there; of
                  pairs other middle weights as well, where that spares a zero beside a lone one
        nested    three steps of 24 columns, and a fourth one, the middle columns of their groups,
                  three a group, which has two weights of a row; its metadata are not stored, since
                  a group's four bits say whether it sends its middle weight: where it has three;
                  or where that spares a zero, and one other of the three sends at most
        extra     columns are listed, for each 16 rows: those that have such a weight
        six       two groups, one of either step of mma.sp, which have two values together: both
                  steps multiply the same words; what stands between a row's first and last
                  value of a six goes to an extra chunk, and there is no level 1

        piece  four tiles 16x48, one below the other
        chunk  a multiple of 32 bytes, at most 8160, nested 9056
               +----------------+--------------+------------------+---------------------+---+
               | metadata       | starts 64 B  | extra chunks:    | 32 streams          | 0 |
               | nested 768 B,  | of streams,  | columns, 512 B,  | of tile, rows g and | 4 |
               | pairs 512 B,   | chunk's size | nested 768 B;    | g + 8: the values,  | B |
               | else 384 B     |              | second pieces:   | piece after piece   |   |
               |                |              | metadata, 384 B  |                     |   |
               +----------------+--------------+------------------+---------------------+---+

        data         uint8 [16 * U]                   chunks of block after block
        chunk_start  int32 [chunks + 1]               of each chunk, in 16 bytes
        first_chunk  int32 [slices * row blocks + 1]  of block (slice, 64 rows)
        geometry     int32 [5]                        the `constants`: slice_cols, levels, streams,
                                                      largest_chunk, nonfinite

    Bits and offsets are drawn in kernels/cpu/encode/zero_row_24.h. An infinite or NaN weight could
    be loaded for a slot that is not in use, and 0 times it is NaN: `nonfinite` says that A has one.
    """

    name = "zero_row_24"
    version = 4
    ARRAYS: ClassVar = {
        "data": torch.uint8,
        "chunk_start": torch.int32,
        "first_chunk": torch.int32,
        "geometry": torch.int32,
    }
    PROBLEMS: ClassVar = PROBLEMS | {
        3: "lists a column outside of its slice",
        5: f"{PROBLEMS[5]}, or one that sends a weight where level 1 has no room",
    }

    class Geometry(NamedTuple):
        """The `constants`."""

        slice_cols: int
        levels: int
        streams: int
        largest_chunk: int
        nonfinite: int

    @classmethod
    def encode(
        cls,
        dense: Tensor,
        slice_cols: int | None = None,
        streams: str | None = None,
        reach: int = REACH,
        levels: int | None = None,
    ) -> Self:
        """Encode `dense` [M, K]; raises ValueError as `SparseMatrix.encode` does.

        `slice_cols`: columns of a slice of K, a multiple of 48, nested 72; None: see
        `slice_columns`. `streams`: "packed", values one after another; "pairs", words of 4 bytes,
        which a lane loads at once; "nested", such words in chunks that have their level 1 inside,
        in as many bytes as packed; "sixes", words of six columns instead of three, in fewer bytes
        from about 83 % sparsity on, with half of the loads. None, by sparsity: packed below 49 %,
        nested below 77, pairs below 86, then sixes; in matrices of up to 2²⁵ weights packed below
        19, then pairs; of up to 2²⁶ nested below 66; of up to 2²⁷ below 72. Pairs instead of nested
        where a chunk is so long that two for each warp do not fit beside 16 columns of B
        (`longest_nested`). Where `levels` are given, or `slice_cols` that are no multiple of 72,
        pairs from 65 % on instead of nested, in matrices of up to 2²⁶ weights from 55; with
        `levels` no sixes. That is so on an H200, for up to 16 columns; nested chunks lose with
        more, for which strips are. On an H100, whose memory is slower, packed streams of large
        matrices are faster than pairs at 80 %. `reach`: how many bytes may be skipped to put a
        stream where it meets fewer bank conflicts, of words among those that pad its chunk anyway;
        -1: none, in plain order. `levels`, of packed streams and pairs: 1 or 0, see above; None: 1
        where chunks then cost less, as those of random masks do up to about 62 % sparsity, packed,
        or 73, pairs (`lab_utils.analysis.zero_row_24_expected.cost`).

        Shared-memory wavefronts of a warp's load from the streams, packed up to 60 % and pairs from
        70 % on, on average::

            sparsity      50%   60%   70%   80%   90%   95%
            plain order  2.13  1.87  1.85  1.97  1.51  1.00
            reach 8      1.68  1.54  1.50  1.49  1.17  1.00    1.2 % more bytes if packed
            nested       1.88  1.97  1.56
            of sixes                             1.42  1.18    for half as many loads
        """
        dense = check_dense(dense)
        check_levels(levels)
        check_reach(reach)
        kind = check_kind(streams, levels)
        choice, arrays, largest = encoded(dense, slice_cols, kind, levels, reach)
        nonfinite = int(choice.queues.nonfinite)
        constants = (choice.slice_cols, choice.levels, int(choice.streams), largest, nonfinite)
        arrays["geometry"] = torch.tensor(constants, dtype=torch.int32, device=dense.device)
        return cls.of_valid(tuple(dense.shape), dense.dtype, arrays, constants)

    @property
    def slice_cols(self) -> int:
        """Columns of a slice of K; the last one may have fewer."""
        return self.geometry.slice_cols

    @property
    def levels(self) -> int:
        """1 where middle columns of groups have chunks of their own, 0 where lists name them."""
        return self.geometry.levels

    @property
    def streams(self) -> Streams:
        """How values stand."""
        return Streams(self.geometry.streams)

    @property
    def pieces(self) -> Tensor:
        """Pieces of 64 x 48, nested 64 x 72, in each chunk, int64 [chunks]."""
        first_chunk = self.arrays["first_chunk"]
        return pieces_of_chunks(first_chunk, self.shape[1], self.slice_cols, self.streams)

    @property
    def pairs(self) -> bool:
        """Whether streams are words of two values, of sixes or not, instead of packed."""
        return self.streams != Streams.PACKED

    def option(self, name: str) -> object:
        return self.streams.name.lower() if name == "streams" else super().option(name)

    @property
    def variant(self) -> str:
        chosen = streams_of(*self.shape, self.sparsity)
        packed = self.streams == Streams.PACKED != chosen
        return PACKED if packed else self.name

    def _encoding(self, geometry: Geometry) -> tuple[Tensor | int, ...]:
        arrays = (self.arrays[name] for name in ("data", "chunk_start", "first_chunk"))
        chunks = self.arrays["chunk_start"].numel() - 1
        return *arrays, *self.shape, geometry.slice_cols, geometry.levels, geometry.streams, chunks

    def _rows(self, geometry: Geometry, first: int, rows: int) -> tuple[Tensor | int, ...]:
        return *self._encoding(geometry), geometry.largest_chunk, first, rows

    def _streams(self) -> tuple[Tensor | int, ...]:
        return self._encoding(self._read_geometry())[:-1]

    def _lengths(self) -> dict[str, int | None]:
        return {"data": None, "chunk_start": None, "first_chunk": None, "geometry": 5}

    def _check(self) -> None:
        slice_cols, levels, streams, largest, nonfinite = geometry = self._read_geometry()
        self._check_flags(levels=levels, nonfinite=nonfinite)
        known = ", ".join(f"{one.value} ({one.name.lower()})" for one in Streams)
        self.require(streams in list(Streams), f"streams is {streams}; allowed: {known}")
        self._check_slices(slice_cols, Streams(streams))
        self.require(
            not levels or has_levels(Streams(streams)),
            f"levels is 1; allowed of {Streams(streams).name.lower()}: 0",
        )
        self._check_offsets(slice_cols, levels, Streams(streams), largest)
        self._check_weights(geometry)

    def _check_slices(self, slice_cols: int, streams: Streams) -> None:
        piece = piece_cols(streams)
        most = min(MOST_COLS, whole_pieces(self.shape[1], streams))
        self.require(
            slice_cols % piece == 0 and 0 < slice_cols <= most,
            f"slice_cols is {slice_cols}; allowed: multiples of {piece} up to {most}",
        )

    def _check_offsets(self, slice_cols: int, levels: int, streams: Streams, largest: int) -> None:
        """Check that chunks follow one another, and that each block has its own."""
        first, chunks = self.arrays["first_chunk"], self.arrays["chunk_start"].numel() - 1
        blocks = tiles_of(*self.shape, slice_cols) // TILES
        self.require(
            first.numel() == blocks + 1,
            f"array 'first_chunk' has {first.numel()} elements, needs {blocks + 1}",
        )
        units = self._units_of_data()
        self._check_ascent("first_chunk", chunks)
        self._check_ascent("chunk_start", units)
        fixed = fixed_chunks(*self.shape, slice_cols, levels, streams, self.device)
        self.require(bool((first.long().diff() >= fixed).all()), "a block has too few chunks")
        self._check_largest(largest)
