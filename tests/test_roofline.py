"""The roofline: the papers' numbers to the printed digit, limits, refusals."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import catalog
from lab_utils.analysis import compression as c
from lab_utils.analysis import roofline as r

H100 = catalog.device("H100-SXM")


def fig5_bound(machine: r.Machine) -> tuple[list[float], list[float]]:
    """Utilisation in percent, printed as in Flash-LLM's fig. 5, beside the published values."""
    rows = catalog.published("flash_llm_roofline")
    ours = 100 * r.utilisation(machine, r.optimal_intensity(rows.M, rows.N, rows.sparsity))
    return [round(float(u), 1) for u in ours], rows.tensor_core_percent.to_list()


def test_flash_llm_figure_5() -> None:
    a100 = catalog.device("A100-80GB").as_cited_by("Flash-LLM")
    assert r.ridge(a100) == pytest.approx(156)
    ours, published = fig5_bound(a100)
    assert ours == [5.1, 10.3, 20.5, 41.0, 8.5, 17.1, 34.2, 68.2]
    assert published == [5.1, 10.3, 20.5, 40.1, 8.5, 17.1, 34.2, 68.2]


def test_only_one_value_of_figure_5_contradicts_the_others() -> None:
    rows = catalog.published("flash_llm_roofline")
    intensity = r.optimal_intensity(rows.M, rows.N, rows.sparsity)
    pairs = zip(intensity, rows.tensor_core_percent, strict=True)
    ranges = [r.ridge_range(ci, percent) for ci, percent in pairs]
    odd = ranges.pop(3)
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    assert low < 156 < high
    assert high - low < 0.1
    assert odd[0] > high + 3


def test_datasheet_bandwidth_does_not_give_figure_5() -> None:
    ours, published = fig5_bound(catalog.device("A100-80GB"))
    assert sum(a == b for a, b in zip(ours, published, strict=True)) == 0


def test_profiled_cublas_stays_below_its_bound() -> None:
    rows = catalog.published("flash_llm_profile").query("kernel == 'cuBLAS' and gpus == 2")
    a100 = catalog.device("A100-80GB")
    shapes = catalog.layer_shapes("OPT-66B", gpus=2).values()
    bounds = [r.utilisation(a100, r.exact_intensity(m, k, rows.N)) for m, k in shapes]
    share = rows.percent / (100 * np.mean(bounds, axis=0))
    assert share.between(0.95, 0.98).all()


def test_intensity_equations() -> None:
    assert r.dense_intensity(48_000, 16) == pytest.approx(48_000 * 16 / 48_016)
    assert r.ratio_intensity(1000, 8, 2.0) == pytest.approx(8000 / 508)
    assert r.optimal_intensity(1000, 8, 0.5) == r.ratio_intensity(1000, 8, 2.0)
    assert r.format_intensity("dense", 1000, 500, 8, 0.3) == r.dense_intensity(1000, 8)
    exact = 1000 * 8 * 500 / (1000 * 500 + 500 * 8 + 1000 * 8)
    assert r.exact_intensity(1000, 500, 8) == pytest.approx(exact)


@given(n=st.integers(1, 4096), s=st.floats(0, 1))
def test_optimum_is_the_upper_limit(n: int, s: float) -> None:
    best = r.optimal_intensity(4096, n, s)
    for format in ("csr", "tiled_csl", "tca_bme"):
        assert r.format_intensity(format, 4096, 4096, n, s) <= best
    assert r.exact_intensity(4096, 4096, n) < r.dense_intensity(4096, n)


def test_roof_and_times() -> None:
    machine = SimpleNamespace(peak_tflops=100.0, bandwidth_gb_s=1000.0)
    assert r.ridge(machine) == 100
    assert r.attainable_tflops(machine, [10, 100, 1000]).tolist() == [10, 100, 100]
    assert r.utilisation(machine, [10, 100, 1000]).tolist() == [0.1, 1, 1]
    assert r.byte_limit_us(machine, 1e9) == pytest.approx(1000)
    nbytes = r.total_bytes(1024, 512, 8, "dense", 0)
    assert r.roofline_us(machine, 1024, 512, 8) == pytest.approx(nbytes / 1e6)
    flop = 2 * 1024 * 4096 * 512
    assert r.roofline_us(machine, 1024, 512, 4096) == pytest.approx(flop / 1e8)


def test_ridge_batch_is_where_the_slope_ends() -> None:
    for fraction in (1.0, 0.4):
        n = r.ridge_batch(H100, 8192, fraction)
        assert r.ratio_intensity(8192, n, 1 / fraction) == pytest.approx(r.ridge(H100))
    assert r.ridge_batch(H100, 200) == float("inf")


def test_h200_byte_limits_agree_with_the_table() -> None:
    rows = catalog.published("h200_peer_times").query("provenance == 'derived'")
    machine = SimpleNamespace(peak_tflops=618, bandwidth_gb_s=4600)
    for row in rows.itertuples():
        limit = r.byte_limit_us(machine, c.tca_bme_bytes(row.M, row.K, row.sparsity))
        assert limit == pytest.approx(row.time_us, abs=1.0)


def test_a_percentage_that_may_be_zero_has_no_largest_ridge() -> None:
    low, high = r.ridge_range(5, 0.05)
    assert (low, high) == (pytest.approx(5000), float("inf"))
    assert r.ridge_range(5, 0.01)[1] == float("inf")
    assert r.ridge_range(5, 0.05, digits=2) == pytest.approx((500 / 0.055, 500 / 0.045))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: r.dense_intensity(0, 8), "M="),
        (lambda: r.dense_intensity(8, -1), "N="),
        (lambda: r.ratio_intensity(8, 8, 0), "ratio="),
        (lambda: r.optimal_intensity(8, 8, 2), "sparsity=2"),
        (lambda: r.optimal_intensity(-1, 8, 0.5), "M=-1"),
        (lambda: r.optimal_intensity(8, [8, 0], 0.5), "N="),
        (lambda: r.attainable_tflops(H100, [10, -1]), "intensity="),
        (lambda: r.utilisation(H100, 0), "intensity=0"),
        (lambda: r.ridge_batch(H100, 0), "M=0"),
        (lambda: r.ridge_batch(H100, 8192, -0.5), "weight_fraction=-0.5"),
        (lambda: r.ridge_range(-5, 10), "intensity=-5"),
        (lambda: r.ridge_range(5, 0), "percent=0"),
        (lambda: r.byte_limit_us(H100, -5), "nbytes=-5"),
        (lambda: r.total_bytes(8, 8, 0, "dense", 0), "N=0"),
        (lambda: r.format_intensity("coo", 8, 8, 1, 0.5), "coo"),
    ],
)
def test_roofline_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
