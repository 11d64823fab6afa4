"""The wgmma kernel, each time without one of its waits, fences and barriers: the emulator tells."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from robbed import Kernels, robbed

from lab_utils import spmm, toolchains
from lab_utils.backends import emulator, hopper_wgmma
from lab_utils.backends.simt import KernelFault
from lab_utils.formats import BitmapStrips, ZeroRow24Strips
from lab_utils.patterns import random_sparse

SPMM = toolchains.SOURCES / "spmm"


class Case(NamedTuple):
    """Sources that are robbed, and a product that needs what they lose: its launcher, A, columns.

    A has more rounds than tiles of B' have places.
    """

    launcher: str
    sources: list[Path]
    A: Callable[[], ZeroRow24Strips | BitmapStrips]
    columns: tuple[int, ...]


OF_STREAMS = [SPMM / "hopper_wgmma_streams.cuh", SPMM / "hopper_wgmma_columns.cuh"]
OF_WIDE = [SPMM / "hopper_wgmma_quarters.cuh", SPMM / "hopper_wgmma_ends.cuh"]
# What all formats have, is robbed with the first one.
SHARED = sorted(set(SPMM.glob("hopper_wgmma*.cu*")) - {*OF_STREAMS, *OF_WIDE})
CASES = {
    "zero row": Case(
        "wgmma",
        [source for source in SHARED if "select" not in source.name],
        lambda: ZeroRow24Strips.encode(random_sparse(400, 1400, 0.5, seed=1), levels=1),
        (40,),
    ),
    "bitmaps": Case("wgmma_bitmap", OF_STREAMS, lambda: bitmaps(2900), (40,)),
    "wide": Case("wgmma_bitmap", OF_WIDE, lambda: bitmaps(1400), (150, 300)),
}


def bitmaps(K: int) -> BitmapStrips:
    return BitmapStrips.encode(random_sparse(400, K, 0.6, seed=1))


SYNCHRONISES = re.compile(
    r"__sync(?:threads|warp)\(\)|mbarrier_wait\((?:[^()]|\([^()]*\))*\)|mbarrier_init_fence\(\)"
    r"|async_proxy_fence\(\)"
    r"|(?:wait_for|unset)_flag\(from\.flag\(strip\)\)|set_flag\(to\.flag\(strip\)\)"
    r"|(?:sparse|dense)\.wait\(\)|wait_for_previous_grid\(\)|wgmma_(?:fence|commit|wait<\d>)\(\)"
)
# Kernels that the products here do not use: they are not compiled.
USED = 40, 160, 320
OTHERS = re.compile(rf"case (?!(?:{'|'.join(map(str, USED))}):)\d+: return launch<.*;")
BF16 = "launch_blocks<FORMAT, __nv_bfloat16>(p, stream)"
ROBBED = [(name, one) for name, case in CASES.items() for one in robbed(case.sources, SYNCHRONISES)]
LOST = "|".join(
    (r"no (?:barrier|wait|fence) between|no flag tells of it", "no griddepcontrol.wait before",
     "nothing has been written", "ends while a wgmma is under way", "no block before it sets",
     "nobody takes away", "has not seen set")
)  # fmt: skip


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kernels]:
    def fewer(text: str) -> str:
        return OTHERS.sub("", text).replace(BF16, "cudaErrorInvalidValue")

    def of(name: str, case: Case) -> Kernels:
        cases = [one for other, one in ROBBED if other == name]
        source, folder = SPMM / f"hopper_{case.launcher}.cu", tmp_path_factory.mktemp("robbed")
        return Kernels([source], cases, folder, fewer, launch=case.launcher)

    return {name: of(name, case) for name, case in CASES.items()}


def multiply(name: str, N: int) -> None:
    """By a product whose row blocks have owners, and by one whose partial sums add_slots adds."""
    A = CASES[name].A()
    assert hopper_wgmma.layout_of(A, N, 1, None).block_n in USED  # others are not compiled
    for split_k in (1.5, 4):
        with emulator.recording(split_k=split_k):
            spmm(A, torch.ones(A.shape[1], N).half(), backend="emulator")


@pytest.mark.parametrize(
    ("name", "one", "N"),
    [(name, one, N) for name, one in ROBBED for N in CASES[name].columns],
    ids=str,
)
def test_no_synchronisation_can_go(kernels, monkeypatch, name, one, N) -> None:
    """Each wait, fence and barrier is needed, and losing it is noticed."""
    monkeypatch.setattr(emulator, "machine", lambda: kernels[name].without(one))
    launched = "expand_dense|hopper_wgmma|add_slots"
    with pytest.raises(KernelFault, match=rf"^({launched})<.* ({LOST})"):
        multiply(name, N)


@pytest.mark.parametrize(("name", "N"), [(name, N) for name in CASES for N in CASES[name].columns])
def test_with_all_of_them_nothing_is_wrong(kernels, monkeypatch, name: str, N: int) -> None:
    monkeypatch.setattr(emulator, "machine", lambda: kernels[name].without(None))
    multiply(name, N)
