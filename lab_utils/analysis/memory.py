"""Memory that decoding takes on each GPU, term by term, and which model fits where.

All of it is arithmetic on dimensions, in bytes: weights by the formulas of `compression`, and what
the decoder of `lab_utils.llm` keeps beside them. Nothing is allocated.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Protocol

from lab_utils.analysis.checked import is_integer
from lab_utils.analysis.compression import FORMULAS, VALUE_BYTES, format_bytes, stored_extra_bytes
from lab_utils.analysis.gpu_products import OF_SM_90, obstacle
from lab_utils.analysis.kernel_scratch import scratch_bytes
from lab_utils.analysis.variants import variant_of, with_variants
from lab_utils.analysis.zero_row_24 import streams_of
from lab_utils.catalog import Device, Model, layer_shapes

KNOWN = tuple(with_variants(FORMULAS))  # formats that can be planned with
GIB = 1 << 30
USABLE = 0.985  # of the datasheet's GiB: torch sees 139 of an H200's 141, 79.1 of an A100's 80
CONTEXT_BYTES = 0.89e9  # what dense OPT-30B took on one H200 beyond the other terms (CUDA 13.0)
NCCL_BYTES = 1.05e9  # and on each of two that add up their products
LIBRARY_BYTES = 32 << 20  # torch's cuBLAS workspace on sm_90, for each stream; less elsewhere
# With more tokens a product may decode a matrix first, so much of it at a time (backends.decoded).
ONE_PASS, PIECE_BYTES = 64, 256 << 20
MOST = 2**31 - 1  # sequences: more than any memory holds, few enough for bytes to be floats
SLOT_ALIGN = 16  # of the cache: masks of torch's attention kernels have rows of whole 32 bytes
SKIPPED = 0.012  # of the bytes of packed streams of zero-row 2:4, to avoid bank conflicts


def no_matrix(name: str) -> bool:
    """Keeps no matrix dense."""
    return False


@dataclass(frozen=True)
class Workload:
    """What is decoded on how many tensor-parallel GPUs; the defaults are Flash-LLM's (sec. 6.3).

    `format` is one of KNOWN, `sparsity` the fraction of zeros, 0 to 1. `dense` says by its name,
    such as "layers.3.fc1", whether a matrix stays dense. `prompt` and `output` count tokens of each
    of the `batch` sequences.
    Raises ValueError where one of them is impossible, for a model that is not an OPT, and where
    the model has fewer positions than `prompt` + `output`.
    """

    model: Model
    format: str = "tiled_csl"
    sparsity: float = 0.8
    batch: int = 8
    prompt: int = 64
    output: int = 512
    gpus: int = 1
    dense: Callable[[str], bool] = no_matrix

    def __post_init__(self) -> None:
        _check(self)

    @property
    def positions(self) -> int:
        """Tokens of each sequence, at the end."""
        return self.prompt + self.output

    @property
    def slots(self) -> int:
        """Tokens that the cache has room for."""
        return whole_slots(self.positions)


def whole_slots(tokens: int) -> int:
    """Tokens that a cache for `tokens` has room for: a multiple of SLOT_ALIGN."""
    return -(-tokens // SLOT_ALIGN) * SLOT_ALIGN


class HasLayers(Protocol):
    """A model's dimensions, of whatever kind."""

    layers: int


