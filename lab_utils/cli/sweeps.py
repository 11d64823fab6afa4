"""A sweep of cases, as commands that measure have it: its options, its rows, what it leaves out."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from tqdm import tqdm

from lab_utils.console import Folder, Option, many, tell_added, together
from lab_utils.patterns import PATTERNS


def case_options(shape: str, N: str, sparsity: str, dtype: str) -> Option:
    """The options of every sweep, with these defaults: its cases, and where its rows go."""
    shown = {"show_default": True}
    return together(
        many("--shape", "shapes", str, "MxK", "Shape of the weights; may be repeated.",
             default=[shape], **shown),
        many("--N", "Ns", int, "INTS", "Columns of the activations.", default=[N], **shown),
        many("--sparsity", "sparsities", float, "FLOATS", "Fractions of zeros, 0 to 1.",
             default=[sparsity], **shown),
        click.option("--dtype", default=dtype, show_default=True, help="bf16 or fp16."),
        click.option("--pattern", default="random", show_default=True,
                     help=f"How the zeros lie: {', '.join(PATTERNS)}."),
        click.option("--save/--no-save", default=True, show_default=True,
                     help="Append the rows to <device>/<table>.csv in the output folder."),
        click.option("--output", type=Folder(),
                     help="Folder for the rows.  [default: data/measured]"),
    )  # fmt: skip


model_option = many(
    "--model", "models", str, "NAME",
    "Shapes of a model's layers, such as OPT-30B, and of --shape only what is asked for; may be "
    "repeated.",
)  # fmt: skip


def shapes_of(shapes: Sequence[str], models: Sequence[str]) -> list[tuple[int, int]]:
    """Those of both options; of the models alone where no shape was asked for."""
    from lab_utils import bench

    return bench.shapes(shapes if is_given("shapes") or not models else [], models)


def is_given(parameter: str) -> bool:
    """Whether the command that runs was given this option, and does not have its default."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is not ParameterSource.DEFAULT


class LeftOut:
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
            several = "measurement" if self.failures == 1 else "measurements"
            click.echo(f"{self.failures} {several} failed", err=True)
        return 1 if self.failures else 0


def check_output(table: str, device: str, output: Path | None) -> None:
    """Raise, before anything is measured, where the table of that device could not be written."""
    from lab_utils import machine, results
    from lab_utils.bench.measuring import checked_device

    name = machine.device_name(checked_device(device))
    results.check_writable(table, name, output, "--output")


def sweep(
    table: str,
    summary: Callable[..., str],
    cases: Sequence,
    what: Sequence[str],
    save: bool,
    output: Path | None,
    **options: Any,
) -> int:
    """Measure `what` in all cases, keep rows case by case, print a summary; the exit status.

    Where it is interrupted, too, it tells at the end which files rows were added to.
    """
    from lab_utils import bench, machine, results

    if save:
        check_output(table, options["device"], output)
    if options["device"] == "cpu" and (busy := machine.busy()):
        click.echo(f"warning: {busy}; times will tell of that, too", err=True)
    files: set[Path] = set()
    left_out = LeftOut()
    try:
        rows = bench.sweep(
            cases,
            what,
            leave_out=left_out.hear,
            progress=partial(tqdm, desc="measuring", unit="case", leave=False, disable=None),
            keep=lambda rows: files.update(results.append(table, rows, output) if save else ()),
            **options,
        )
        if len(rows):
            click.echo(summary(rows))
    finally:
        tell_added(files)
    return left_out.tell()
