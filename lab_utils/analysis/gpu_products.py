"""Which formats a GPU multiplies, by its architecture alone: for plans on machines without one.

What `lab_utils.backends` launches where; tests hold these names to it.
"""

from lab_utils.analysis.variants import variant_of
from lab_utils.catalog import Device

DENSE, SM_90 = "dense", "sm_90"
PUBLISHED = ("tiled_csl", "tca_bme")  # whose kernels run on every GPU of data/devices.yaml
OF_SM_90 = (
    "zero_row_24", "zero_row_24_strips", "lane_24_strips", "bitmap_strips", "coded_strips"
)  # fmt: skip


def obstacle(format: str, device: Device) -> str:
    """What keeps that GPU from multiplying a format, or a variant of one, in a few words; or ""."""
    name = variant_of(format).format
    if name in OF_SM_90:
        return "" if device.arch == SM_90 else f"needs {SM_90}"
    return "" if name in (DENSE, *PUBLISHED) else "no GPU kernel"
