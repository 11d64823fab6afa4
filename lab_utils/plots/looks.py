"""How figures name and draw each format and each kernel."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Look:
    """A name for readers, a colour, and a symbol; `simt`: a kernel that uses no tensor cores."""

    label: str
    colour: str
    symbol: str
    simt: bool = False

    @property
    def marker(self) -> dict:
        """Open symbols are larger, so that others fit inside where points coincide."""
        marker = {"color": self.colour, "symbol": self.symbol, "size": 10}
        return marker | {"size": 14, "line": {"width": 2}} if "open" in self.symbol else marker


FORMATS = {
    "dense": Look("dense", "#5f6b7a", "square"),
    "csr": Look("CSR", "#c98a00", "circle-open"),
    "tiled_csl": Look("Tiled-CSL", "#2563c4", "circle"),
    "tca_bme": Look("TCA-BME", "#d1391f", "diamond"),
    "2:4": Look("2:4", "#178a5c", "square-open"),
    "sparta": Look("SparTA", "#8b46b8", "triangle-up"),
    "zero_row_24": Look("zero-row 2:4", "#d6329b", "cross"),
    "zero_row_24_packed": Look("zero-row packed", "#d9536f", "cross-open"),
    "zero_row_24_strips": Look("zero-row strips", "#7d1d5e", "triangle-down"),
    "lane_24_strips": Look("lane 2:4 strips", "#5c7a0a", "pentagon"),
    "bitmap_strips": Look("bitmap strips", "#3629cc", "hexagon"),
    "coded_strips": Look("coded strips", "#22a81e", "bowtie"),
    "optimal": Look("no indices", "#111827", "star"),
}
TRANSFORMERS = "transformers"
MODELS = FORMATS | {TRANSFORMERS: Look("transformers", "#0e8fa3", "circle")}
KERNELS = {
    "tca_bme_mma": FORMATS["tca_bme"],
    "tiled_csl_mma": FORMATS["tiled_csl"],
    "zero_row_24_mma": FORMATS["zero_row_24"],
    "zero_row_24_packed_mma": FORMATS["zero_row_24_packed"],
    "zero_row_24_strips_wgmma": FORMATS["zero_row_24_strips"],
    "lane_24_strips_wgmma": FORMATS["lane_24_strips"],
    "bitmap_strips_wgmma": FORMATS["bitmap_strips"],
    "coded_strips_wgmma": FORMATS["coded_strips"],
    "sparta": FORMATS["sparta"],
    "two_four": FORMATS["2:4"],
    "csr_simt": replace(FORMATS["csr"], label="CSR, SIMT", simt=True),
    "cusparse": Look("cuSPARSE", "#8a5a2b", "x", simt=True),
}