def outer_fc1(model: HasLayers) -> Callable[[str], bool]:
    """Says which matrices Flash-LLM's pruned models keep dense (sec. 6.3.1).

    They are the feed-forward inputs, fc1, of the first and of the last quarter of the layers.
    Raises ValueError for a model so small that these are none.
    """
    if (quarter := model.layers // 4) == 0:
        raise ValueError(f"layers={model.layers}: no fc1 is outer, to be kept dense; allowed: 4 up")
    outer = {*range(quarter), *range(model.layers - quarter, model.layers)}
    names = {f"layers.{layer}.fc1" for layer in outer}
    return names.__contains__


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


def usable_bytes(device: Device) -> float:
    """Bytes of a GPU's memory that a program can have."""
    return USABLE * GIB * device.capacity_gb


def largest_batch(work: Workload, capacity: float) -> int:
    """The largest batch that fits into `capacity` bytes on each GPU; 0 where not even one does."""

    def fits(batch: int) -> bool:
        return total(replace(work, batch=batch)) <= capacity

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fewest_gpus(work: Workload, capacity: float, most: int = 8) -> int | None:
    """The fewest GPUs of `capacity` bytes each that hold the workload; None where `most` do not.

    Powers of two that divide the heads: those that tensor parallelism is usually run with.
    Raises ValueError unless `most` is a whole number of at least 1.
    """
    _check_count("most", most)
    powers = (1 << i for i in range(int(most).bit_length()))
    counts = (gpus for gpus in powers if _divides(gpus, work.model))
    return next((g for g in counts if total(replace(work, gpus=g)) <= capacity), None)


def answers(works: Iterable[Workload], devices: Iterable[Device]) -> Iterator[dict]:
    """Rows that say for each workload and device what it needs, and what fits.

    GB are 1e9 bytes. `gb_per_gpu` and `fewest_gpus` are for the workload's batch; `largest_batch`
    is the largest that fits on its GPUs. Where such a GPU cannot multiply the format, however large
    its memory, `obstacle` says why (else ""), no batch is the largest (0), and no number of GPUs is
    enough (None). Raises ValueError where there is no workload, or device.
    """
    works, devices = list(works), list(devices)
    if not (works and devices):
        found = f"{len(works)} workloads, {len(devices)} devices"
        raise ValueError(f"{found}; allowed: 1 or more of each")
    for work in works:
        for device in devices:
            capacity, why = usable_bytes(device), obstacle(work.format, device)
            yield {
                "model": work.model.name,
                "format": work.format,
                "sparsity": work.sparsity,
                "device": device.name,
                "gpus": work.gpus,
                "prompt": work.prompt,
                "output": work.output,
                "batch": work.batch,
                "gb_per_gpu": total(work) / 1e9,
                "usable_gb": capacity / 1e9,
                "largest_batch": 0 if why else largest_batch(work, capacity),
                "fewest_gpus": None if why else fewest_gpus(work, capacity),
                "obstacle": why,
            }


# --- terms -----------------------------------------------------------------------------------


def _weights(work: Workload) -> float:
    encoded, dense = 0.0, 0.0
    for matrix, (M, K) in layer_shapes(work.model, work.gpus).items():
        names = (f"layers.{layer}.{matrix}" for layer in range(work.model.layers))
        kept = sum(work.dense(name) for name in names)
        dense += kept * VALUE_BYTES * M * K
        encoded += (work.model.layers - kept) * encoded_bytes(work.format, M, K, work.sparsity)
    return encoded + dense


def encoded_bytes(format: str, M: int, K: int, sparsity: float) -> float:
    """Expected bytes of a matrix in a format, or in a variant of one, for a random mask."""
    name, options = variant_of(format)
    nbytes = format_bytes(name, M, K, sparsity, **options)
    streams = options.get("streams", streams_of(M, K, sparsity).name.lower())
    if name == "zero_row_24" and streams == "packed":
        nbytes *= 1 + SKIPPED
    return nbytes + stored_extra_bytes(name, M, K)


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


def _divides(gpus: int, model: Model) -> bool:
    return not any(getattr(model, what) % gpus for what in ("heads", "kv_heads", "ffn"))


def _check(work: Workload) -> None:
    if not isinstance(work.model, Model):
        raise ValueError(f"model={work.model!r}; allowed: catalog.model(name)")
    if work.model.family != "opt":
        raise ValueError(f"model={work.model.name!r} is a {work.model.family}; allowed: OPT models")
    if work.format not in KNOWN:
        raise ValueError(f"format={work.format!r} is unknown; allowed: {', '.join(KNOWN)}")
    if not isinstance(work.sparsity, Real) or not 0 <= work.sparsity <= 1:
        raise ValueError(f"sparsity={work.sparsity!r} must lie between 0 and 1")
    for name in ("batch", "prompt", "output", "gpus"):
        _check_count(name, getattr(work, name))
    if work.batch > MOST:
        raise ValueError(f"batch={work.batch} is too large; allowed: at most {MOST}")
    if work.positions > work.model.max_positions:
        raise ValueError(
            f"prompt={work.prompt} and output={work.output} are {work.positions} positions; "
            f"{work.model.name} has {work.model.max_positions}"
        )
    layer_shapes(work.model, work.gpus)  # raises for a number of GPUs that does not divide it


def _check_count(name: str, value: int) -> None:
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
