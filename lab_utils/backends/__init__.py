"""How an operation is launched: four backends, chosen by name or by device, and their parts.

The backends are `cuda`, `cpu`, `emulator` and `reference`. Each offers `name`, `formats`,
`devices`, `problem()`, `plan(A, B)`, which is a `plan.Plan`, and `spmm(A, B, C)`.

The others serve `cuda` and `emulator`, which launch the same kernels: `kernels` names them by
format, `published`, `hopper`, `hopper_wgmma` and `hopper_tiles` launch them, by `launch`, on a
`problem`, a structure of C++. Who multiplies what of A is up to `shares` (published kernels),
`chunk_shares` (hopper), `row_blocks`, `strip_layouts` and `warp_starts` (hopper_wgmma) and
`tile_shares` (hopper_tiles); it is `remembered` for later launches. `crossover` says from how many
columns on A is `decoded` first, `settled` whether a kernel may read it early. `simt` is the machine
behind `emulator`. `boundary` makes a product an op of torch where it is `watched`; one like another
before is `repeated`.
"""

from types import ModuleType

import torch

from lab_utils.backends import cpu, cuda, emulator, reference
from lab_utils.backends.plan import Plan

__all__ = ["BACKENDS", "Plan", "by_name", "for_device", "status"]

BACKENDS: dict[str, ModuleType] = {
    backend.name: backend for backend in (cuda, cpu, emulator, reference)
}


def by_name(name: str) -> ModuleType:
    """The backend of that name. Raises ValueError for an unknown one."""
    if not isinstance(name, str) or name not in BACKENDS:
        raise ValueError(f"backend={name!r}: unknown; allowed: {', '.join(BACKENDS)}")
    return BACKENDS[name]


def for_device(device: torch.device) -> ModuleType:
    """The backend that `backend=None` takes for tensors on `device`; never a silent fallback."""
    compiled = {"cpu": cpu, "cuda": cuda}
    if device.type in compiled:
        return compiled[device.type]
    raise RuntimeError(
        f"no compiled backend for tensors on {device}; move A and B to the CPU, "
        "or name backend='reference'"
    )


def status() -> dict[str, str | None]:
    """For each backend, None if it works on this machine, else the reason why not."""
    return {name: backend.problem() for name, backend in BACKENDS.items()}
