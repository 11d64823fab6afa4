"""What fits the memory of GPUs, and what is said of what does not."""

from dataclasses import replace

import pytest

from lab_utils import catalog
from lab_utils.analysis import memory
from lab_utils.llm import OPTConfig
from lab_utils.llm.measuring import fits

H100, H200 = (memory.usable_bytes(catalog.device(f"{name}-SXM")) for name in ("H100", "H200"))
OPT_175B = catalog.model("OPT-175B")
DENSE = memory.Workload(OPT_175B, "dense", 0.0, batch=16)
PAIRS = memory.Workload(OPT_175B, "zero_row_24", 0.8, batch=16)
ON_EIGHT = replace(PAIRS, gpus=8, batch=memory.largest_batch(replace(PAIRS, gpus=8), H200) + 1)


def test_batches_double_up_to_the_largest() -> None:
    work = memory.Workload(catalog.model("OPT-66B"), "dense", 0.0)
    assert fits.batches(work, H200) == [8]
    sparse = memory.Workload(catalog.model("OPT-66B"), "tca_bme", 0.8)
    assert fits.batches(sparse, H200) == [8, 16, 32, 64]


@pytest.mark.parametrize(
    ("work", "has", "told"),
    [
        (DENSE, H200, "needs 393.* GB on each of gpus=1, and there are 149.1: 4 of them hold it; "
                      "the largest batch here is none"),
        (PAIRS, H200, "2 of them hold it, but 1 would as zero_row_24_packed; .* is 12"),
        (replace(PAIRS, batch=17), H200, "2 of them hold it; the largest batch here is 12"),
        (replace(PAIRS, batch=20, gpus=2), H100, "4 of them hold it, but 2 would as .*; .* is 17"),
        (ON_EIGHT, H200, "8 of them do not hold it either, but 8 would as zero_row_24_packed"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_what_would(work, has, told) -> None:
    with pytest.raises(RuntimeError, match=told):
        fits.check_fits(work, has)


def test_not_even_the_smallest_batch() -> None:
    with pytest.raises(RuntimeError, match="OPT-175B as dense at sparsity 0 and batch=8"):
        fits.batches(DENSE, H200)


@pytest.mark.parametrize("name", ["OPT-125M", "OPT-350M", "OPT-175B"])
def test_the_planner_takes_our_configurations(name: str) -> None:
    mine = memory.Workload(fits.as_catalog_model(OPTConfig.of(name)))
    assert memory.needs(mine) == memory.needs(memory.Workload(catalog.model(name)))
