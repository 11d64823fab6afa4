"""A bitmap and a stream of values for each lane, in strips of 16 rows, for dense wgmma."""

from lab_utils.formats.banks import BankStrips


class BitmapStrips(BankStrips):
    """Each lane of a warp has a bitmap of its places in the A registers, and its values in a row.

    ::

        group       a wgmma: 16 columns of A       64 rows, all K: four strips for a warpgroup
                    columns 2t 2t+1  2t+8 2t+9     strip 0 | round 0 | round 1 | ...
        row g       |  a  |  .  |  .  |  b  |      strip 1 | chunk 16x256: 16 wgmma, 128 places
        row g + 8   |  .  |  .  |  c  |  .  |      strip 2 | of each lane, a bit for each place
                    places of lane 4 g + t         strip 3 |

        line    two values in each of 32 banks: a lane finds its next two a line below
                bank  0   1   2       31
                    | ab| de| f |   |   |      ab c, de, f: of lanes 0, 1, 2, from the first half of
                    | cX| YZ|   |...|   |      their places; X, YZ: of two lanes, from the second
                                               half: who has many stands behind who has few
                                               a chunk has the lines that its longest bank needs

        chunk   a multiple of 128 bytes, 640 to 8832
                +----------------+--------------------+---------------------+
                | bitmaps 512 B  | banks of second    | lines               |
                | four words for | halves 32 B,       | 128 B each,         |
                | each lane      | zeros 96 B         | at most 64          |
                +----------------+--------------------+---------------------+

        data         uint8 [16 * U]               chunks of strip after strip, round after round
        chunk_start  int32 [strips * rounds + 1]  of each chunk, in 16 bytes
        geometry     int32 [1]                    the `constants`: largest_chunk

    Bits and offsets are drawn in kernels/cpu/encode/bitmap_strips.h. Strips are whole 64 rows:
    those below A have no weights. Infinite and NaN weights are ordinary values.
    """

    name = "bitmap_strips"
    version = 1
