"""The commands that measure, and keep rows: each is a sweep, or a loop of its own."""

import sys
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from lab_utils.analysis.variants import VARIANTS
from lab_utils.backends import cpu
from lab_utils.baselines import BASELINES
from lab_utils.cli.commands import main
from lab_utils.cli.sweeps import (
    case_options,
    check_output,
    is_given,
    model_option,
    shapes_of,
    sweep,
)
from lab_utils.console import many, tell_added
from lab_utils.formats import FORMATS
from lab_utils.ladder import RUNGS


@main.command()
@case_options("4096x4096", N="1,8,16", sparsity="0.5,0.7", dtype="bf16")
@model_option
@many("--format", "formats", str, "NAMES",
      f"Formats of A: {', '.join(FORMATS)}; on a GPU {', '.join(VARIANTS)}, too.  "
      "[default: tca_bme; on a GPU, all that it multiplies]")  # fmt: skip
@click.option("--device", metavar="NAME", help="cpu or cuda.  [default: cuda where there is one]")
@many("--baseline", "baselines", str, "NAMES",
      f"What to measure beside ours on a GPU: {', '.join(BASELINES)}.  [default: all]")  # fmt: skip
@many("--isa", "isas", str, "NAMES",
      "Instruction sets of the CPU beside the one that is chosen anyway: "
      f"{', '.join(cpu.ISAS)}.")  # fmt: skip
@click.option("--repeats", default=15, type=click.IntRange(min=1), show_default=True,
              help="Times taken of each kernel; slow ones get fewer on a GPU.")  # fmt: skip
@click.option("--encode", is_flag=True, help="Measure the formats' encoders instead of products.")
def bench(shapes: list[str], models: list[str], formats: list[str], device: str | None,
          baselines: list[str], isas: list[str], encode: bool, save: bool, output: Path | None,
          repeats: int, **grid: Any) -> None:  # fmt: skip
    """Measure sparse products beside dense ones.

    Each is checked before it is timed.

    Where an option takes several values, they are joined by commas, or the option is repeated.
    Rows are kept case by case. What fails is left out and named; the exit status is then 1.
    """
    from lab_utils import bench
    from lab_utils.bench.encoders import encode_summary
    from lab_utils.bench.measuring import spmm_summary

    device = device or bench.default_device()
    of_encoders = {"Ns": [8]} if encode else {}
    cases = list(bench.grid(shapes_of(shapes, models), **(grid | of_encoders)))
    formats = formats or bench.default_formats(device)
    where = {"save": save, "output": output, "device": device, "repeats": repeats}
    if encode:
        if isas or baselines or is_given("Ns"):
            raise ValueError("--encode takes no --N, --isa or --baseline: they are of products")
        run = bench.measure_encoders
        sys.exit(sweep("encode", encode_summary, cases, formats, run=run, **where))
    where |= {"isas": isas, "baselines": baselines or None}
    sys.exit(sweep("spmm", spmm_summary, cases, formats, **where))


@main.command()
@case_options("36864x9216", N="8,64", sparsity="0.5,0.8", dtype="fp16")
@many("--format", "formats", str, "NAMES",
      "Formats of A.  [default: all that the GPU multiplies]")  # fmt: skip
@many("--baseline", "baselines", str, "NAMES",
      f"What to measure beside ours: {', '.join(BASELINES)}.", default=["cublas_linear"],
      show_default=True)  # fmt: skip
@click.option("--seconds", default=1.0, show_default=True, help="How long each kernel runs.")
def energy(shapes: list[str], formats: list[str], baselines: list[str], seconds: float,
           save: bool, output: Path | None, **grid: Any) -> None:  # fmt: skip
    """Measure what products cost a GPU in joules.

    Each kernel is checked, then runs alone and without a pause: a GPU at its limit of power lowers
    its clocks, which what `lab bench` times is too short for.
    """
    from lab_utils import bench
    from lab_utils.bench.energy import check, energy_summary, measure_energy

    cases = list(bench.grid(bench.shapes(shapes), **grid))
    formats = formats or bench.default_formats("cuda")
    check(formats, baselines=baselines, seconds=seconds)
    sys.exit(sweep("energy", energy_summary, cases, formats, save, output, run=measure_energy,
                   device="cuda", baselines=baselines, seconds=seconds))  # fmt: skip


@main.command()
@case_options("4096x4096", N="1,8,64", sparsity="0.8", dtype="fp16")
@model_option
@many(
    "--format",
    "formats",
    str,
    "NAMES",
    "Formats of the layers, beside a dense one.  [default: all that the GPU multiplies]",
)
def eager(shapes: list[str], models: list[str], formats: list[str], save: bool,
          output: Path | None, **grid: Any) -> None:  # fmt: skip
    """Measure layers as Python calls them, without a graph.

    Each is checked, then called many times in a row. Where Python takes longer to launch a product
    than the GPU takes for it, a model's steps are worth capturing.
    """
    from lab_utils import bench
    from lab_utils.bench.eager import check, eager_summary, measure_eager

    cases = list(bench.grid(shapes_of(shapes, models), **grid))
    formats = formats or bench.default_formats("cuda")
    check(formats)
    sys.exit(sweep("eager", eager_summary, cases, formats, save, output, run=measure_eager,
                   device="cuda"))  # fmt: skip


