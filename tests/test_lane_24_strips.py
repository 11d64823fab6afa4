"""2:4 in strips, a word for each lane: its bytes, written and read slowly; its size; damage."""

from itertools import zip_longest

import numpy as np
import pytest
import torch
from matrices import same_bits

from lab_utils import accuracy, spmm
from lab_utils.analysis import lane_24_strips
from lab_utils.formats import Lane24Strips
from lab_utils.patterns import PATTERNS, random_sparse

METADATA, PRESENT, HEADER, STEPS = 0, 512, 640, 656


def bits_of(dense: torch.Tensor) -> np.ndarray:
    return dense.contiguous().view(torch.int16).numpy().view(np.uint16)


def chunk_bytes(A: Lane24Strips, chunk: int) -> np.ndarray:
    starts = A.arrays["chunk_start"].tolist()
    return A.arrays["data"][16 * starts[chunk] : 16 * starts[chunk + 1]].numpy()


def lines_and_steps(A: Lane24Strips, chunk: int) -> tuple[int, int]:
    data = chunk_bytes(A, chunk)
    lines_at, steps = data[HEADER : HEADER + 4].view(np.uint16).tolist()
    return (data.size - lines_at) // 128 - -(-48 * max(steps - 7, 0) // 128), steps


# --- an element, read where the drawing puts it


