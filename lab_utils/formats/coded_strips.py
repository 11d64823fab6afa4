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
        code    a pair    stands in
                0  . .
                4  a .    the first half of the next word, 0
                6  c d    both halves of the next word, 1
                5  . b    the first half of the next word, 2
                3  . e    the second half of the last word, 2
                7  g .    the second half of the last word
        line    a word in each of 32 banks: a lane finds its next one a line below
                bank  0       8   9  10       31
                    | TT|   | a.| fg| hi|   |   |  a to l: of lanes 8, 9, 10 and 0, from the first
                    | kl|...| cd| XY| WZ|...|   |  half of their pairs; W to Z: of others, from
                    |   |   | be|   |   |   |   |  the second: who has many stands behind who has
                                                   few; TT, and so in banks 1 to 7: which banks
                                                   the second halves have

        chunk   a multiple of 128 bytes, 896 to 9088
                +------------------+--------------------------------------+
                | codes 768 B      | lines of 128 B, at most 65, of which |
                | three bits for   | the first 32 B are the table of      |
                | each pair        | banks, TT                            |
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