@main.command()
@case_options("36864x9216", N="8,16,32,64", sparsity="0.5,0.8", dtype="fp16")
@many("--format", "formats", str, "NAMES",
      "Sparse formats.  [default: all whose kernels have stages]")  # fmt: skip
@click.option("--stages/--no-stages", default=True, show_default=True,
              help="Time the kernels without each stage.")  # fmt: skip
@click.option("--counters/--no-counters", default=True, show_default=True,
              help="Read the profiler's counters (needs ncu).")  # fmt: skip
def anatomy(shapes: list[str], formats: list[str], stages: bool, counters: bool, save: bool,
            output: Path | None, **grid: Any) -> None:  # fmt: skip
    """Measure where the GPU kernels' time goes.

    Each kernel is timed without each of its stages, and looked at by the profiler.
    """
    from lab_utils import bench, results
    from lab_utils.bench import nsight
    from lab_utils.bench.anatomy import check, measure_stages, multiplied_formats, stage_summary
    from lab_utils.bench.counters import counter_summary, measure_counters

    cases = list(bench.grid(bench.shapes(shapes), **grid))
    formats = formats or multiplied_formats()
    check(formats)  # before anything of that size is made
    if counters:
        nsight.path()
        if save:
            check_output("counters", "cuda", output)
    status = 0
    if stages:
        status = sweep("stages", stage_summary, cases, formats, save, output, run=measure_stages,
                       device="cuda")  # fmt: skip
    if counters:
        rows = measure_counters(cases, formats)
        files = results.append("counters", rows, output) if save else []
        click.echo(counter_summary(rows))
        tell_added(files)
    sys.exit(status)


@main.command()
@case_options("36864x9216,7168x7168,4096x4096", N="8,16,32,64", sparsity="0.5,0.8", dtype="fp16")
@model_option
@many("--format", "formats", str, "NAMES",
      "Sparse formats.  [default: all whose kernels share tiles out]")  # fmt: skip
def shares(shapes: list[str], models: list[str], formats: list[str], save: bool,
           output: Path | None, **grid: Any) -> None:  # fmt: skip
    """Measure how A's tiles are best shared out.

    The plan's number of workers is timed beside others.
    """
    from lab_utils import bench
    from lab_utils.backends.shares import MODELS
    from lab_utils.bench.shares import check, measure_shares, share_summary

    cases = list(bench.grid(shapes_of(shapes, models), **grid))
    formats = formats or list(MODELS)
    check(formats)
    sys.exit(sweep("shares", share_summary, cases, formats, save, output, run=measure_shares,
                   device="cuda"))  # fmt: skip


@main.command()
@case_options("36864x9216,7168x28672", N="16", sparsity="0.5,0.8", dtype="fp16")
@many("--rung", "rungs", str, "NAMES", f"Of the ladder: {', '.join(RUNGS)}.  [default: all]")
def ladder(shapes: list[str], rungs: list[str], save: bool, output: Path | None,
           **grid: Any) -> None:  # fmt: skip
    """Measure the teaching kernels on a GPU.

    They are those of kernels/ladder; each is checked before it is timed.
    """
    from lab_utils import bench
    from lab_utils.bench.ladder import check, ladder_summary, measure_ladder

    cases = list(bench.grid(bench.shapes(shapes), **grid))
    check(rungs)  # before anything of that size is made
    sys.exit(sweep("ladder", ladder_summary, cases, rungs or list(RUNGS), save, output,
                   run=measure_ladder, device="cuda"))  # fmt: skip


@main.command()
@case_options("256x512", N="16", sparsity="0.5,0.8", dtype="fp16")
@many("--kernel", "kernels", str, "NAMES", "Formats and rungs of the ladder.  [default: all]")
@many("--split-k", "splits", int, "INTS",
      "Workers for each row of blocks, of kernels that share tiles out.", default=["1,2"],
      show_default=True)  # fmt: skip
def counts(shapes: list[str], kernels: list[str], splits: list[int], save: bool,
           output: Path | None, **grid: Any) -> None:  # fmt: skip
    """Hold the emulator's counts against ncu's.

    It needs a GPU and ncu, and takes small products.

    Rows are kept case by case.
    """
    from lab_utils import bench, results
    from lab_utils.bench.counts import KERNELS, check, count_summary, measure_counts

    cases, kernels = list(bench.grid(bench.shapes(shapes), **grid)), kernels or list(KERNELS)
    check(cases, kernels, splits)
    if save:
        check_output("counts", "cuda", output)
    rows, files = [], set()
    try:
        for case in tqdm(cases, desc="counting", unit="case", leave=False, disable=None):
            found = measure_counts([case], kernels, splits=splits)
            files.update(results.append("counts", found, output) if save else ())
            rows += found
        click.echo(count_summary(rows))
    finally:
        tell_added(files)
