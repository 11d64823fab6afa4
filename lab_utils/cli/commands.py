"""The command `lab`: each subcommand is a thin wrapper over one function of `lab_utils`.

Modules are imported inside the commands: each waits only for what it needs.
`lab_utils.console` says how commands fail.
"""

import sys
from functools import partial
from pathlib import Path

import click
from tqdm import tqdm

from lab_utils.console import Folder, OneMessage, ended_in_order, many


@click.group(cls=OneMessage, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lscd-workbench")
def main() -> None:
    """LSCD workbench: sparse formats, their kernels, and the notebooks about them."""
    click.get_current_context().with_resource(ended_in_order())  # whichever command follows


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
              help="Set a parameter of every notebook; overrides the profile.")  # fmt: skip
@click.option("--output", type=Folder(),
              help="Folder for the run's own folder.  [default: outputs]")  # fmt: skip
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
                type=click.Path(path_type=Path, dir_okay=False, exists=True))  # fmt: skip
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


@main.command()
@click.option("--table", default="spmm", show_default=True, help="spmm or energy.")
@many("--kernel", "kernels", str, "NAMES", "Of these kernels alone.  [default: of all]")
@click.option("--output", type=Folder(exists=True),
              help="Folder of the rows.  [default: data/measured]")  # fmt: skip
@click.option("--drop", is_flag=True, help="Take them out, instead of counting them.")
def superseded(table: str, kernels: list[str], output: Path | None, drop: bool) -> None:
    """Count measured rows that a later run of their case replaces."""
    from lab_utils.results.superseded import find

    found = find(table, kernels, output, drop=drop)
    for (file, kernel), count in found.items():
        click.echo(f"{count:>6}  {kernel:<28}  {file}")
    click.echo(f"{found.sum():>6}  rows {'taken out' if drop else 'are superseded'}")


@main.command()
@click.option("--gpu", default="H200-SXM", show_default=True, help="A name in data/devices.yaml.")
@many("--shape", "shapes", str, "MxK",
      "Shape of the weights; may be repeated.  [default: 28672x7168]")  # fmt: skip
@many("--model", "models", str, "NAME", "Shapes of a model's layers; may be repeated.")
@many("--N", "Ns", int, "INTS", "Columns of the activations, 1 to 128.", default=["1,8,16,32,64"],
      show_default=True)  # fmt: skip
@many("--sparsity", "sparsities", float, "FLOATS", "Fractions of zeros, 0 to 1.",
      default=["0.5,0.8"], show_default=True)  # fmt: skip
def formats(gpu: str, shapes: list[str], models: list[str], Ns: list[int],
            sparsities: list[float]) -> None:  # fmt: skip
    """Tell which format is expected to be the fastest on a GPU, without any.

    By the costs that plans compare, which rows of an H200 and an H100 gave: speed-ups over a dense
    product of a GPU that has rested, and the bytes of the fastest.
    """
    import pandas as pd

    from lab_utils import bench, catalog
    from lab_utils.analysis.memory import KNOWN
    from lab_utils.backends.choosing import expected
    from lab_utils.backends.gpus import HELD

    device, table = catalog.device(gpu), []
    found = bench.shapes(shapes, models) if shapes or models else [(28672, 7168)]
    for case in bench.grid(found, Ns, sparsities):
        ranked = expected(case.M, case.K, case.N, case.sparsity, device)
        said = {"shape": f"{case.M}x{case.K}", "zeros": f"{100 * case.sparsity:g}%", "N": case.N}
        best = {"fastest": ranked[0].format, "MB": f"{ranked[0].encoded_bytes / 1e6:.1f}"}
        table.append(said | best | {one.format: one.speedup for one in ranked})
    unheld = " and ".join(HELD[device.name]) if device.name in HELD else "these numbers"
    warning = f"; no rows of this GPU hold {unheld} to anything" if unheld else ""
    click.echo(f"{device.title}: speed-up over dense{warning}\n")
    told = pd.DataFrame(table)
    told = told[[*told.columns[:5], *(name for name in KNOWN if name in told)]]
    click.echo(told.to_string(index=False, na_rep="", float_format="{:.2f}".format))
