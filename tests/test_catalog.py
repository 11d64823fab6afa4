"""The catalog: complete, consistent with itself, and clear about names that it does not have."""

import csv
from dataclasses import FrozenInstanceError

import pandas as pd
import pytest

from lab_utils import catalog, results

OPT_30B = {"qkv": (21504, 7168), "out": (7168, 7168), "fc1": (28672, 7168), "fc2": (7168, 28672)}
# FLOP per SM and clock of dense fp16 mma with fp32 accumulation; GeForce runs at half rate.
FLOP_PER_SM = {
    "A100-80GB": 2048,
    "RTX-4090": 512,
    "RTX-A6000": 1024,
    "L40S": 1024,
    "H100-SXM": 4096,
    "H200-SXM": 4096,
}
tables = pytest.mark.parametrize("name", catalog.published_names())


# --- devices


def test_devices_are_the_promised_ones() -> None:
    assert set(catalog.devices()) == set(FLOP_PER_SM)


@pytest.mark.parametrize("name", FLOP_PER_SM)
def test_peak_follows_from_clock_and_sms(name: str) -> None:
    device = catalog.device(name)
    flop = device.sms * device.tensor_clock_mhz * 1e6 * FLOP_PER_SM[name]
    # NVIDIA's L40S datasheet prints 1.2 % less than its clock gives; the others agree to 0.1 %.
    assert device.peak_tflops == pytest.approx(flop / 1e12, rel=0.013 if name == "L40S" else 1e-3)


@pytest.mark.parametrize("name", FLOP_PER_SM)
def test_every_figure_of_a_device_has_a_source(name: str) -> None:
    device = catalog.device(name)
    figures = {"peak_tflops", "bandwidth_gb_s", "capacity_gb", "l2_mb", "sms", "tensor_clock_mhz"}
    assert set(device.sources) == figures
    assert all(len(source) > 10 for source in device.sources.values())
    assert device.arch.startswith("sm_")


def test_measured_and_cited_figures() -> None:
    h200 = catalog.device("H200-SXM").as_measured()
    assert (h200.peak_tflops, h200.bandwidth_gb_s) == (618, 4550)
    assert "2026-11-21" in h200.title
    h100 = catalog.device("H100-SXM")
    measured = h100.as_measured()
    assert (measured.peak_tflops, measured.bandwidth_gb_s) == (h100.peak_tflops, 3180)
    assert "bandwidth measured 2026-11-25" in measured.title
    assert catalog.device("A100-80GB").as_cited_by("Flash-LLM").bandwidth_gb_s == 2000
    assert catalog.device("A100-80GB").bandwidth_gb_s == 2039
    with pytest.raises(ValueError, match="L40S"):
        catalog.device("L40S").as_measured()
    with pytest.raises(ValueError, match="'SpInfer' is unknown; allowed: none"):
        catalog.device("L40S").as_cited_by("SpInfer")


def test_entries_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        catalog.device("L40S").peak_tflops = 733
    with pytest.raises(FrozenInstanceError):
        catalog.model("OPT-30B").layers = 1


# --- models


@pytest.mark.parametrize(
    ("name", "billions", "tolerance"),
    [
        ("OPT-125M", 0.125, 0.01),
        ("OPT-350M", 0.331, 0.01),  # as published; its name is rounded generously
        ("OPT-1.3B", 1.3, 0.02),
        ("OPT-2.7B", 2.7, 0.02),
        ("OPT-6.7B", 6.7, 0.01),
        ("OPT-13B", 13, 0.02),
        ("OPT-30B", 30, 0.01),
        ("OPT-66B", 66, 0.01),
        ("OPT-175B", 175, 0.01),
        ("Llama-2-7B", 6.74, 0.01),
        ("Llama-2-13B", 13.02, 0.01),
        ("Llama-2-70B", 68.98, 0.01),
        ("Llama-3-8B", 8.03, 0.01),
        ("Llama-3-70B", 70.55, 0.01),
    ],
)
def test_weights_add_up_to_the_size_of_the_model(name, billions, tolerance) -> None:
    assert catalog.model(name).parameters / 1e9 == pytest.approx(billions, rel=tolerance)


def test_weights_of_opt_125m_are_those_of_the_checkpoint() -> None:
    """It has 125,239,296 parameters; biases and the scales and shifts of norms are not counted."""
    model = catalog.model("OPT-125M")
    H, norms = model.hidden, 2 * model.layers + 1
    biases = model.layers * sum(M for M, _ in catalog.layer_shapes(model).values())
    assert model.parameters + biases + norms * 2 * H == 125_239_296


