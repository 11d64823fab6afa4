"""Products of many columns decode A once and multiply it dense: when, how, and what is said."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from lab_utils import accuracy, catalog, encode, explain, sparse_linear, spmm
from lab_utils.analysis.variants import PACKED
from lab_utils.backends import crossover, cuda, decoded
from lab_utils.backends.crossover import COSTS, Product
from lab_utils.backends.gpus import Gpu, gpu_of
from lab_utils.backends.hopper_wgmma import FORMATS as STRIPS
from lab_utils.backends.kernels import KERNELS, name_of, ways_of
from lab_utils.backends.strip_layouts import CODES, OF_DENSE_WGMMA
from lab_utils.formats import FORMATS
from lab_utils.patterns import random_sparse

H200, MULTIPROCESSORS = gpu_of(torch.device("cpu")), 132
M, K = 330, 200  # rows: no multiple of a piece
NS = (100, 256, 350, 400, 512)
SLOW = (320, 448)  # columns: cuBLAS has slow products of some shapes
formats = pytest.mark.parametrize("format", cuda.formats)


def activations(N: int, dtype: torch.dtype = torch.float16) -> Tensor:
    """B [K, N], its columns contiguous."""
    generator = torch.Generator().manual_seed(N)
    return torch.randn(N, K, generator=generator).add_(0.5).to(dtype).T


@pytest.fixture
def h200(monkeypatch) -> None:
    """What backend cuda asks of the GPU; its plan is made, but no kernel can be launched."""
    monkeypatch.setattr(cuda, "_multiprocessors", lambda _: MULTIPROCESSORS)
    monkeypatch.setattr(cuda, "format_problem", lambda *_: None)
    monkeypatch.setattr(cuda, "_failed_selections", lambda *_: 0)


@pytest.fixture
def small_pieces(monkeypatch) -> None:
    monkeypatch.setattr(decoded, "PIECE_BYTES", 2 * 128 * K)


@pytest.mark.parametrize("format", COSTS)
def test_many_columns_decode_first_and_few_do_not(format: str) -> None:
    chosen, widest = {}, 128 if format in STRIPS else 64
    for N in (1, 8, 16, 32, 512, 1024, 4096):
        product = Product(format, 400_000_000, 36864, 9216, N, min(widest, max(8, N)))
        chosen[N], why = crossover.fastest(product, H200)
        assert "400.0 MB read and 679.5 written" in why and "NVIDIA H200" in why
    late = {"zero_row_24_strips": 1024, "bitmap_strips": 1024, "coded_strips": 4096}
    least = late.get(format, 512)  # lanes have 400 MB at 75 %
    assert [N for N, way in chosen.items() if way == "decoded"] == [N for N in chosen if least <= N]


def test_gpus_are_found_by_their_names(monkeypatch) -> None:
    def title(name: str) -> str:
        gpu_of.cache_clear()
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
        return gpu_of(torch.device("cuda", 0)).title

    try:
        assert title("NVIDIA A100-SXM4-80GB") == "NVIDIA A100 SXM 80 GB"
        assert title("NVIDIA GeForce RTX 4090") == "NVIDIA GeForce RTX 4090"
        assert title("NVIDIA H200") == title("NVIDIA B900") == "NVIDIA H200 SXM 141 GB"
    finally:
        gpu_of.cache_clear()


def test_packed_streams_have_costs_of_their_own() -> None:
    dense = random_sparse(64, 96, 0.8)
    packed, pairs, nested = (
        encode(dense, "zero_row_24", streams=name) for name in ("packed", "pairs", "nested")
    )
    names = ("tca_bme", "lane_24_strips", "bitmap_strips", "coded_strips")
    others = [encode(dense, format) for format in names]
    found = [crossover.costs_of(A) for A in (packed, pairs, nested, *others)]
    assert found == [PACKED, "zero_row_24", crossover.NESTED, *names]
    assert set(COSTS) == {*cuda.formats, PACKED, crossover.NESTED}


def test_work_goes_by_clocks_and_no_time_is_impossible() -> None:
    """A product whose weights are many: on half as fast multiprocessors, and on all GPUs."""
    half = H200._replace(clocks_per_us=H200.clocks_per_us / 2)
    start = COSTS["lane_24_strips"].start_us
    lanes = Product("lane_24_strips", 270_000_000, 36864, 9216, 64, 64)
    busy = crossover.kernel_us(lanes, H200) - start
    assert crossover.kernel_us(lanes, half) - start == pytest.approx(2 * busy)
    tiled = lanes._replace(encoded_bytes=600_000_000).by_tiles(1, 1.0, 512)
    few = tiled._replace(encoded_bytes=0)  # none without a place in rings
    far = [crossover.tiles_us(tiled, gpu) - crossover.tiles_us(few, gpu) for gpu in (H200, half)]
    assert far[1] == pytest.approx(2 * far[0]) and far[0] > 0
    for gpu in map(Gpu.of, catalog.devices().values()):
        for product in (lanes, Product("tca_bme", 80_000_000, 8192, 8192, 512, 128)):
            told = crossover.kernel_us(product, gpu)
            flops = 2 * product.M * product.K * product.passes * product.block_n
            assert told >= flops / gpu.peak_tflops / 1e6
            assert told >= product.passes * product.encoded_bytes / gpu.bandwidth_gb_s / 1e3


@formats
def test_explain_says_which_way_and_why(h200, format: str) -> None:
    A = encode(random_sparse(2048, 2048, 0.7), format)
    most = 8192 if format in ("tca_bme", *OF_DENSE_WGMMA) else 2048  # fewer are faster by tiles
    few, many = (cuda.plan(A, torch.empty(2048, N).half()) for N in (8, most))
    assert few.kernel in (f"{format}_mma", f"{format}_wgmma") and "blocks" in few.choices
    assert few.choices["decoded"].startswith("in the kernel: ") and "1 pass of" in str(few)
    why = "passes of"
    if format == CODES:  # with any number of columns
        assert many.kernel == f"{format}_tiles"
        with cuda.forced("decoded"):
            many, why = cuda.plan(A, torch.empty(2048, most).half()), "first: forced"
    assert many.kernel == f"{format}_decoded" and many.split_k == 1
    assert "copies" in few.choices and "copies" not in many.choices  # B is in rows
    assert many.choices["pieces"].startswith("1 of at most 2048 rows, decoded into 8.4 MB")
    assert many.choices["decoded"].startswith("first: ") and why in str(many)


@formats
def test_a_plan_is_made_once_for_each_number_of_columns(h200, monkeypatch, format: str) -> None:
    """And for the sizes of an encoding, whatever its values; forced ways make their own."""
    kernel = KERNELS[format]
    monkeypatch.setattr(kernel, "layout_of", made := Mock(wraps=kernel.layout_of))
    A, again = (encode(random_sparse(M, K, 0.7), format) for _ in range(2))
    plans = [cuda.plan(A, activations(N)) for N in (8, 8, 9)]
    assert plans[0] == plans[1] and made.call_count == 2
    first = next(iter(A.arrays.values()))
    first.copy_(first.clone())
    cuda.plan(A, activations(8))
    assert made.call_count == 2
    cuda.plan(again, activations(8))
    assert made.call_count == 3
    with cuda.forced("fused"):
        cuda.plan(A, activations(8))
    assert made.call_count == 4


@formats
def test_a_launch_of_a_known_plan_is_that_of_a_new_one(h200, monkeypatch, format: str) -> None:
    """What launchers are given, but for the addresses of scratch memory: of host tensors."""
    given, current = [], []

    def call(library: str, *arguments: object, defines: tuple[str, ...] = ()) -> None:
        assert arguments[-1] == "stream of cpu" and current == [C.device]
        function, problem = arguments[:-2], arguments[-2]._obj
        every = [one for cls in type(problem).__mro__ for one in cls.__dict__.get("_fields_", ())]
        names = {name for name, _ in every} - {"partial", "tiles", "A"}
        fields = {name: getattr(problem, name) for name in names}
        given.append((library, function, tuple(problem.A), fields, defines))

    @contextmanager
    def on(device: torch.device) -> Iterator[None]:
        current.append(device)
        yield
        current.remove(device)

    monkeypatch.setattr(cuda, "on", on)
    monkeypatch.setattr(cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(cuda, "call", call)
    A = encode(random_sparse(M, 2048, 0.8), format)
    for N in (8, 16):
        B, C = torch.randn(N, 2048).half().T, torch.empty(N, M, dtype=torch.float16).T
        for _ in range(2):
            cuda.spmm(A, B, C)
        with cuda.forced("fused"):
            cuda.spmm(A, B, C)
    few, many = given[:3], given[3:]
    assert few[0] == few[1] == few[2] and many[0] == many[1] == many[2]
    assert (few[0][3]["N"], many[0][3]["N"]) == (8, 16) and few[0][2] == many[0][2]
    assert any(few[0][2]) and few[0][3]["C"]


def test_a_way_can_be_forced(h200) -> None:
    A, B = encode(random_sparse(M, K, 0.6), "tca_bme"), activations(8)
    with cuda.forced("decoded"):
        assert cuda.plan(A, B).kernel == "tca_bme_decoded"
        assert cuda.plan(A, B).choices["decoded"] == "first: forced"
    with cuda.forced("fused"):
        assert cuda.plan(A, activations(4096)).kernel == "tca_bme_mma"
    with pytest.raises(ValueError, match="way='dense': unknown; allowed: fused, tiles, decoded"):
        cuda.forced("dense").__enter__()
    with cuda.forced("tiles"):
        with pytest.raises(ValueError, match="way='tiles': tiled_csl has none; allowed: fused, de"):
            cuda.plan(encode(random_sparse(M, K, 0.6), "tiled_csl"), B)
        plan = cuda.plan(A, B)
        assert plan.kernel == "tca_bme_tiles" and plan.choices["decoded"].endswith("forced")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@formats
def test_pieces_make_the_product(h200, small_pieces, format: str, dtype: torch.dtype) -> None:
    """On the host, whose decoders and products do the same as a GPU's."""
    W = random_sparse(M, K, 0.6, dtype=dtype, mean=0.5)
    A = encode(W, format)
    for N in NS:
        rows = decoded.rows_of_piece(A, N, MULTIPROCESSORS)
        assert M % rows and rows == 128
        B, canvas = activations(N, dtype), torch.full((M, 2 * N), 7.0, dtype=dtype)
        for C in (torch.full((N, M), torch.nan, dtype=dtype).T, canvas[:, ::2]):
            with cuda.forced("decoded"):
                cuda.spmm(A, B, C)
            accuracy.check(C, W, B)
        assert bool((canvas[:, 1::2] == 7).all())


