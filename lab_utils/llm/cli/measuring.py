"""Commands that measure models, and keep rows."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from lab_utils.console import Folder, many, tell_added
from lab_utils.llm.cli.commands import main
from lab_utils.llm.cli.options import (
    MODEL,
    check_stored,
    lengths_options,
    place_options,
    placed,
    pruning_options,
    recipe_of,
    several,
    shown,
)  # fmt: skip


@main.command()
@click.option("--model", required=True, help=MODEL)
@several("--format", "formats", str, "NAMES", "Formats; dense and transformers are baselines.",
          default=["dense,tca_bme"])  # fmt: skip
@pruning_options
@many("--batch", "batches", int, "INTS",
      "Sequences, commas between them.  [default: 8, 16 … to the largest that fits]")  # fmt: skip
@lengths_options
@shown("--repeats", default=1, help="Generations; the row has their median.")
@shown("--breakdown/--no-breakdown", default=True, help="Measure the parts, too.")
@click.option("--energy", is_flag=True, help="Read the GPUs' meters, too: joules.")
@shown("--save/--no-save", default=True,
        help="Append the rows to <device>/opt.csv, those of energy to opt_energy.csv.")  # fmt: skip
@click.option("--folder", type=Folder(), help="Folder for the rows.  [default: data/measured]")
@place_options
def measure(model: str, formats: list[str], sparsity: float | None, within: str,
            outer_fc1_dense: bool, batches: list[int], energy: bool, save: bool,
            folder: Path | None, device: str | None, dtype: str | None,
            **options: Any) -> None:  # fmt: skip
    """Measure generations: tokens per GPU-second, peak memory, and where the time goes.

    Dense weights are the model's own, with what zeros they have; sparse ones are pruned by
    magnitude, unless the checkpoint is one that `prune` wrote. What does not fit is left out and
    named; the exit status is 1 where nothing fits.
    """
    from lab_utils import machine, results
    from lab_utils.llm.checkpoint import opened
    from lab_utils.llm.measuring import Sweep
    from lab_utils.llm.measuring.energy import energy_line
    from lab_utils.llm.measuring.generations import opt_line
    from lab_utils.llm.parallel import running

    place = placed(device, dtype)
    source = opened(model, **place)
    check_stored(source, dtype, outer_fc1_dense)
    recipe = recipe_of(source, None, sparsity, within, outer_fc1_dense)
    with running(source.config, place["device"]) as ranks:
        first = ranks.rank == 0
        if save:  # each rank asks, so that none waits for one that has failed
            name = machine.device_name(place["device"])
            for table in ("opt", "opt_energy") if energy else ("opt",):
                results.check_writable(table, name, folder, "--folder")
        tell = partial(click.echo, err=True) if first else str
        heard: list[dict] = []  # of energy
        options |= {"energy": heard.append if energy else None, "tell": _after(tell)}
        sweep = Sweep(source, recipe.target, recipe.dense, ranks=ranks, **options, **place)
        measured, files = False, set()
        try:
            for row in sweep.rows(formats, batches, leave_out=tell):
                measured = True
                if first:
                    click.echo("\n".join([opt_line(row), *map(energy_line, heard)]))
                if first and save:
                    files.update(results.append("opt", [row], folder))
                    files.update(results.append("opt_energy", heard, folder))
                heard.clear()
        finally:
            tell_added(files)
    if not measured:
        tell("nothing was measured: nothing that was asked for fits")
        sys.exit(1)


@main.command()
@several("--model", "models", str, "NAMES", "Models of data/models.yaml, of any family.",
          default=["Llama-3-8B"])  # fmt: skip
@several("--format", "formats", str, "NAMES", "Formats, beside dense.", default=["tca_bme"])
@shown("--blocks", default=4, help="So many of its first blocks.")
@shown("--sparsity", default=0.8, help="Fraction of zeros.")
@shown("--batch", default=8, help="Sequences, of which a step has a token each.")
@shown("--save/--no-save", default=True, help="Append the rows to <device>/steps.csv.")
@click.option("--folder", type=Folder(), help="Folder for the rows.  [default: data/measured]")
@place_options
def steps(models: list[str], formats: list[str], save: bool, folder: Path | None,
          device: str | None, dtype: str | None, **case: Any) -> None:  # fmt: skip
    """Measure steps of transformers' own models, sparse and dense; weights are random."""
    from lab_utils import catalog, machine, results
    from lab_utils.llm.measuring.steps import Blocks, measure_steps, step_lines

    place, files = placed(device, dtype), set()
    asked = [Blocks(catalog.model(name).name, **case) for name in models]
    if save:
        results.check_writable("steps", machine.device_name(place["device"]), folder, "--folder")
    try:
        for blocks in asked:
            rows = measure_steps(blocks, formats, tell=partial(click.echo, err=True), **place)
            click.echo(step_lines(rows))
            files.update(results.append("steps", rows, folder) if save else ())
    finally:
        tell_added(files)


def _after(tell: Callable[[str], object]) -> Callable[[str], object]:
    """Tells with the seconds from now on before the text: a line for each part of a long run."""
    start = time.perf_counter()
    return lambda text: tell(f"{time.perf_counter() - start:6.1f} s  {text}")
