"""The command `lab`: each subcommand is a thin wrapper over one function of `lab_utils`.

Modules are imported inside the commands, so that `lab --help` does not wait for torch.
Exit status: 0 done, 1 something failed, 2 bad input, 130 interrupted.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm


class OneMessage(click.Group):
    """Errors that name an argument, its value and what is allowed need no traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):  # both are RuntimeErrors
            raise
        except KeyboardInterrupt as interrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(130) from interrupt
        except ValueError as error:
            raise _failure(error, 2) from error
        except (RuntimeError, OSError) as error:
            raise _failure(error, 1) from error


def _failure(error: Exception, exit_code: int) -> click.ClickException:
    failure = click.ClickException(str(error) or type(error).__name__)
    failure.exit_code = exit_code
    return failure


@click.group(cls=OneMessage, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lscd-workbench")
def main() -> None:
    """LSCD workbench: sparse formats, their kernels, and the notebooks about them."""


@main.command()
def info() -> None:
    """Tell what this machine is and what works on it."""
    from lab_utils import machine

    for name, value in machine.describe().items():
        click.echo(f"{name:<18}  {value}")


@main.command()
def build() -> None:
    """Compile kernels/, or find it compiled already."""
    from lab_utils import build

    progress = partial(tqdm, desc="compiling", unit="file", leave=False, disable=None)
    for name, path in build.build_all(progress).items():
        click.echo(f"{name:<15}  {path}")


def _assignments(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict:
    """`-p name=value` texts as a dict; the runner reads each value as its notebook declares."""
    from lab_utils.run.parameters import Written

    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"{text!r}; allowed: name=value", ctx, option)
        if name in values:
            raise click.BadParameter(f"{name!r} is given twice; allowed: once", ctx, option)
        values[name] = Written(value)
    return values


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...")
@click.option("--profile", default="auto", show_default=True, help="One of notebooks/profiles.")
@click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE", callback=_assignments,
              help="Set a parameter of every notebook of this run; overrides the profile.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the run's own folder.  [default: outputs]")
def run(notebooks: tuple[str, ...], profile: str, parameters: dict, output: Path | None) -> None:
    """Execute notebooks and write a report.

    NOTEBOOK is a name in notebooks/ or a path; without any, all of notebooks/ run.
    """
    from lab_utils.run import OUTPUTS
    from lab_utils.run import run as execute

    report = execute(notebooks, profile, parameters, output or OUTPUTS)
    click.echo(f"report   {report.folder / 'index.html'}")
    sys.exit(report.exit_code)


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...",
                type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
def format(notebooks: tuple[Path, ...], check: bool) -> None:
    """Bring notebooks into canonical form.

    Without a NOTEBOOK, all of notebooks/. What needs a person is printed.
    """
    from lab_utils.run import NOTEBOOKS
    from lab_utils.run.canonical import format_notebooks

    problems = format_notebooks(notebooks or sorted(NOTEBOOKS.glob("*.ipynb")), check)
    for problem in problems:
        click.echo(problem, err=True)
    sys.exit(1 if problems else 0)


