"""The emulator's counts held against the profiler's: rows of the table `counts`.

Both run the same kernels on the same small operands: the published ones and the ladder's rungs.
analysis/agreement.py says what is compared.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from lab_utils import encode, ladder, spmm
from lab_utils.analysis.agreement import COMPARED, Compared, agreement
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.backends import emulator
from lab_utils.backends.launch import ALIGN
from lab_utils.bench import nsight
from lab_utils.bench.cases import Case
from lab_utils.bench.measuring import checked_device
from lab_utils.bench.nsight import Launch, number
from lab_utils.bench.operands import Weights
from lab_utils.machine import stamp

PUBLISHED = ("tiled_csl", "tca_bme")  # formats of the published kernels
KERNELS = (*PUBLISHED, *ladder.RUNGS)
METRICS = tuple(one.ncu for one in COMPARED.values())


@dataclass(frozen=True)
class Job:
    """A product that is counted twice; `kernel` is a format or a rung."""

    kernel: str
    case: Case
    split_k: int

    def __str__(self) -> str:
        return f"{self.case}, split_k {self.split_k}: {self.kernel}"


def measure_counts(
    cases: Iterable[Case],
    kernels: Sequence[str] = KERNELS,
    *,
    splits: Sequence[int] = (1,),
    seed: int = 0,
) -> list[dict]:
    """Rows of `results.COLUMNS["counts"]`: every launch, every metric of `agreement.COMPARED`.

    Metrics that ncu does not know on this GPU have no rows; `count_summary` names them. `splits`
    are numbers of workers for each row of blocks, of the kernels that share tiles out. Raises
    ValueError for a kernel or a case that cannot be compared, RuntimeError where there is no GPU or
    no `ncu`, or where it fails, AssertionError where a product is wrong.
    """
    cases = list(cases)
    check(cases, kernels, splits)
    jobs = list(jobs_of(cases, kernels, splits))
    listed = [[job.kernel, asdict(job.case), job.split_k] for job in jobs]
    found = nsight.profile("lab_utils.bench.counted", listed, seed, METRICS)
    common = stamp("cuda")
    return [
        common | row
        for job, (_, launches) in zip(jobs, found, strict=True)
        for row in rows_of(job, emulated(job, seed), launches)
    ]


def check(cases: Sequence[Case], kernels: Sequence[str], splits: Sequence[int]) -> None:
    """Raise what `measure_counts` does before anything runs."""
    for kernel in kernels:
        if kernel not in KERNELS:
            raise ValueError(f"kernel={kernel!r}: unknown; allowed: {', '.join(KERNELS)}")
    for case in cases:
        if case.K % ALIGN:
            allowed = f"multiples of {ALIGN}, since others are copied before the product"
            raise ValueError(f"K={case.K}; allowed: {allowed}")
    for split_k in splits:
        if split_k < 1:
            raise ValueError(f"split_k={split_k}; allowed: 1 or more")
    checked_device("cuda")
    nsight.path()


def jobs_of(cases: Iterable[Case], kernels: Sequence[str], splits: Sequence[int]) -> Iterator[Job]:
    """Every kernel of every case; those that share tiles out with every split."""
    for case in cases:
        for kernel in kernels:
            shares = kernel in PUBLISHED or ladder.RUNGS[kernel].shares
            yield from (Job(kernel, case, split_k) for split_k in (splits if shares else (1,)))


def emulated(job: Job, seed: int = 0) -> KernelTrace:
    """What the emulator counts. AssertionError where its product is wrong."""
    weights = Weights(job.case, seed, "cpu")
    B = weights.columns(job.case.N)
    if job.kernel in ladder.RUNGS:
        rung = ladder.encode(job.kernel, weights.dense)
        C, trace = ladder.emulate(rung, B, split_k=job.split_k)
    else:
        with emulator.recording(split_k=job.split_k) as traces:
            C = spmm(encode(weights.dense, job.kernel), B, backend="emulator")
        (trace,) = traces
    weights.judge(job.case.N).check(C)
    return trace


def rows_of(job: Job, trace: KernelTrace, launches: list[Launch]) -> Iterator[dict]:
    """Rows of a job without their origin. RuntimeError where the launches are not the trace's."""
    functions = [kernel.split("<")[0] for kernel in trace.kernels]
    seen = [nsight.function_name(launch) for launch in launches]
    if seen != functions:
        raise RuntimeError(f"{job}: ncu saw {seen}, the emulator ran {functions}")
    name = f"{job.kernel}_mma" if job.kernel in PUBLISHED else job.kernel
    columns = {"kernel": name, **asdict(job.case), "split_k": job.split_k}
    for launched, function, launch in zip(trace.kernels, functions, launches, strict=True):
        for metric, one in _known(launch).items():
            totals = (trace.total(operation, kernel=launched) for operation in one.operations)
            counts = {"emulator": sum(getattr(total, one.field) for total in totals),
                      "ncu": round(number(launch[one.ncu][1]))}  # fmt: skip
            yield columns | {"function": function, "metric": metric} | counts


def _known(launch: Launch) -> dict[str, Compared]:
    """Those of COMPARED that ncu measured; RuntimeError where there are none."""
    known = {metric: one for metric, one in COMPARED.items() if nsight.measured(launch, one.ncu)}
    if not known:
        raise RuntimeError(f"ncu did not measure {', '.join(METRICS)}")
    return known


def count_summary(rows: list[dict]) -> str:
    """Rows of `counts` as a table for a terminal: how well each metric agrees."""
    frame = pd.DataFrame(rows)
    lines = [agreement(frame).to_string(float_format="{:.3f}".format)]
    lines += [f"ncu does not know {one.ncu} here" for metric, one in COMPARED.items()
              if metric not in set(frame.metric)]  # fmt: skip
    lines.append(f"{frame.emulator.eq(frame.ncu).sum()} of {len(frame)} counts are equal")
    return "\n".join(lines)
