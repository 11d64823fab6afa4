"""The rungs: which kernel of kernels/ladder, on which encoding, and the idea that each one adds."""

import re
from dataclasses import dataclass, field

from lab_utils import toolchains

SOURCES = toolchains.SOURCES / "ladder"


@dataclass(frozen=True)
class Rung:
    """One version of a kernel.

    `kernel` is the name of its file, `options` are those of the format's encoder. With `shares`,
    tiles are shared out to as many workers as a GPU runs at once; else each block has a row.
    """

    name: str
    title: str
    idea: str
    format: str
    kernel: str
    options: dict[str, object] = field(default_factory=dict)
    shares: bool = False

    @property
    def ladder(self) -> str:
        """The format that its ladder is about: rung 1 of Tiled-CSL is dense."""
        return "tca_bme" if self.format == "tca_bme" else "tiled_csl"

    @property
    def label(self) -> str:
        """Number and title, for readers."""
        return f"{self.name.removeprefix(self.ladder).split('_')[1]}. {self.title}"

    @property
    def source(self) -> str:
        """The whole file of its kernel."""
        return (SOURCES / f"{self.kernel}.cu").read_text()

    @property
    def excerpt(self) -> str:
        """Its kernel alone, with the functions of its own."""
        kernel = re.compile(r"namespace {\n\n(.*?)\n\ntemplate <class T>\nConfig", re.DOTALL)
        return kernel.search(self.source)[1]


IN_ORDER = {"reorder": False}
_ALL = (
    Rung("tiled_csl_1_dense", "dense", "a plain GEMM on tensor cores; every weight is loaded",
         "dense", "tiled_csl_1_dense"),
    Rung("tiled_csl_2_sparse", "load sparse", "load non-zeros alone, extract them in shared memory",
         "tiled_csl", "tiled_csl_2_sparse", IN_ORDER),
    Rung("tiled_csl_3_registers", "registers", "words wait in registers, not in shared memory",
         "tiled_csl", "tiled_csl_3_registers", IN_ORDER),
    Rung("tiled_csl_4_zeroing", "zeroing overlapped", "clear the tile while words are on their way",
         "tiled_csl", "tiled_csl_4_zeroing", IN_ORDER),
    Rung("tiled_csl_5_double_buffer", "double buffer", "load a tile while another is multiplied",
         "tiled_csl", "tiled_csl_5_double_buffer", IN_ORDER),
    Rung("tiled_csl_6_reordered", "reordered words", "order words ahead of time, bank by bank",
         "tiled_csl", "tiled_csl_5_double_buffer"),
    Rung("tiled_csl_7_shares", "shares of tiles", "equal work for all blocks; rows may be split",
         "tiled_csl", "tiled_csl_7_shares", shares=True),
    Rung("tca_bme_1_two_popcounts", "two popcounts", "each weight is found by counting bits",
         "tca_bme", "tca_bme_1_two_popcounts"),
    Rung("tca_bme_2_running_count", "running count", "no bit is counted twice",
         "tca_bme", "tca_bme_2_running_count"),
    Rung("tca_bme_3_pipeline", "async pipeline", "load a tile while another is decoded",
         "tca_bme", "tca_bme_3_pipeline"),
)  # fmt: skip

RUNGS: dict[str, Rung] = {rung.name: rung for rung in _ALL}
KERNELS_IN_ORDER = tuple(dict.fromkeys(rung.kernel for rung in _ALL))  # as in launch.cu


def by_name(name: str) -> Rung:
    """The rung of that name. Raises ValueError for an unknown one."""
    if name not in RUNGS:
        raise ValueError(f"rung={name!r}: unknown; allowed: {', '.join(RUNGS)}")
    return RUNGS[name]
