"""2:4 in strips of 16 rows, for wgmma.sp: lanes load their words without meeting in a bank."""

from typing import ClassVar, NamedTuple

from torch import Tensor

from lab_utils.analysis.lane_24_strips import (
    HALVES_BYTES,
    LINE_BYTES,
    METADATA_BYTES,
    STEP_BYTES,
)
from lab_utils.formats.chunks import START_BYTES
from lab_utils.formats.chunks_16x256 import Chunks16x256

HEADER = METADATA_BYTES + HALVES_BYTES  # where it stands in a chunk
FAR_STEPS_AT = 6  # bits of a header's number of steps


class Lane24Strips(Chunks16x256):
    """Groups of four columns: two weights are a word, one is half of one; all others are entries.

    ::

        group       columns 0 1 2 3 of A           64 rows, all K: four strips for a warpgroup
        | . | a | . | . |   half a word; two       strip 0 | round 0 | round 1 | ...
        | . | . | . | b |   such groups share it   strip 1 | chunk 16x256: 64 groups in a row,
        | c | . | d | . |   a word                 strip 2 | 32 of them for each lane of a warp
        | c | d | e | f |   a word of two; the     strip 3 |
                            rest are entries

        line    a word in each of 32 banks: a lane finds its next word a line below
                bank  0   1   2       31
                    | ab| d | f |   |   |      ab c, d, f g: of lanes 0, 1, 2, in step 0 of
                    | c | XY| g |...|   |      wgmma.sp; XY W, Z: of two lanes, in step 1:
                    | Z | W |   |   |   |      who has many stands below who has few
                                               a chunk has as many lines as cost least: a bank's
                                               words beyond them are entries, too
        entry   a value, a row and a column: added to what tensor cores give, eight a step; four
                steps at once, where their rows allow it (mma.sp)

        chunk   a multiple of 128 bytes, at most 15360
                +----------------+---------------+-----------------+---------+-----------------+
                | metadata 512 B | halves that   | 128 to 640 B:   | lines   | far steps, 40 B |
                | the operand of | groups have:  | header, banks,  | 128 B   | each, those     |
                | wgmma.sp       | 256 B         | up to 12 steps  | each    | from the 13th on|
                +----------------+---------------+-----------------+---------+-----------------+

        data         uint8 [16 * U]               chunks of strip after strip, round after round
        chunk_start  int32 [strips * rounds + 1]  of each chunk, in 16 bytes
        geometry     int32 [1]                    the `constants`: largest_copy

    Bits and offsets are drawn in kernels/cpu/encode/lane_24_strips.h. Strips are whole 64 rows:
    those below A have no weights. Infinite and NaN weights are multiplied only where they stand.
    """

    name = "lane_24_strips"
    version = 6
    PROBLEMS: ClassVar = {
        1: "has a size that its header does not state",
        2: "has banks that are not each one lane's",
        3: "has a second half of a word that no group has begun",
        4: "has more words in a bank than lines",
        5: "has an entry that is out of place",
        6: "has a group whose indices do not say what it has",
        7: "has a value outside of the matrix",
        8: "stores a +0",
        9: "has a non-zero that is no value",
    }

    class Geometry(NamedTuple):
        """The `constants`."""

        largest_copy: int

    @property
    def largest_copy(self) -> int:
        """Bytes that kernels copy of a chunk, at most: all but its far steps."""
        return self.geometry.largest_copy

    @property
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk, with far steps; counted each time, for `explain`."""
        return START_BYTES * int(self.arrays["chunk_start"].diff().max())

    @staticmethod
    def _largest(data: Tensor, chunk_start: Tensor) -> int:
        """Of sound chunks: bytes before far steps, of which headers say how many there are."""
        headers = data.view(-1, START_BYTES)[chunk_start[:-1].long() + HEADER // START_BYTES]
        far = (headers[:, 2].int() | headers[:, 3].int() << 8) >> FAR_STEPS_AT
        far_bytes = -(-STEP_BYTES * far // LINE_BYTES) * LINE_BYTES
        return int((START_BYTES * chunk_start.diff() - far_bytes).max())

    def _check(self) -> None:
        geometry = self._read_geometry()
        self._check_strips()
        self._check_once(geometry)
        stated = geometry.largest_copy
        found = self._largest(self.arrays["data"], self.arrays["chunk_start"])
        self.require(found == stated, f"its largest copy is {stated} bytes, and has {found}")
