"""What fits into the memory of a GPU, or of several."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lab_utils.analysis.gpu_products import obstacle
from lab_utils.analysis.memory.terms import total
from lab_utils.analysis.memory.workload import Workload, check_count
from lab_utils.catalog import Device, Model

GIB = 1 << 30
USABLE = 0.985  # of the datasheet's GiB: torch sees 139 of an H200's 141, 79.1 of an A100's 80


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
    check_count("most", most)
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


def _divides(gpus: int, model: Model) -> bool:
    return not any(getattr(model, what) % gpus for what in ("heads", "kv_heads", "ffn"))