class SlowReading:
    """The weights of an encoding, found as lane_24_strips.h draws them, one by one."""

    def __init__(self, A: Lane24Strips):
        self.A, self.entries = A, 0
        self.dense = np.zeros((16 * A.strips, 256 * A.rounds), np.uint16)
        self.data = A.arrays["data"].numpy()
        starts = A.arrays["chunk_start"].tolist()
        for chunk in range(A.strips * A.rounds):
            strip, nth = divmod(chunk, A.rounds)
            self.row, self.column = 16 * strip, 256 * nth
            self.read_chunk(16 * starts[chunk], 16 * starts[chunk + 1])

    def put(self, row: int, column: int, value: int) -> None:
        at = self.row + row, self.column + column
        assert value != 0 and self.dense[at] == 0
        assert at[0] < self.A.shape[0] and at[1] < self.A.shape[1]
        self.dense[at] = value

    def read_chunk(self, begin: int, end: int) -> None:
        words = self.data[begin:end].view(np.uint32)
        lines_at, steps = int(words[160]) & 0xFFFF, int(words[160]) >> 16
        assert begin % 128 == end % 128 == lines_at % 128 == 0
        for lane in range(32):
            line = 0
            for order in range(32):
                if int(words[128 + lane]) >> order & 1:
                    word = int(words[(lines_at + 128 * line) // 4 + lane])
                    self.read_word(words, lane, order, word)
                    line += 1
        for step in range(steps):
            at = begin + STEPS + 48 * step
            if step >= 7:
                at = 16 * int(words[161]) + 48 * (step - 7)
            self.read_step(self.data[at : at + 48].view(np.uint16).tolist())

    def read_word(self, words: np.ndarray, lane: int, order: int, word: int) -> None:
        g, t = divmod(lane, 4)
        step, tile, half, r = order // 16, order // 4 % 4, order // 2 % 2, order % 2
        metadata = int(words[4 * (4 * g + 2 * step + half) + tile])
        nibble = metadata >> (16 * r + 4 * t) & 15
        group = (2 * tile + step) * 8 + 4 * half + t
        for index, value in ((nibble & 3, word & 0xFFFF), (nibble >> 2, word >> 16)):
            if value:
                self.put(g + 8 * r, 4 * group + index, value)

    def read_step(self, halves: list[int]) -> None:
        for value, row, column in zip(halves[:8], halves[8:16], halves[16:], strict=True):
            if row:
                self.put(row.bit_length() - 1, column, value)
                self.entries += 1
            else:
                assert value == 0 and column == halves[16]


@pytest.mark.parametrize("shape", [(1, 1), (64, 256), (65, 700), (150, 31)])
@pytest.mark.parametrize("sparsity", [0.0, 0.4, 0.9, 1.0])
def test_every_element_is_where_the_drawing_puts_it(shape, sparsity):
    dense = random_sparse(*shape, sparsity, pattern="row_skewed")
    A = Lane24Strips.encode(dense)
    found = SlowReading(A)
    assert np.array_equal(found.dense[: shape[0], : shape[1]], bits_of(dense))
    assert A.nnz == np.count_nonzero(found.dense)


# --- all bytes, written by the rules


def split(group: list[int], nth: int) -> tuple[list[int], list[int]]:
    """Columns of a group that stay, and those that its `nth` full group leaves out."""
    columns = [c for c in range(4) if group[c]]
    if len(columns) == 4:
        left = [nth % 4, (nth + 1) % 4]
    elif len(columns) == 3:
        left = [next(c % 4 for c in range(nth, nth + 4) if group[c % 4])]
    else:
        left = []
    return [c for c in columns if c not in left], sorted(left)


class SlowChunk:
    """A chunk of `weights` [16, 256] (bits): what stands in words, what may, and its bytes."""

    def __init__(self, weights: np.ndarray):
        self.words = [[] for _ in range(32)]  # of a lane: (order, values, nibble, columns kept)
        self.left = []  # (lane, order, column, value, row), whatever the number of lines
        full = [0, 0]
        for lane in range(32):
            for order in range(32):
                row, first = self.place(lane, order)
                group = weights[row, first : first + 4].tolist()
                kept, left = split(group, full[lane % 2])
                full[lane % 2] += bool(left)
                self.left += [(lane, order, first + c, group[c], row) for c in left]
                if kept:
                    indices = kept
                    if len(kept) == 1:
                        indices = [kept[0], 3] if kept[0] < 3 else [2, 3]
                    entries = [(lane, order, first + c, group[c], row) for c in kept]
                    values = [group[i] for i in indices]
                    self.words[lane].append((order, values, indices, entries))

    @staticmethod
    def place(lane: int, order: int) -> tuple[int, int]:
        """Row and first column of a lane's group."""
        step, tile, half, r = order // 16, order // 4 % 4, order // 2 % 2, order % 2
        return lane // 4 + 8 * r, 4 * ((2 * tile + step) * 8 + 4 * half + lane % 4)

    def entries(self, lines: int) -> list[tuple]:
        late = [entry for words in self.words for word in words[lines:] for entry in word[3]]
        return sorted(self.left + late)

    def sizes(self, lines: int) -> tuple[int, int, int, int]:
        """Steps, far ones, where lines stand, bytes."""
        steps = -(-len(self.entries(lines)) // 8)
        near = min(steps, 7)
        lines_at = 640 + 128 * -(-(16 + 48 * near) // 128)
        nbytes = lines_at + 128 * lines + 128 * -(-48 * (steps - near) // 128)
        return steps, steps - near, lines_at, nbytes

    def lines(self) -> int:
        """The number that costs least; of equals the largest."""
        most = max(len(words) for words in self.words)
        costs = {}
        for lines in range(most, max(0, most - 13) - 1, -1):
            steps, far, _, nbytes = self.sizes(lines)
            costs[lines] = nbytes + 256 * steps + 768 * far
        return min(costs, key=costs.get)  # the first of equals

    def bytes(self, begin: int) -> np.ndarray:
        """`begin`: where the chunk stands in `data`."""
        lines = self.lines()
        steps, far, lines_at, nbytes = self.sizes(lines)
        data = np.zeros(nbytes, np.uint8)
        words, halves = data.view(np.uint32), data.view(np.uint16)
        words[:128] = 0x44444444
        for lane, late in enumerate(self.words):
            for line, (order, values, indices, _) in enumerate(late[:lines]):
                halves[(lines_at + 128 * line) // 2 + 2 * lane :][:2] = values
                words[PRESENT // 4 + lane] |= 1 << order
                self.put_nibble(words, lane, order, indices)
        words[160] = lines_at | steps << 16
        far_at = lines_at + 128 * lines
        words[161] = (begin + far_at) // 16 if far else 0
        for step, entries in enumerate(self.steps(lines)):
            at = STEPS + 48 * step if step < 7 else far_at + 48 * (step - 7)
            halves[at // 2 :][:24] = np.array(entries).T.ravel()
        return data

    @staticmethod
    def put_nibble(words: np.ndarray, lane: int, order: int, indices: list[int]) -> None:
        step, tile, half, r = order // 16, order // 4 % 4, order // 2 % 2, order % 2
        at, shift = 4 * (lane // 4 * 4 + 2 * step + half) + tile, 16 * r + 4 * (lane % 4)
        words[at] &= ~(15 << shift) & 0xFFFFFFFF
        words[at] |= (indices[0] | indices[1] << 2) << shift

    def steps(self, lines: int) -> list[list[tuple[int, int, int]]]:
        """Entries (value, bit of the row, column) of steps, all places in use."""
        entries = self.entries(lines)
        queues = [[e for e in entries if e[2] % 8 == place] for place in range(8)]
        turns = [e for turn in zip_longest(*queues) for e in turn if e is not None]
        steps = [turns[i : i + 8] for i in range(0, len(turns), 8)]
        found = [[(e[3], 1 << e[4], e[2]) for e in step] for step in steps]
        for step in found:
            step += [(0, 0, step[0][2])] * (8 - len(step))
        return found


def slow_encoding(dense: torch.Tensor) -> list[np.ndarray]:
    """The bytes of all chunks."""
    (M, K), bits = dense.shape, bits_of(dense)
    padded = np.pad(bits, ((0, -M % 64), (0, -K % 256)))
    chunks, begin = [], 0
    for row in range(0, padded.shape[0], 16):
        for column in range(0, padded.shape[1], 256):
            chunk = SlowChunk(padded[row : row + 16, column : column + 256])
            chunks.append(chunk.bytes(begin))
            begin += chunks[-1].size
    return chunks


def assert_written(dense: torch.Tensor) -> Lane24Strips:
    """Raise unless the encoder writes what the slow one does; returns the encoding."""
    A, expected = Lane24Strips.encode(dense), slow_encoding(dense)
    for chunk, data in enumerate(expected):
        assert np.array_equal(chunk_bytes(A, chunk), data), f"chunk {chunk}"
    assert A.arrays["data"].numel() == sum(data.size for data in expected)
    assert A.largest_chunk == max(data.size for data in expected)
    A.validate()
    assert same_bits(A.decode(), dense)
    return A


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.999, 1.0])
def test_all_bytes_are_those_of_a_slow_encoder(sparsity):
    assert_written(random_sparse(70, 400, sparsity))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_with_a_dense_tile(pattern):
    dense = random_sparse(120, 500, 0.8, pattern=pattern)
    dense[30:50, 200:303] = 1.5
    assert_written(dense)


def test_lines_are_those_that_cost_least():
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[:16, :4] = torch.tensor([1, 0, 0, 1])  # two words in each lane with t = 0
    assert lines_and_steps(assert_written(dense), 0) == (2, 0)
    dense[0, 16:20] = torch.tensor([0, 1, 0, 0])  # a third one in lane 0
    # A step of its own costs 48 bytes and 256 more, a line only 128.
    assert lines_and_steps(assert_written(dense), 0) == (3, 0)
    dense[0, 4:8] = 1  # two entries of lane 1: the step is there, a line is saved
    assert lines_and_steps(assert_written(dense), 0) == (2, 1)
    dense[0, 16:28] = 1  # and six more with their step full: now one line holds three words
    assert lines_and_steps(assert_written(dense), 0) == (3, 1)


def test_no_more_than_thirteen_lines_are_saved():
    dense = torch.zeros(64, 256, dtype=torch.float16)
    dense[0] = torch.tensor([1, 0, 0, 0]).repeat(64)  # row 0: 16 words in each of lanes 0 to 3
    dense[:16, ::16] = 1  # 32 in lanes with t = 0
    A = assert_written(dense)
    assert lines_and_steps(A, 0) == (32, 0)
    dense[:] = 0
    dense[0, ::16] = dense[8, :128:16] = 1  # 24 words, all in lane 0
    assert lines_and_steps(assert_written(dense), 0) == (11, 2)


def test_full_groups_take_turns():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[0, :] = torch.arange(1, 257).half()
    first = chunk_bytes(assert_written(dense), 0)
    assert first[HEADER + 2 : HEADER + 4].view(np.uint16) == 16
    # Lane 0 has groups 0, 4, 16, 20, ... of row 0, in order of tiles and halves: it leaves out
    # columns 0 and 1 of the first, 1 and 2 of the second.
    reading = SlowReading(Lane24Strips.encode(dense))
    assert reading.entries == 128
    values, rows, columns = first[STEPS : STEPS + 48].view(np.uint16).reshape(3, 8)
    assert columns.tolist() == [0, 1, 18, 67, 4, 5, 22, 71] and (rows == 1).all()
    assert np.array_equal(values, bits_of(dense)[0, columns])
    dense[0] = torch.tensor([0, 1, 1, 1]).repeat(64)  # lane 0 leaves out 1, 17, 66, 83, 129, ...
    columns = chunk_bytes(assert_written(dense), 0)[STEPS : STEPS + 48].view(np.uint16)[16:]
    assert columns.tolist() == [1, 66, 83, 5, 70, 87, 17, 194]


# --- size


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 1.0])
@pytest.mark.parametrize("shape", [(512, 9216), (330, 5000)])
def test_bytes_are_expected(sparsity, shape):
    A = Lane24Strips.encode(random_sparse(*shape, sparsity))
    exact = sparsity in (0, 1)
    expected = Lane24Strips.expected_nbytes(*shape, sparsity)
    assert A.nbytes == pytest.approx(expected, rel=1e-9 if exact else 0.015)


def test_expected_lines_and_steps_are_chosen_as_the_encoder_does():
    padded = np.pad(bits_of(random_sparse(96, 512, 0.75)), ((0, 32), (0, 0)))
    slow = [
        SlowChunk(padded[row : row + 16, column : column + 256])
        for row in range(0, 128, 16)
        for column in (0, 256)
    ]
    held = np.zeros((len(slow), 32), np.int64)
    for chunk, words in enumerate(one.words for one in slow):
        for word in (word for lane in words for word in enumerate(lane)):
            held[chunk, word[0]] += len(word[1][3])
    chosen = lane_24_strips.choose(held, np.array([len(one.left) for one in slow]))
    assert chosen.lines.tolist() == [one.lines() for one in slow]
    sizes = [one.sizes(one.lines()) for one in slow]
    assert chosen.steps.tolist() == [size[0] for size in sizes]
    assert chosen.nbytes.tolist() == [size[3] for size in sizes]


def test_a_dense_chunk_is_the_largest_and_has_far_steps():
    dense = torch.ones(64, 512, dtype=torch.float16)
    A = assert_written(dense)
    most = 1024 + 32 * 128 + 12032  # header, lines, 249 far steps in whole 128 bytes
    assert A.largest_chunk == most == 17152 and A.constants == (most,)
    assert A.nbytes == 8 * most + 4 * 9 + 4
    for chunk in range(8):
        assert lines_and_steps(A, chunk) == (32, 256)
        far_at = chunk_bytes(A, chunk)[644:648].view(np.uint32)
        assert 16 * int(far_at[0]) == most * chunk + 1024 + 32 * 128


def test_seven_steps_are_near():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    for full, steps, far in ((28, 7, False), (29, 8, True)):
        dense[0, : 4 * full] = 1  # two entries of each
        dense[1:] = torch.tensor([1, 0, 0, 1]).repeat(64)  # so that every line pays
        A = assert_written(dense)
        far_at = int(chunk_bytes(A, 0)[644:648].view(np.uint32)[0])
        assert lines_and_steps(A, 0)[1] == steps and bool(far_at) == far


def test_a_chunk_without_weights_is_a_header():
    A = Lane24Strips.encode(torch.zeros(64, 256, dtype=torch.float16))
    assert A.nbytes == 4 * 768 + 4 * 5 + 4
    assert lines_and_steps(A, 0) == (0, 0)


# --- use, and refusals


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.95])
def test_weights_that_are_not_finite_survive(dtype, sparsity):
    dense = random_sparse(70, 100, sparsity, dtype=dtype)
    places = dense.view(torch.int16).flatten().nonzero().flatten()[::7]
    odd = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0], dtype=dtype)
    dense.flatten()[places] = odd.repeat(len(places))[: len(places)]
    A = Lane24Strips.encode(dense)
    A.validate()
    assert same_bits(A.decode(), dense) and A.nnz == int((dense.view(torch.int16) != 0).sum())


def test_the_reference_multiplies_and_the_cpu_refuses():
    W, B = random_sparse(70, 100, 0.5, mean=0.5), torch.randn(100, 3).half()
    A = Lane24Strips.encode(W)
    accuracy.check(spmm(A, B, backend="reference"), W, B)
    with pytest.raises(ValueError, match="A is lane_24_strips; backend 'cpu' multiplies dense"):
        spmm(A, B)


def eleven_steps() -> Lane24Strips:
    """64x256; its first chunk has 27 lines, 7 near and 4 far steps, the last one not full."""
    return Lane24Strips.encode(random_sparse(64, 256, 0.7))


def refused(A: Lane24Strips, name: str, at: int, values: list[int], message: str) -> None:
    """Raise unless `values`, from element `at` of an array of A on, are found, and named."""
    array = A.arrays[name].clone()
    assert array[at : at + len(values)].tolist() != values
    array[at : at + len(values)] = torch.tensor(values).to(array.dtype)
    with pytest.raises(ValueError, match=f"invalid lane_24_strips encoding.*{message}"):
        Lane24Strips(A.shape, A.dtype, {**A.arrays, name: array})


SIZE = "chunk 0 has a size that its header does not state"
ENTRY = "chunk 0 has an entry that is out of place"
ORDER = "chunk 0 has a group whose two values are not in ascending order"
GARBAGE = "chunk 0 has a non-zero that is no value"
LINES = 1024  # where they begin after seven near steps
FAR = LINES + 27 * 128


@pytest.mark.parametrize(
    ("name", "at", "values", "message"),
    [
        ("geometry", 0, [128], "its largest chunk is 128 bytes, and has "),
        ("chunk_start", 2, [0], "chunk_start does not ascend"),
        ("chunk_start", 4, [8], "chunk_start begins and ends with"),
        ("data", 640, [0x80], SIZE),  # lines begin elsewhere
        ("data", 642, [14], SIZE),  # three steps more, one line less
        ("data", 643, [255], SIZE),
        ("data", 644, [0, 0], SIZE),  # far steps without an offset
        ("data", 512, [0xFF] * 4, "chunk 0 has more words in a lane than lines"),
        ("data", 642, [12], ENTRY),  # a step more, for which there is room
        ("data", 656, [0, 0], ENTRY),  # a value of +0
        ("data", 656 + 16, [0, 0], ENTRY),  # not in use, in front of some that are
        ("data", 656 + 16, [3, 0], ENTRY),  # two rows
        ("data", 656 + 33, [1], ENTRY),  # a column of another chunk
        ("data", FAR + 3 * 48 + 14, [1], ENTRY),  # a value of an entry that is not in use
        ("data", FAR + 3 * 48 + 46, [0xFF], ENTRY),  # its column
        ("data", 0, [0x00], ORDER),
        ("data", 0, [0x11], ORDER),
        ("data", LINES, [0, 0, 0, 0], r"chunk 0 stores a \+0"),
        ("data", 648, [1], GARBAGE),
        ("data", 655, [1], GARBAGE),
        ("data", LINES - 1, [1], GARBAGE),
        ("data", FAR + 4 * 48, [1], GARBAGE),  # behind far steps
        ("data", FAR + 2 * 128 - 1, [1], GARBAGE),
    ],
)
def test_damage_is_named(name, at, values, message):
    A = eleven_steps()
    assert lines_and_steps(A, 0) == (27, 11)
    refused(A, name, at, values, message)


def test_a_wrong_size_is_found():
    A = eleven_steps()
    units = int(A.arrays["chunk_start"][1])
    largest = 16 * int(A.arrays["chunk_start"].diff().max())
    for wrong in (8, 41, units - 8, units - 1, units + 1, units + 8):
        starts = A.arrays["chunk_start"].clone()
        starts[1] = wrong
        geometry = torch.tensor([max(largest, 16 * int(starts.diff().max()))], dtype=torch.int32)
        arrays = {**A.arrays, "chunk_start": starts, "geometry": geometry}
        with pytest.raises(ValueError, match=SIZE):
            Lane24Strips(A.shape, A.dtype, arrays)


def test_a_group_without_a_word_has_the_first_two_indices():
    A = Lane24Strips.encode(torch.zeros(64, 256, dtype=torch.float16))
    for nibbles in (0x48, 0x84, 0xE4):
        refused(A, "data", 5, [nibbles], ORDER)


def test_a_line_behind_the_words_of_a_lane_is_zero():
    A = eleven_steps()
    data = chunk_bytes(A, 0)
    lane = next(i for i in range(32) if words_of(data, i) < 27)
    refused(A, "data", LINES + 128 * words_of(data, lane) + 4 * lane, [1], GARBAGE)


def words_of(chunk: np.ndarray, lane: int) -> int:
    return int(chunk[PRESENT:HEADER].view(np.uint32)[lane]).bit_count()


@pytest.mark.parametrize("shape", [(100, 300), (128, 290), (80, 512)])
def test_a_weight_outside_of_the_matrix_is_found(shape):
    larger = Lane24Strips.encode(random_sparse(128, 300 if shape[1] < 301 else 512, 0.5))
    with pytest.raises(ValueError, match="has a value outside of the matrix"):
        Lane24Strips(shape, larger.dtype, larger.arrays)


def test_a_weight_that_is_stored_twice_is_found():
    dense = torch.zeros(16, 256, dtype=torch.float16)
    dense[:, :2] = dense[0, 2:4] = 1
    A = Lane24Strips.encode(dense)
    step = A.arrays["data"][STEPS : STEPS + 48].view(torch.int16).view(3, 8)
    assert step[2].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]  # entries; the word has columns 2 and 3
    for column in (0, 2):
        refused(A, "data", STEPS + 34, [column], "it stores a weight twice")