def test_models_are_the_promised_ones() -> None:
    assert len(catalog.models()) == 14
    for model in catalog.models().values():
        assert model.hidden % model.heads == 0
        assert model.heads % model.kv_heads == 0
        assert model.source


def test_layer_shapes_of_opt() -> None:
    assert catalog.layer_shapes("OPT-30B") == OPT_30B
    assert catalog.layer_shapes(catalog.model("OPT-66B"), gpus=2) == {
        "qkv": (13824, 9216),
        "out": (9216, 4608),
        "fc1": (18432, 9216),
        "fc2": (9216, 18432),
    }


def test_layer_shapes_of_llama() -> None:
    assert catalog.layer_shapes("Llama-3-8B") == {
        "qkv": (4096 + 2 * 1024, 4096),
        "out": (4096, 4096),
        "gate_up": (28672, 4096),
        "down": (4096, 14336),
    }


@pytest.mark.parametrize("name", ["OPT-175B", "Llama-3-70B"])
def test_tensor_parallel_shards_hold_the_whole_layer(name: str) -> None:
    whole = sum(m * k for m, k in catalog.layer_shapes(name).values())
    shards = [sum(m * k for m, k in catalog.layer_shapes(name, gpus=g).values()) for g in (2, 4, 8)]
    assert [g * shard for g, shard in zip((2, 4, 8), shards, strict=True)] == [whole] * 3


def test_opt_350m_is_the_odd_one_out() -> None:
    odd = catalog.model("OPT-350M")
    assert (odd.embed, odd.norm_first) == (512, False)
    others = [m for m in catalog.models().values() if m.name != "OPT-350M"]
    assert all(m.norm_first and m.embed == 0 for m in others)


# --- published tables


@tables
def test_tables_parse_and_name_their_source(name: str) -> None:
    table = catalog.published(name)
    assert list(table.columns[:4]) == ["paper", "table_or_figure", "hardware", "provenance"]
    assert len(table) > 0
    assert not table[list(table.columns[:4])].isna().any().any()
    assert set(table.provenance) <= set({"stated", "derived", "measured"})
    assert not table.duplicated().any()


@tables
def test_tables_are_rectangular_and_tidy(name: str) -> None:
    with (catalog.DATA / "published" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {len(rows[0])}
    table = catalog.published(name)
    for column in ("sparsity", "speedup", "percent", "time_us", "N"):
        if column in table:
            assert pd.api.types.is_numeric_dtype(table[column]), column
    if "sparsity" in table:
        assert table.sparsity.dropna().between(0, 1).all()


@tables
def test_tables_are_described(name: str) -> None:
    assert f"`{name}`" in (catalog.DATA / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", results.COLUMNS)
def test_measured_tables_are_described(table: str) -> None:
    assert f"| `{table}` | " in (catalog.DATA / "README.md").read_text(encoding="utf-8")


def test_names_have_no_case() -> None:
    assert catalog.model("opt-30b", "opt") is catalog.model("OPT-30B")
    assert catalog.device("h200-sxm") is catalog.device("H200-SXM")
    assert catalog.layer_shapes("llama-3-8b") == catalog.layer_shapes("Llama-3-8B")


def test_some_published_numbers() -> None:
    speedup = catalog.published("flash_llm_kernel_speedup").set_index(["baseline", "sparsity"])
    assert speedup.speedup["cuBLAS", 0.9] == 2.1
    memory = catalog.published("flash_llm_peak_memory")
    assert memory[memory.status == "out of memory"].peak_gb.isna().all()
    assert memory.peak_gb.max() == 120.4
    assert len(catalog.published("h200_peers")) == 5 * (2 * 4 + 1)


# --- names


@pytest.mark.parametrize(
    ("look_up", "known"),
    [
        (catalog.device, "A100-80GB, RTX-4090"),
        (catalog.model, "OPT-125M, OPT-350M"),
        (catalog.layer_shapes, "OPT-125M, OPT-350M"),
        (catalog.published, "compression_ratio, flash_llm_accuracy"),
    ],
)
def test_unknown_names_list_the_known(look_up, known: str) -> None:
    with pytest.raises(ValueError, match=f"'nonsense' is unknown; allowed: {known}"):
        look_up("nonsense")


@pytest.mark.parametrize("gpus", [0, 5, 16])
def test_gpus_must_divide_the_model(gpus: int) -> None:
    with pytest.raises(ValueError, match=f"gpus={gpus} must divide heads=56 of OPT-30B"):
        catalog.layer_shapes("OPT-30B", gpus=gpus)


def test_missing_data_says_what_to_do(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(catalog, "DATA", tmp_path)
    with pytest.raises(RuntimeError, match=r"devices\.yaml is missing.*pip install -e"):
        catalog.devices.__wrapped__()
