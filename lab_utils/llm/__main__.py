"""`python -m lab_utils.llm plan|generate|prune|measure|steps`: thin wrappers over `lab_utils.llm`.

    torchrun --nproc-per-node 4 -m lab_utils.llm measure --model OPT-175B

runs `generate` and `measure` on several GPUs. `lab_utils.console` says how commands fail.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from lab_utils.console import Folder, OneMessage, ended_in_order, many, tell_added, together

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
MODEL = "A size such as OPT-30B, with random weights; or the folder of a checkpoint."

_shown = partial(click.option, show_default=True)
_several = partial(many, show_default=True)
_lengths = together(
    _shown("--prompt", default=64, help="Tokens of each prompt."),
    _shown("--output", default=512, help="New tokens of each sequence."),
)
_pruning = together(
    click.option("--sparsity", type=float,
                 help="Fraction of zeros.  [default: that of N:M, else prune nothing]"),
    _shown("--within", default="row", help="Where that fraction holds: row, layer, or N:M."),
    click.option("--outer-fc1-dense", is_flag=True,
                 help="Keep fc1 of the first and last quarter of layers dense, as Flash-LLM does."),
)  # fmt: skip
_place = together(
    click.option("--device", help="cpu or cuda.  [default: cuda where there is one]"),
    click.option("--dtype", type=click.Choice(list(DTYPES)),
                 help="Of the weights.  [default: fp16 on a GPU, bf16 on a CPU]"),
)  # fmt: skip


@click.group(cls=OneMessage, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """OPT with sparse weights: what fits, generating, pruning, measuring."""


@main.command()
@_several("--model", "models", str, "NAMES", "Sizes of the family.",
          default=["OPT-30B,OPT-66B,OPT-175B"])  # fmt: skip
@_several("--format", "formats", str, "NAMES", "Formats of the weights.",
          default=["dense,tca_bme,zero_row_24"])  # fmt: skip
@_several("--sparsity", "sparsities", float, "FLOATS", "Fractions of zeros.", default=["0.8"])
@_several("--gpu", "devices", str, "NAMES", "Names in data/devices.yaml.",
          default=["A100-80GB,H200-SXM"])  # fmt: skip
@_shown("--gpus", default=1, help="How many of them share each model.")
@_shown("--batch", default=8, help="Sequences; the last column says how many GPUs they need.")
@_lengths
def plan(models: list[str], formats: list[str], sparsities: list[float], devices: list[str],
         **case: int) -> None:  # fmt: skip
    """Tell which model, format and batch fits which GPU, without any.

    Where the GPU cannot multiply the format, the last column says why.
    """
    import pandas as pd

    from lab_utils import catalog
    from lab_utils.analysis import memory
    from lab_utils.llm.pruning import Target

    for sparsity in sparsities:  # which dense weights do not ask for
        Target(sparsity)
    works = [memory.Workload(catalog.model(name, "opt"), format, sparsity, **case)
             for name in models for format in formats
             for sparsity in ([0.0] if format == "dense" else sparsities)]  # fmt: skip
    table = pd.DataFrame(memory.answers(works, [catalog.device(name) for name in devices]))
    found = table.fewest_gpus.astype("Int64")  # as str it would be "8.0" beside one that is missing
    why = table.pop("obstacle").replace("", "more than 8")
    table["fewest_gpus"] = found.astype(str).where(found.notna(), why)
    click.echo(table.to_string(index=False, float_format="{:.1f}".format))


@main.command()
@click.option("--model", required=True, help=MODEL)
@click.option("--prompt", "prompts", multiple=True,
              help="Text, or token ids with commas between them; may be repeated.")  # fmt: skip
@_shown("--output", default=64, help="New tokens of each sequence, at most.")
@click.option("--format", help="Encode in this format.  [default: dense, or as stored]")
@_pruning
@_shown("--temperature", default=0.0, help="0 takes the most likely token.")
@click.option("--top-k", type=int, help="Of so many most likely tokens.")
@click.option("--top-p", type=float, help="Of the most likely tokens with this probability.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="For the same tokens again.")
@_place
def generate(model: str, prompts: tuple[str, ...], output: int, format: str | None,
             sparsity: float | None, within: str, outer_fc1_dense: bool, device: str | None,
             dtype: str | None, **sampling: Any) -> None:  # fmt: skip
    """Continue prompts: text where the checkpoint has a tokenizer, else token ids."""
    from lab_utils.llm import generate
    from lab_utils.llm.checkpoint import Stored, model_of, opened
    from lab_utils.llm.measuring.device_memory import out_of_memory_named
    from lab_utils.llm.measuring.fits import check_generation
    from lab_utils.llm.measuring.products import check_multiplied
    from lab_utils.llm.parallel import running
    from lab_utils.llm.prompts import Prompts
    from lab_utils.llm.text import Text

    place = _placed(device, dtype)
    source, text = opened(model, **place), Text.of(model)
    _check_stored(source, dtype, outer_fc1_dense)
    if format == "dense" and not isinstance(source, Stored):
        format = None  # the weights as they are
    tokens = text.encode(prompts)
    Prompts.of(tokens, source.config, output)  # before anything is loaded
    recipe = _recipe(source, format, sparsity, within, outer_fc1_dense)
    stored = source.formats if isinstance(source, Stored) else set()
    for one in {format} if format else stored:
        check_multiplied(one, place["device"])
    case = {"batch": len(tokens), "output": output}
    with running(source.config, place["device"]) as ranks, out_of_memory_named(model, case):
        if not isinstance(source, Stored):  # which tells its sparsity only when it is there
            check_generation(source.config, recipe, tokens, output, ranks.world, place["device"])
        opt = model_of(source, recipe, ranks=ranks, **place)
        new = generate(opt, tokens, output, stop=text.stop, **sampling).tolist()
        if ranks.rank == 0:
            click.echo("\n".join(map(text.continued, tokens, new)))


@main.command()
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@_shown("--format", default="tca_bme", help="Format of the pruned matrices.")
@_pruning
@_shown("--method", default="magnitude", help="magnitude, wanda, sparsegpt or taylor.")
@click.option("--calibration", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Text for methods that need some.")  # fmt: skip
@_shown("--sequences", default=128, type=click.IntRange(min=1), help="Of that text.")
@_shown("--length", default=2048, type=click.IntRange(min=1), help="Tokens of each of them.")
@_place
def prune(source: str, target: Path, format: str, sparsity: float | None, within: str,
          outer_fc1_dense: bool, method: str, calibration: Path | None, sequences: int,
          length: int, device: str | None, dtype: str | None) -> None:  # fmt: skip
    """Prune and encode a checkpoint, layer by layer, into the new folder TARGET.

    SOURCE is Hugging Face's folder of an OPT, or a size such as OPT-125M with random weights.
    """
    from lab_utils.llm.checkpoint import Stored, convert, opened
    from lab_utils.llm.text import Text, tokenizer_files

    click.get_current_context().with_resource(ended_in_order())
    place = _placed(device, dtype)
    opt = opened(source, **place)
    if isinstance(opt, Stored):
        raise ValueError(f"{source} is pruned already; allowed: dense weights")
    recipe = _recipe(opt, format, sparsity, within, outer_fc1_dense, method)
    if bool(recipe.statistic) != bool(calibration):
        asked = f"--calibration={str(calibration or '')!r} with --method={method}"
        raise ValueError(f"{asked}; allowed: {'a file of text' if recipe.statistic else 'none'}")
    tokens = Text.of(source).sequences(calibration, sequences, length) if calibration else None
    convert(opt, target, recipe, tokens=tokens, beside=tokenizer_files(source), **place)
    nbytes = sum(file.stat().st_size for file in target.iterdir())
    click.echo(f"{opt.config.name}: {nbytes / 1e9:.3f} GB in {target}")


@main.command()
@click.option("--model", required=True, help=MODEL)
@_several("--format", "formats", str, "NAMES", "Formats; dense and transformers are baselines.",
          default=["dense,tca_bme"])  # fmt: skip
@_pruning
@many("--batch", "batches", int, "INTS",
      "Sequences, commas between them.  [default: 8, 16 … to the largest that fits]")  # fmt: skip
@_lengths
@_shown("--repeats", default=1, help="Generations; the row has their median.")
@_shown("--breakdown/--no-breakdown", default=True, help="Measure the parts, too.")
@click.option("--energy", is_flag=True, help="Read the GPUs' meters, too: joules.")
@_shown("--save/--no-save", default=True,
        help="Append the rows to <device>/opt.csv, those of energy to opt_energy.csv.")  # fmt: skip
@click.option("--folder", type=Folder(), help="Folder for the rows.  [default: data/measured]")
@_place
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

    place = _placed(device, dtype)
    source = opened(model, **place)
    _check_stored(source, dtype, outer_fc1_dense)
    recipe = _recipe(source, None, sparsity, within, outer_fc1_dense)
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
@_several("--model", "models", str, "NAMES", "Models of data/models.yaml, of any family.",
          default=["Llama-3-8B"])  # fmt: skip
@_several("--format", "formats", str, "NAMES", "Formats, beside dense.", default=["tca_bme"])
@_shown("--blocks", default=4, help="So many of its first blocks.")
@_shown("--sparsity", default=0.8, help="Fraction of zeros.")
@_shown("--batch", default=8, help="Sequences, of which a step has a token each.")
@_shown("--save/--no-save", default=True, help="Append the rows to <device>/steps.csv.")
@click.option("--folder", type=Folder(), help="Folder for the rows.  [default: data/measured]")
@_place
def steps(models: list[str], formats: list[str], save: bool, folder: Path | None,
          device: str | None, dtype: str | None, **case: Any) -> None:  # fmt: skip
    """Measure steps of transformers' own models, sparse and dense; weights are random."""
    from lab_utils import catalog, machine, results
    from lab_utils.llm.measuring.steps import Blocks, measure_steps, step_lines

    place, files = _placed(device, dtype), set()
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


