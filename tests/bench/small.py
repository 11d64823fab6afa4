"""Cases that are measured in no time, with caches as small as they are."""

from lab_utils.bench import grid

FORMATS = ["tca_bme", "csr"]
CASES = list(grid([(96, 130), (64, 64)], [1, 8], [0.5, 0.8]))
PIECE_BYTES, COLD_BYTES = 1 << 18, 1 << 20
