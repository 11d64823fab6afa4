"""A code for each pair of weights and a stream of words for each lane, in strips of 16 rows."""

from typing import ClassVar

from lab_utils.formats.banks import BankStrips


class CodedStrips(BankStrips):
    """Each pair of weights has a code that says which halves of which word it takes.

    ::

        group       a wgmma: 16 columns of A       64 rows, all K: four strips for a warpgroup
                    columns 2t 2t+1  2t+8 2t+9     strip 0 | round 0 | round 1 | ...
        row g       |  a  |  .  |  .  |  b  |      strip 1 | chunk 16x256: 16 wgmma, 64 pairs
        row g + 8   |  c  |  d  |  .  |  e  |      strip 2 | of each lane, in registers
                    pairs of lane 4 g + t          strip 3 |

        word    two values: of a pair that has both, or of two that have one each
        code    what a pair has                 first half      second half     neither
                a of (a, .): word 0, its        first, begins a word
                c, d:        word 1             first and second, begins one
                (., b), (., e): word 2          first, begins one; second of the same word
        line    a word in each of 32 banks: a lane finds its next one a line below
                bank  0   1   2       31
                    | a.| f.| gh|   |   |      ab cd e, ...: of lanes, from the first half of their
                    | cd| XY| WZ|...|   |      pairs; W to Z: of others, from the second half:
                    | be|   |   |   |   |      who has many stands behind who has few

        chunk   a multiple of 128 bytes, 896 to 9088
                +------------------+--------------------------------------+
                | codes 768 B      | lines of 128 B, at most 65; of the   |
                | three bits for   | first one 32 B say which banks the   |
                | each pair        | second halves have                   |
                +------------------+--------------------------------------+

        data         uint8 [16 * U]               chunks of strip after strip, round after round
        chunk_start  int32 [strips * rounds + 1]  of each chunk, in 16 bytes
        geometry     int32 [1]                    the `constants`: largest_chunk

    Codes and offsets are drawn in kernels/cpu/encode/coded_strips.h. Strips are whole 64 rows:
    those below A have no weights. Infinite and NaN weights are ordinary values.
    """

    name = "coded_strips"
    version = 1
    PROBLEMS: ClassVar = BankStrips.PROBLEMS | {7: "has codes that no weights have"}
