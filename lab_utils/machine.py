"""What this machine is: for `lab info`, for the roofline of this CPU, and for rows of results."""

import functools
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from lab_utils import backends, build, toolchains

ROOT = Path(__file__).resolve().parents[1]
WATCHED_S, BUSY = 0.4, 0.2  # how long others are watched; the part of all CPUs that is much

# The first entry whose vendor and features a CPU has names its microarchitecture.
MICROARCHITECTURES = (
    ("zen5", "AuthenticAMD", {"avx512_vp2intersect", "avx512_bf16"}),
    ("zen4", "AuthenticAMD", {"avx512_bf16"}),
    ("zen", "AuthenticAMD", {"avx2"}),
    ("granite-rapids", "GenuineIntel", {"amx_bf16", "amx_fp16"}),
    ("sapphire-rapids", "GenuineIntel", {"amx_bf16"}),
    ("ice-lake", "GenuineIntel", {"avx512_vbmi2"}),
    ("skylake-x", "GenuineIntel", {"avx512f"}),
    ("haswell", "GenuineIntel", {"avx2"}),
)


@dataclass(frozen=True)
class MeasuredCpu:
    """This CPU as a roofline sees it, measured here with torch's number of threads.

    `peak_tflops` is torch's best rate of a square bf16 or fp32 matrix product, `bandwidth_gb_s` the
    rate at which all threads together read memory that no cache holds.
    """

    name: str
    title: str
    peak_tflops: float
    bandwidth_gb_s: float


@functools.cache
def _cpuinfo() -> dict[str, str]:
    """First processor of /proc/cpuinfo; empty where there is none."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.exists() else []
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpu_name() -> str:
    """Model name of the CPU, as the system tells it."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def microarchitecture() -> str:
    """Family of the CPU (zen4, sapphire-rapids, …), judged by vendor and features."""
    vendor, flags = _cpuinfo().get("vendor_id"), set(_cpuinfo().get("flags", "").split())
    for name, its_vendor, features in MICROARCHITECTURES:
        if vendor == its_vendor and features <= flags:
            return name
    return platform.machine()