def test_pieces_of_many_columns_make_the_product(h200, monkeypatch) -> None:
    """Of which the last is smaller, as the plan says."""
    monkeypatch.setattr(decoded, "PIECE_BYTES", 2 * 640 * K)
    W, B = random_sparse(1100, K, 0.6, mean=0.5), activations(1024)
    A, C = encode(W, "zero_row_24_strips"), torch.full((1024, 1100), torch.nan).half().T
    with cuda.forced("decoded"):
        assert cuda.plan(A, B).choices["pieces"].startswith("3 of at most 512 rows, ")
        cuda.spmm(A, B, C)
    accuracy.check(C, W, B)


def test_pieces_are_whole_blocks_of_about_equal_rows(monkeypatch) -> None:
    A = encode(random_sparse(1000, 64, 0.9), "tiled_csl")
    for piece, rows in ((2**30, 1000), (2 * 64 * 999, 512), (2 * 64 * 400, 384), (1, 128)):
        monkeypatch.setattr(decoded, "PIECE_BYTES", piece)
        assert decoded.rows_of_piece(A, 512, MULTIPROCESSORS) == rows


@pytest.mark.parametrize("N", [1024, 2048, 4096, 5000])
def test_pieces_of_many_columns_leave_few_multiprocessors_idle(monkeypatch, N: int) -> None:
    """No other piece that fits the memory has products of fewer waves of tiles."""
    rows, most = 7168, 4608
    A = encode(random_sparse(rows, 48, 0.9), "zero_row_24_strips")
    monkeypatch.setattr(decoded, "PIECE_BYTES", 2 * 48 * most)

    def waves(piece: int) -> int:
        pieces = [piece] * (rows // piece) + [rows % piece] * (rows % piece > 0)
        return sum(-(-(-(-one // 256) * -(-N // 128)) // MULTIPROCESSORS) for one in pieces)

    found = decoded.rows_of_piece(A, N, MULTIPROCESSORS)
    assert found % 256 == 0 and found <= most
    assert waves(found) == min(waves(piece) for piece in range(most // 2, most + 1, 256))


# --- with a GPU -----------------------------------------------------------------------------------


def on_gpu(format: str, dtype: torch.dtype = torch.float16):
    if reason := cuda.format_problem(format, torch.device("cuda")):
        pytest.skip(reason)
    W = random_sparse(M, K, 0.6, dtype=dtype, mean=0.5)
    return W, encode(W.cuda(), format)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("format", "way"), [(format, way) for format in cuda.formats for way in ways_of(format)]
)
def test_all_ways_on_a_gpu(small_pieces, format: str, way: str, dtype: torch.dtype) -> None:
    W, A = on_gpu(format, dtype)
    for N in NS:
        B, canvas = activations(N, dtype), torch.full((M, 2 * N), 7.0, dtype=dtype, device="cuda")
        with cuda.forced(way):
            first = spmm(A, B.cuda())
            assert explain(A, B.cuda()).kernel == name_of(format, way)
            accuracy.check(first.cpu(), W, B)
            accuracy.check(spmm(A, B.cuda(), out=canvas[:, ::2]).cpu(), W, B)
            assert torch.equal(first, spmm(A, B.cuda()))
        assert bool((canvas[:, 1::2] == 7).all())


@pytest.mark.gpu
@pytest.mark.parametrize("format", [name for name in FORMATS if name != "2:4"])
def test_parts_of_the_rows_are_decoded_on_a_gpu(format: str) -> None:
    for cols in (K, K - 1):
        W = random_sparse(M, cols, 0.6, mean=0.5)
        A = encode(W.cuda(), format)
        for first, rows in ((0, M), (0, 128), (128, 128), (256, M - 256)):
            out = torch.full((rows, cols), torch.nan, dtype=W.dtype, device="cuda")
            assert torch.equal(A.decode_rows(first, out).cpu(), W[first : first + rows])


@pytest.mark.gpu
@formats
def test_decoding_first_in_graphs_and_compiled(small_pieces, format: str) -> None:
    W, A = on_gpu(format)
    x = activations(300).T.cuda()
    with cuda.forced("decoded"):
        expected = sparse_linear(x, A)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = sparse_linear(x, A)
        graph.replay()
        compiled = torch.compile(lambda x: torch.relu(sparse_linear(x, A)), fullgraph=True)
        assert torch.equal(compiled(x), torch.relu(expected))
    assert torch.equal(captured, expected)
    accuracy.check(expected.T.cpu(), W, x.T.cpu())