def _placed(device: str | None, dtype: str | None) -> dict[str, Any]:
    """Device and dtype, named or by default; RuntimeError where there is no such device."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r}; allowed: cpu, cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("device='cuda': torch sees no CUDA device")
    if device == "cuda":  # encoding leaves holes of all sizes, which fixed segments cannot reuse
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    return {"device": device, "dtype": DTYPES[dtype or ("fp16" if device == "cuda" else "bf16")]}


def _check_stored(source: Any, dtype: str | None, outer_fc1_dense: bool) -> None:
    """Raise ValueError for options that a stored model, whose matrices are as they are, ignores."""
    from lab_utils.llm.checkpoint import Stored

    if isinstance(source, Stored) and dtype:
        raise ValueError(f"dtype={dtype!r}; allowed with a stored model: none, it has its own")
    if isinstance(source, Stored) and outer_fc1_dense:
        raise ValueError("--outer-fc1-dense; allowed with dense weights, not with a stored model")


def _recipe(source: Any, format: str | None, sparsity: float | None, within: str,
            outer_fc1_dense: bool, method: str = "magnitude") -> Any:  # fmt: skip
    from lab_utils.analysis.memory import no_matrix, outer_fc1
    from lab_utils.llm.checkpoint import Stored
    from lab_utils.llm.pruning import Recipe, Target

    if sparsity is not None:
        target = Target(sparsity, within)
    elif ":" in within:
        target = Target.n_of_m(within)
    elif within != "row" or method != "magnitude":
        raise ValueError(f"sparsity=None, so within={within!r} and method={method!r} would change "
                         "nothing; allowed: a sparsity from 0 to 1")  # fmt: skip
    elif outer_fc1_dense and format is None and not isinstance(source, Stored):
        raise ValueError("sparsity=None, so --outer-fc1-dense would change nothing; allowed: a "
                         "sparsity from 0 to 1")  # fmt: skip
    else:
        target = None
    dense = outer_fc1(source.config) if outer_fc1_dense else no_matrix
    return Recipe(format, target, method, dense)


if __name__ == "__main__":
    main(prog_name="python -m lab_utils.llm")