def cache_bytes(folder: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of all last-level caches together, as the system tells it; 0 where it does not."""
    found: dict[int, dict[str, int]] = {}  # level -> processors that share a cache -> bytes
    for index in folder.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level, shared, size = (
                (index / name).read_text().strip() for name in ("level", "shared_cpu_list", "size")
            )
        except OSError:  # virtual machines leave files out
            continue
        found.setdefault(int(level), {})[shared] = int(size.removesuffix("K")) * 1024
    return sum(found[max(found)].values()) if found else 0


def device_name(device: torch.device | str = "cpu") -> str:
    """The device's folder under data/measured and its name in rows: h200, cpu-zen4, …"""
    if torch.device(device).type == "cpu":
        return f"cpu-{microarchitecture()}"
    words = torch.cuda.get_device_name(device).removeprefix("NVIDIA ").removeprefix("GeForce ")
    return words.lower().replace(" ", "-")


@functools.cache
def driver(device: torch.device | str = "cpu") -> str:
    """Version of the GPU's driver, such as 580.159.03; empty for the CPU.

    Raises RuntimeError where nvidia-smi, which comes with the driver, does not tell it.
    """
    if torch.device(device).type == "cpu":
        return ""
    return _nvidia_smi("--query-gpu=driver_version").splitlines()[0].strip()


def gpu_processes(device: torch.device | str) -> dict[int, int]:
    """Bytes that each process has on that GPU, by its id; those that the driver does not hide.

    Raises RuntimeError where nvidia-smi fails.
    """
    uuid = torch.cuda.get_device_properties(device).uuid
    lines = _nvidia_smi("--query-compute-apps=pid,used_memory", f"--id=GPU-{uuid}").splitlines()
    found = (line.split(",") for line in lines if "," in line)
    return {int(pid): int(mib.split()[0]) << 20 for pid, mib in found if mib.split()[0].isdigit()}


def _nvidia_smi(*arguments: str) -> str:
    command = ["nvidia-smi", *arguments, "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"{' '.join(command)} failed: {error}") from error
    return done.stdout


def cuda_version(device: torch.device | str = "cpu") -> str:
    """Version of the CUDA runtime that torch was built with; empty for the CPU."""
    return "" if torch.device(device).type == "cpu" else str(torch.version.cuda)


def commit() -> str:
    """Short hash of the checkout, with -dirty where it has changes.

    In a copy of the files on another machine $LSCD_COMMIT says it; unknown without that and git.
    Rows of measurements are no change: or else a run's first rows would make its later ones dirty.
    """
    if told := os.environ.get("LSCD_COMMIT"):
        return told
    changes = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!data/measured")
    head = _git("rev-parse", "--short", "HEAD")
    return f"{head}-dirty" if head and _git(*changes) else head or "unknown"


def _git(*arguments: str) -> str:
    """Output of git in the repository; empty without git, or outside of a checkout."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def stamp(device: torch.device | str) -> dict[str, str]:
    """When, from which commit and on what a row was measured: the first columns of every table."""
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), **_origin(device)}


@functools.cache  # what runs is what was imported, whatever happens to the checkout meanwhile
def _origin(device: torch.device | str) -> dict[str, str]:
    return {
        "commit": commit(),
        "device": device_name(device),
        "driver": driver(device),
        "cuda": cuda_version(device),
    }


def read_bandwidth(repeats: int = 5) -> float:
    """GB/s (1e9 bytes) at which all of torch's threads together read memory: median of runs.

    Reads twice what the last-level caches hold, and at least half a gigabyte.
    """
    data = torch.ones(max(1 << 29, 2 * cache_bytes()), dtype=torch.uint8)
    times = _seconds(lambda: backends.cpu.read_all(data), repeats)
    return data.numel() / statistics.median(times) / 1e9


def measured_cpu() -> MeasuredCpu:
    """Measure this CPU's two ceilings; takes a few seconds."""
    return MeasuredCpu(
        name=device_name(),
        title=f"{cpu_name()} ({microarchitecture()}, {torch.get_num_threads()} threads)",
        peak_tflops=max(_matmul_tflops(torch.bfloat16), _matmul_tflops(torch.float32)),
        bandwidth_gb_s=read_bandwidth(),
    )


def _matmul_tflops(dtype: torch.dtype, largest: int = 2048, patience_s: float = 0.1) -> float:
    """Rate of products of n³, n doubled until one is `largest` or takes more than `patience_s`.

    A CPU without instructions for bf16 would else take minutes: with AVX2 alone, torch needs
    some 17 s for one product of 2048³ in bf16, and 0.3 s in fp32.
    """
    n = 128
    while True:
        a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
        seconds = min(_seconds(lambda a=a, b=b: a @ b, 4))
        if n >= largest or seconds > patience_s:
            return 2 * n**3 / seconds / 1e12
        n *= 2


def _seconds(function: Callable[[], object], repeats: int) -> list[float]:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def describe() -> dict[str, str]:
    """One line for everything that decides what works here, for `lab info`."""
    reasons = backends.status()
    lines = {
        "cpu": f"{cpu_name()} ({microarchitecture()}), {os.cpu_count()} cores",
        "memory": f"{memory_bytes() / 1e9:.0f} GB",
        "gpu": _gpus(),
        "python": f"{platform.python_version()}, torch {torch.__version__}",
        "compiler": _or_reason(toolchains.Cxx().compiler),
        "nvcc": _or_reason(toolchains.Nvcc().compiler),
        "cache": str(build.cache_folder()),
        "commit": commit(),
        **{f"backend {n}": "works" if r is None else f"no: {r}" for n, r in reasons.items()},
    }
    if reasons["cpu"] is None:
        cpu = measured_cpu()
        lines["cpu kernels"] = ", ".join(backends.cpu.supported())
        lines["measured"] = (
            f"reads {cpu.bandwidth_gb_s:.1f} GB/s, multiplies {cpu.peak_tflops:.2f} TFLOP/s "
            f"with {torch.get_num_threads()} threads"
        )
    return lines


def _gpus() -> str:
    if not torch.cuda.is_available():
        return "none that torch can use"
    return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))


def busy() -> str | None:
    """What other programs take of this machine's CPUs, where that is much; waits for it a while."""
    idle_before, all_before = _clock_ticks()
    time.sleep(WATCHED_S)
    idle, everything = _clock_ticks()
    taken = 1 - (idle - idle_before) / max(everything - all_before, 1)
    return f"other programs take {taken:.0%} of this machine's CPUs" if taken > BUSY else None


def _clock_ticks() -> tuple[int, int]:
    """Of all CPUs since they started: idle ones, and all (proc(5), /proc/stat)."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def memory_bytes() -> int:
    """The memory of this machine, taken or free."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _or_reason(function: Callable[[], str]) -> str:
    try:
        return function()
    except RuntimeError as error:
        return f"no: {error}"