def _list_of(kind: type) -> Callable:
    """Reads an option that takes several values with commas, or is repeated; each value once."""

    def read(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list:
        values = {}
        for part in ",".join(texts).split(",") if texts else []:
            try:
                values[kind(part)] = None
            except ValueError as error:
                wanted = f"{kind.__name__}s with commas between them"
                raise click.BadParameter(f"{part!r}; allowed: {wanted}", ctx, option) from error
        return list(values)

    return read


@main.command()
@click.option("--shape", "shapes", multiple=True, metavar="MxK", callback=_list_of(str),
              help="Shape of the weights; may be repeated.  [default: 4096x4096]")
@click.option("--model", "models", multiple=True, metavar="NAME", callback=_list_of(str),
              help="Shapes of a model's layers, such as OPT-30B; may be repeated.")
@click.option("--N", "Ns", multiple=True, default=["1,8,16"], callback=_list_of(int),
              metavar="INTS", show_default=True, help="Columns of the activations.")
@click.option("--sparsity", "sparsities", multiple=True, default=["0.5,0.7"], metavar="FLOATS",
              callback=_list_of(float), show_default=True, help="Fractions of zeros, 0 to 1.")
@click.option("--format", "formats", multiple=True, metavar="NAMES", callback=_list_of(str),
              help="Sparse formats.  [default: tca_bme; on a GPU, all that it multiplies]")
@click.option("--dtype", default="bf16", show_default=True, help="bf16 or fp16.")
@click.option("--pattern", default="random", show_default=True, help="How the zeros lie.")
@click.option("--device", metavar="NAME", help="cpu or cuda.  [default: cuda where there is one]")
@click.option("--baseline", "baselines", multiple=True, metavar="NAMES", callback=_list_of(str),
              help="What to measure beside ours on a GPU.  [default: all]")
@click.option("--isa", "isas", multiple=True, metavar="NAMES", callback=_list_of(str),
              help="Instruction sets of the CPU beside the one that is chosen anyway.")
@click.option("--repeats", default=15, type=click.IntRange(min=1), show_default=True,
              help="Times that are taken of each kernel; slow ones get fewer on a GPU.")
@click.option("--encode", is_flag=True, help="Measure the formats' encoders instead of products.")
@click.option("--save/--no-save", default=True, show_default=True,
              help="Append the rows to <device>/spmm.csv (or encode.csv) in the output folder.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the rows.  [default: data/measured]")
def bench(shapes: list[str], models: list[str], formats: list[str], device: str | None,
          baselines: list[str], isas: list[str], encode: bool, save: bool, output: Path | None,
          repeats: int, **grid: Any) -> None:  # fmt: skip
    """Measure sparse products beside dense ones; each is checked before it is timed.

    Where an option takes several values, they are joined by commas, or the option is repeated.
    Rows are kept case by case. What fails is left out and named; the exit status is then 1.
    """
    from lab_utils import bench, results

    files: set[Path] = set()
    left_out = _LeftOut()
    device = device or bench.default_device()
    found = bench.shapes(shapes, models) if shapes or models else [(4096, 4096)]
    others = {"isas": isas, "baselines": baselines or None}
    table, options = ("encode", {"run": bench.measure_encoders}) if encode else ("spmm", others)
    rows = bench.sweep(
        bench.grid(found, **(grid | {"Ns": [8]} if encode else grid)),
        formats or bench.default_formats(device),
        device=device,
        repeats=repeats,
        leave_out=left_out.hear,
        progress=partial(tqdm, desc="measuring", unit="case", leave=False, disable=None),
        keep=lambda rows: files.update(results.append(table, rows, output) if save else ()),
        **options,
    )
    click.echo(results.encode_summary(rows) if encode else results.summary(rows))
    for file in files:
        click.echo(f"\nrows added to {file}")
    sys.exit(left_out.tell())


@main.command()
@click.option("--shape", "shapes", multiple=True, default=["36864x9216"], metavar="MxK",
              callback=_list_of(str), show_default=True, help="Shape of the weights.")
@click.option("--N", "Ns", multiple=True, default=["8,16,32,64"], callback=_list_of(int),
              metavar="INTS", show_default=True, help="Columns of the activations.")
@click.option("--sparsity", "sparsities", multiple=True, default=["0.5,0.8"], metavar="FLOATS",
              callback=_list_of(float), show_default=True, help="Fractions of zeros, 0 to 1.")
@click.option("--format", "formats", multiple=True, metavar="NAMES", callback=_list_of(str),
              help="Sparse formats.  [default: all whose kernels have stages]")
@click.option("--dtype", default="fp16", show_default=True, help="bf16 or fp16.")
@click.option("--pattern", default="random", show_default=True, help="How the zeros lie.")
@click.option("--stages/--no-stages", default=True, show_default=True,
              help="Time the kernels without each stage.")
@click.option("--counters/--no-counters", default=True, show_default=True,
              help="Read the profiler's counters (needs ncu).")
@click.option("--save/--no-save", default=True, show_default=True,
              help="Append the rows to <device>/stages.csv and counters.csv in the output folder.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the rows.  [default: data/measured]")
def anatomy(shapes: list[str], formats: list[str], stages: bool, counters: bool, save: bool,
            output: Path | None, **grid: Any) -> None:  # fmt: skip
    """Measure where the GPU kernels' time goes: without each stage, and with the profiler."""
    from lab_utils import bench, results
    from lab_utils.bench.anatomy import STAGES, check, measure_stages, stage_summary
    from lab_utils.bench.counters import counter_summary, measure_counters

    def told(table: str, rows: list[dict], summary: Callable) -> None:
        files = results.append(table, rows, output) if save else []
        click.echo("\n".join([summary(rows), *(f"rows added to {file}" for file in files), ""]))

    cases = list(bench.grid(bench.shapes(shapes), **grid))
    formats = formats or list(STAGES)
    check(formats)  # before anything of that size is made
    if stages:
        progress = partial(tqdm, desc="measuring", unit="case", leave=False, disable=None)
        rows = bench.sweep(cases, formats, run=measure_stages, device="cuda", progress=progress)
        told("stages", rows.to_dict("records"), stage_summary)
    if counters:
        told("counters", measure_counters(cases, formats), counter_summary)


@main.command()
@click.option("--shape", "shapes", multiple=True, default=["36864x9216,7168x28672"], metavar="MxK",
              callback=_list_of(str), show_default=True, help="Shape of the weights.")
@click.option("--N", "Ns", multiple=True, default=["16"], callback=_list_of(int),
              metavar="INTS", show_default=True, help="Columns of the activations.")
@click.option("--sparsity", "sparsities", multiple=True, default=["0.5,0.8"], metavar="FLOATS",
              callback=_list_of(float), show_default=True, help="Fractions of zeros, 0 to 1.")
@click.option("--rung", "rungs", multiple=True, metavar="NAMES", callback=_list_of(str),
              help="Rungs of the ladder.  [default: all]")
@click.option("--dtype", default="fp16", show_default=True, help="bf16 or fp16.")
@click.option("--pattern", default="random", show_default=True, help="How the zeros lie.")
@click.option("--save/--no-save", default=True, show_default=True,
              help="Append the rows to <device>/ladder.csv in the output folder.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the rows.  [default: data/measured]")
def ladder(shapes: list[str], rungs: list[str], save: bool, output: Path | None,
           **grid: Any) -> None:  # fmt: skip
    """Measure the teaching kernels of kernels/ladder on a GPU, each checked before it is timed."""
    from lab_utils import bench, results
    from lab_utils.bench.ladder import check, ladder_summary, measure_ladder
    from lab_utils.ladder import RUNGS

    check(rungs)  # before anything of that size is made
    files: set[Path] = set()
    left_out = _LeftOut()
    rows = bench.sweep(
        bench.grid(bench.shapes(shapes), **grid),
        rungs or list(RUNGS),
        run=measure_ladder,
        device="cuda",
        leave_out=left_out.hear,
        progress=partial(tqdm, desc="measuring", unit="case", leave=False, disable=None),
        keep=lambda rows: files.update(results.append("ladder", rows, output) if save else ()),
    )
    click.echo(ladder_summary(rows))
    for file in files:
        click.echo(f"\nrows added to {file}")
    sys.exit(left_out.tell())


class _LeftOut:
    """What a sweep left out: failures are told at once, what cannot run here once at the end."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.failures = 0

    def hear(self, case: object, kernel: str, why: str | Exception) -> None:
        if isinstance(why, Exception):
            self.failures += 1
            tqdm.write(f"Error: {why}", file=sys.stderr)
        else:
            self.reasons[f"{kernel}: {why}"] += 1

    def tell(self) -> int:
        """Print reasons and failures to stderr; returns the exit status."""
        for reason, cases in self.reasons.items():
            click.echo(f"left out of {cases} cases: {reason}", err=True)
        if self.failures:
            click.echo(f"{self.failures} measurements failed", err=True)
        return 1 if self.failures else 0


if __name__ == "__main__":
    main(prog_name="lab")
