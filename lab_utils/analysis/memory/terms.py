"""Bytes that each GPU needs, term by term."""

from dataclasses import replace

from lab_utils.analysis.compression import VALUE_BYTES, format_bytes, stored_extra_bytes
from lab_utils.analysis.gpu_products import OF_SM_90
from lab_utils.analysis.kernel_scratch import scratch_bytes
from lab_utils.analysis.memory.workload import Workload
from lab_utils.analysis.variants import variant_of
from lab_utils.analysis.zero_row_24 import streams_of
from lab_utils.catalog import Model, layer_shapes

CONTEXT_BYTES = 0.89e9  # what dense OPT-30B took on one H200 beyond the other terms (CUDA 13.0)
NCCL_BYTES = 1.05e9  # and on each of two that add up their products
LIBRARY_BYTES = 32 << 20  # torch's cuBLAS workspace on sm_90, for each stream; less elsewhere
# With more tokens a product may decode a matrix first, so much of it at a time (backends.decoded).
ONE_PASS, PIECE_BYTES = 64, 256 << 20
SKIPPED = 0.012  # of the bytes of packed streams of zero-row 2:4, to avoid bank conflicts


def needs(work: Workload) -> dict[str, float]:
    """Bytes that each GPU needs at its peak, by term.

    "weights": the four matrices of every layer, encoded or dense; "tables": embeddings, positions,
    biases and norms, whole on every GPU; "cache": keys and values of every position of every
    sequence; "activations": tensors of the prompt phase that live at the same time; "workspace":
    scratch memory of kernels, rows decoded for the prompt phase, cuBLAS's buffer; "graphs": private
    memory of captured decode steps; "context": the driver, the kernels' code, and NCCL's buffers on
    several GPUs.
    """
    return {
        "weights": _weights(work),
        "tables": _tables(work.model, work.gpus),
        "cache": _cache(work),
        "activations": _activations(work),
        "workspace": _workspace(work),
        "graphs": _graphs(work),
        "context": CONTEXT_BYTES + NCCL_BYTES * (work.gpus > 1),
    }


def total(work: Workload) -> float:
    """Bytes that each GPU needs at its peak."""
    return sum(needs(work).values())


def encoded_bytes(format: str, M: int, K: int, sparsity: float) -> float:
    """Expected bytes of a matrix in a format, or in a variant of one, for a random mask."""
    name, options = variant_of(format)
    nbytes = format_bytes(name, M, K, sparsity, **options)
    streams = options.get("streams", streams_of(M, K, sparsity).name.lower())
    if name == "zero_row_24" and streams == "packed":
        nbytes *= 1 + SKIPPED
    return nbytes + stored_extra_bytes(name, M, K)


def _weights(work: Workload) -> float:
    encoded, dense = 0.0, 0.0
    for matrix, (M, K) in layer_shapes(work.model, work.gpus).items():
        names = (f"layers.{layer}.{matrix}" for layer in range(work.model.layers))
        kept = sum(work.dense(name) for name in names)
        dense += kept * VALUE_BYTES * M * K
        encoded += (work.model.layers - kept) * encoded_bytes(work.format, M, K, work.sparsity)
    return encoded + dense


def _tables(model: Model, gpus: int) -> float:
    """Everything but the matrices; biases of qkv and fc1 are cut with them."""
    H, embed = model.hidden, model.embed or model.hidden
    tables = model.vocab * embed * (1 if model.tied else 2) + (model.max_positions + 2) * H
    projections = 2 * embed * H if embed != H else 0
    biases = (3 * H + model.ffn) / gpus + 2 * H
    norms = 2 * H * (2 * model.layers + model.norm_first)
    return VALUE_BYTES * (tables + projections + model.layers * biases + norms)


def _cache(work: Workload) -> float:
    m = work.model
    width = m.kv_heads // work.gpus * m.head_dim
    return VALUE_BYTES * m.layers * 2 * work.batch * work.slots * width


def _activations(work: Workload) -> float:
    """Of the feed-forward half, the wider one: x, before attention and after it, its norm, fc1's
    and fc2's output.

    A sparse layer adds its bias in a second copy of its output, unless the product does. Logits are
    of the last position alone.
    """
    m, tokens, ffn = work.model, work.batch * work.prompt, work.model.ffn / work.gpus
    widths = 4 * m.hidden + ffn
    if variant_of(work.format).format in OF_SM_90:  # whose products add fc1's bias
        widths += m.hidden
    elif work.format != "dense":
        widths += max(ffn - m.hidden, m.hidden)
    return VALUE_BYTES * (tokens * widths + work.batch * m.vocab)


def _workspace(work: Workload) -> float:
    """cuBLAS's buffer; for sparse weights the scratch memory of kernels, and the piece of a matrix
    that the prompt phase decodes, at most PIECE_BYTES of it.
    """
    if work.format == "dense":
        return LIBRARY_BYTES
    sizes = [VALUE_BYTES * M * K for M, K in layer_shapes(work.model, work.gpus).values()]
    piece = min(max(sizes), PIECE_BYTES)
    return _scratch(work) + piece * (work.batch * work.prompt > ONE_PASS) + LIBRARY_BYTES


def _graphs(work: Workload) -> float:
    """What one decode step computes: its activations are those of a prompt of one token.

    Steps are captured on a stream of their own, for which cuBLAS has another workspace, and with
    scratch memory of their own.
    """
    activations = _activations(replace(work, prompt=1, output=work.positions - 1))
    return activations + _scratch(work) + LIBRARY_BYTES


def _scratch(work: Workload) -> int:
    """Of the largest product of a decode step."""
    shapes = layer_shapes(work.model, work.gpus).values()
    format, _ = variant_of(work.format)
    return max(scratch_bytes(format, M, K, work.batch) for M, K in shapes)
