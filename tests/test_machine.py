"""What the machine says of itself, on faked and on real hardware."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner

from lab_utils import backends, machine
from lab_utils.backends import cpu
from lab_utils.cli import main

ZEN4 = "avx2 avx512f avx512_vbmi2 avx512_bf16"
SAPPHIRE = f"{ZEN4} amx_tile amx_bf16"


@pytest.mark.parametrize(
    ("vendor", "flags", "name"),
    [
        ("AuthenticAMD", f"{ZEN4} avx512_vp2intersect", "zen5"),
        ("AuthenticAMD", ZEN4, "zen4"),
        ("AuthenticAMD", "sse2 avx2", "zen"),
        ("GenuineIntel", f"{SAPPHIRE} amx_fp16", "granite-rapids"),
        ("GenuineIntel", SAPPHIRE, "sapphire-rapids"),
        ("GenuineIntel", "avx2 avx512f avx512_vbmi2", "ice-lake"),
        ("GenuineIntel", "avx2 avx512f", "skylake-x"),
        ("GenuineIntel", "avx2", "haswell"),
        ("GenuineIntel", "sse2", "riscv128"),
        ("", "", "riscv128"),
    ],
)
def test_microarchitecture(monkeypatch, vendor: str, flags: str, name: str) -> None:
    monkeypatch.setattr(machine, "_cpuinfo", lambda: {"vendor_id": vendor, "flags": flags})
    monkeypatch.setattr("platform.machine", lambda: "riscv128")
    assert machine.microarchitecture() == name
    assert machine.device_name() == f"cpu-{name}"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
    ],
)
def test_names_of_gpus(monkeypatch, title: str, name: str) -> None:
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: title)
    assert machine.device_name("cuda") == name


def fake_cache(folder: Path, processor: int, index: int, level: int, shared: str, size: str):
    where = folder / f"cpu{processor}" / "cache" / f"index{index}"
    where.mkdir(parents=True)
    for file, text in (("level", str(level)), ("shared_cpu_list", shared), ("size", size)):
        (where / file).write_text(f"{text}\n")


def test_caches_of_all_processors_count_once(tmp_path: Path) -> None:
    for processor in range(4):
        pair = "0-1" if processor < 2 else "2-3"
        fake_cache(tmp_path, processor, 2, 2, str(processor), "1024K")
        fake_cache(tmp_path, processor, 3, 3, pair, "32768K")
    assert machine.cache_bytes(tmp_path) == 2 * 32 * 2**20


def test_unknown_caches(tmp_path: Path) -> None:
    assert machine.cache_bytes(tmp_path) == 0
    (tmp_path / "cpu0" / "cache" / "index0").mkdir(parents=True)  # as some virtual machines do
    assert machine.cache_bytes(tmp_path) == 0


def test_commit_says_when_the_checkout_has_changes(tmp_path: Path, monkeypatch) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True)

    monkeypatch.setattr(machine, "ROOT", tmp_path)
    for name in ("LSCD_COMMIT", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")  # who signs commits
    assert machine.commit() == "unknown"
    git("init", "--quiet")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "--quiet", "-m", "one")
    clean = machine.commit()
    assert len(clean) >= 7 and "-" not in clean
    (tmp_path / "file").write_text("2")
    assert machine.commit() == f"{clean}-dirty"


def test_commit_without_git(monkeypatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("LSCD_COMMIT", raising=False)
    assert machine.commit() == "unknown"


def test_a_copy_can_be_told_its_commit(monkeypatch) -> None:
    monkeypatch.setenv("LSCD_COMMIT", "abc1234")
    assert machine.commit() == "abc1234"


def test_the_driver_is_what_nvidia_smi_says(tmp_path: Path, monkeypatch) -> None:
    assert machine.driver("cpu") == machine.cuda_version("cpu") == ""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 580.159.03\necho 580.159.03\n")
    fake.chmod(0o755)
    machine.driver.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert machine.driver("cuda") == "580.159.03"
    machine.driver.cache_clear()
    fake.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="nvidia-smi --query-gpu=driver_version .* failed"):
        machine.driver("cuda")


def test_gpu_processes_are_those_that_nvidia_smi_tells(tmp_path: Path, monkeypatch) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nprintf '71, 512 MiB\\n72, 3 MiB\\n73, [N/A]\\n'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    found = SimpleNamespace(uuid="0-1")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
    assert machine.gpu_processes("cuda") == {71: 512 << 20, 72: 3 << 20}


@pytest.mark.parametrize(("idle", "told"), [(95, None), (60, "other programs take 40% of")])
def test_others_are_told_of_where_they_take_much(idle, told, monkeypatch) -> None:
    ticks = iter([(1000, 5000), (1000 + idle, 5100)])
    monkeypatch.setattr(machine, "_clock_ticks", lambda: next(ticks))
    monkeypatch.setattr(machine, "WATCHED_S", 0)
    assert machine.busy() is None if told is None else machine.busy().startswith(told)


def test_all_clock_ticks_are_counted() -> None:
    idle, everything = machine._clock_ticks()
    assert 0 < idle < everything


@pytest.mark.parametrize(("seconds", "sizes"), [(1.0, [128]), (0.01, [128, 256, 512, 1024, 2048])])
def test_products_grow_until_one_is_slow(seconds, sizes, monkeypatch) -> None:
    """A CPU without instructions for bf16 needs 17 s for one of 2048³."""
    seen = []
    monkeypatch.setattr(machine, "_seconds", lambda f, n: seen.append(len(f())) or [seconds] * n)
    assert machine._matmul_tflops(torch.float32) == 2 * sizes[-1] ** 3 / seconds / 1e12
    assert seen == sizes


@pytest.fixture
def quick(monkeypatch) -> None:
    """No measuring: a machine that reads 20 GB/s and multiplies 1 TFLOP/s."""
    monkeypatch.setattr(machine, "read_bandwidth", lambda: 20.0)
    monkeypatch.setattr(machine, "_matmul_tflops", lambda dtype: 1.0)


def test_measured_cpu_fits_under_a_roof(quick) -> None:
    this = machine.measured_cpu()
    assert (this.peak_tflops, this.bandwidth_gb_s) == (1.0, 20.0)
    assert this.name == machine.device_name() and machine.cpu_name() in this.title


def test_lab_info_tells_backends_and_kernels(quick) -> None:
    done = CliRunner().invoke(main, ["info"])
    assert done.exit_code == 0
    lines = {line[:18].strip(): line[20:] for line in done.output.splitlines()}
    assert {f"backend {name}" for name in backends.BACKENDS} <= set(lines)
    assert lines["backend cpu"] == "works"
    assert lines["cpu kernels"] == ", ".join(cpu.supported())
    assert "reads 20.0 GB/s, multiplies 1.00 TFLOP/s" in lines["measured"]


def test_lab_info_tells_why_not(quick, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "problem", lambda: "no C++17 compiler found")
    done = CliRunner().invoke(main, ["info"])
    assert done.exit_code == 0
    assert "no: no C++17 compiler found" in done.output
    assert "measured" not in done.output
