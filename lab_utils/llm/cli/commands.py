"""Commands that use models: what fits which GPU, generating text, pruning checkpoints."""

from pathlib import Path
from typing import Any

import click

from lab_utils.console import OneMessage, ended_in_order
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


@click.group(cls=OneMessage, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """OPT with sparse weights: what fits, generating, pruning, measuring."""


@main.command()
@several("--model", "models", str, "NAMES", "Sizes of the family.",
          default=["OPT-30B,OPT-66B,OPT-175B"])  # fmt: skip
@several("--format", "formats", str, "NAMES", "Formats of the weights.",
          default=["dense,tca_bme,zero_row_24"])  # fmt: skip
@several("--sparsity", "sparsities", float, "FLOATS", "Fractions of zeros.", default=["0.8"])
@several("--gpu", "devices", str, "NAMES", "Names in data/devices.yaml.",
          default=["A100-80GB,H200-SXM"])  # fmt: skip
@shown("--gpus", default=1, help="How many of them share each model.")
@shown("--batch", default=8, help="Sequences; the last column says how many GPUs they need.")
@lengths_options
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
@shown(
    "--output", default=64, type=click.IntRange(min=1), help="New tokens of each sequence, at most."
)
@click.option("--format", help="Encode in this format.  [default: dense, or as stored]")
@pruning_options
@shown("--temperature", default=0.0, help="0 takes the most likely token.")
@click.option("--top-k", type=int, help="Of so many most likely tokens.")
@click.option("--top-p", type=float, help="Of the most likely tokens with this probability.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="For the same tokens again.")
@place_options
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

    place = placed(device, dtype)
    source, text = opened(model, **place), Text.of(model)
    check_stored(source, dtype, outer_fc1_dense)
    if format == "dense" and not isinstance(source, Stored):
        format = None  # the weights as they are
    tokens = text.encode(prompts)
    Prompts.of(tokens, source.config, output)  # before anything is loaded
    recipe = recipe_of(source, format, sparsity, within, outer_fc1_dense)
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
@shown("--format", default="tca_bme", help="Format of the pruned matrices.")
@pruning_options
@shown("--method", default="magnitude", help="magnitude, wanda, sparsegpt or taylor.")
@click.option("--calibration", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Text for methods that need some.")  # fmt: skip
@shown("--sequences", default=128, type=click.IntRange(min=1), help="Of that text.")
@shown("--length", default=2048, type=click.IntRange(min=1), help="Tokens of each of them.")
@place_options
def prune(source: str, target: Path, format: str, sparsity: float | None, within: str,
          outer_fc1_dense: bool, method: str, calibration: Path | None, sequences: int,
          length: int, device: str | None, dtype: str | None) -> None:  # fmt: skip
    """Prune and encode a checkpoint, layer by layer, into the new folder TARGET.

    SOURCE is Hugging Face's folder of an OPT, or a size such as OPT-125M with random weights.
    """
    from lab_utils.llm.checkpoint import Stored, convert, opened
    from lab_utils.llm.text import Text, tokenizer_files

    click.get_current_context().with_resource(ended_in_order())
    place = placed(device, dtype)
    opt = opened(source, **place)
    if isinstance(opt, Stored):
        raise ValueError(f"{source} is pruned already; allowed: dense weights")
    recipe = recipe_of(opt, format, sparsity, within, outer_fc1_dense, method)
    if bool(recipe.statistic) != bool(calibration):
        asked = f"--calibration={str(calibration or '')!r} with --method={method}"
        raise ValueError(f"{asked}; allowed: {'a file of text' if recipe.statistic else 'none'}")
    tokens = Text.of(source).sequences(calibration, sequences, length) if calibration else None
    convert(opt, target, recipe, tokens=tokens, beside=tokenizer_files(source), **place)
    nbytes = sum(file.stat().st_size for file in target.iterdir())
    click.echo(f"{opt.config.name}: {nbytes / 1e9:.3f} GB in {target}")
