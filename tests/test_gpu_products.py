"""Which formats a planner may promise: those that the backend launches, and `lab formats` lists."""

import pytest

from lab_utils import catalog
from lab_utils.analysis import gpu_products
from lab_utils.analysis.gpu_products import obstacle
from lab_utils.analysis.memory import KNOWN
from lab_utils.analysis.variants import variant_of
from lab_utils.backends import choosing, cuda
from lab_utils.backends.kernels import OF_SM_90


def test_names_are_those_of_the_kernels() -> None:
    assert (*gpu_products.PUBLISHED, *gpu_products.OF_SM_90) == cuda.formats
    assert OF_SM_90 == gpu_products.OF_SM_90


@pytest.mark.parametrize("device", catalog.devices().values(), ids=lambda one: one.name)
def test_what_is_multiplied_is_what_formats_are_chosen_from(device: catalog.Device) -> None:
    chosen = {
        variant_of(one.format).format
        for N in (8, 64)
        for one in choosing.expected(7168, 7168, N, 0.8, device)
    }
    multiplied = {name for name in KNOWN if not obstacle(name, device)}
    assert {variant_of(name).format for name in multiplied} == chosen


@pytest.mark.parametrize(
    ("format", "gpu", "why"),
    [
        ("zero_row_24_packed", "A100-80GB", "needs sm_90"),
        ("bitmap_strips", "L40S", "needs sm_90"),
        ("lane_24_strips", "H100-SXM", ""),
        ("2:4", "H100-SXM", "no GPU kernel"),
        ("dense", "RTX-4090", ""),
    ],
)
def test_obstacles(format: str, gpu: str, why: str) -> None:
    assert obstacle(format, catalog.device(gpu)) == why
