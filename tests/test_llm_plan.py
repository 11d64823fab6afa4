"""`python -m lab_utils.llm plan`: what fits which GPU, told without any."""

import pandas as pd
from click.testing import CliRunner, Result

from lab_utils import catalog
from lab_utils.analysis import memory
from lab_utils.llm.cli import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def test_plan_answers_without_a_gpu() -> None:
    done = run("--model", "OPT-66B", "--format", "dense,tca_bme", "--gpu", "H200-SXM")
    assert done.exit_code == 0, done.output
    header, *rows = (line.split() for line in done.output.splitlines())
    table = pd.DataFrame(rows, columns=header)
    work, device = memory.Workload(catalog.model("OPT-66B"), "tca_bme"), catalog.device("H200-SXM")
    largest = memory.largest_batch(work, memory.usable_bytes(device))
    assert table.largest_batch.astype(int).tolist() == [12, largest]
    assert table.fewest_gpus.tolist() == ["1", "1"]


def test_plan_says_where_eight_gpus_are_too_few_and_which_models_it_knows() -> None:
    done = run("--model", "OPT-175B", "--format", "dense,tca_bme", "--gpu", "RTX-4090")
    assert done.exit_code == 0, done.output
    first, *_, last = done.output.splitlines()[1:]
    assert first.endswith("more than 8") and last.split()[-1].isdigit()
    done = run("--model", "OPT-31B")
    assert done.exit_code == 2
    assert "unknown; allowed: OPT-125M" in done.output and "Llama" not in done.output


def test_formats_that_are_planned_unasked_are_told_of() -> None:
    """Whatever the GPU: this one has no kernel for some of them."""
    done = run("--model", "OPT-175B", "--gpu", "RTX-4090")
    assert done.exit_code == 0, done.output
    ends = [line.split(maxsplit=2) for line in done.output.splitlines()[1:]]
    told = {format: line.endswith(" needs sm_90") for _, format, line in ends}
    assert told == {format: format.startswith("zero_row") for format in told} and len(told) > 2


def test_plan_promises_no_product_that_the_gpu_cannot_run() -> None:
    """Of one format alone, too, where no row has a number of GPUs."""
    asked = ("--model", "OPT-66B", "--gpu", "A100-80GB,H200-SXM")
    done = run(*asked, "--format", "zero_row_24")
    a100, h200 = done.output.splitlines()[1:]
    assert done.exit_code == 0 and a100.split()[-3:] == ["0", "needs", "sm_90"]
    assert h200.split()[-1] == "1" and int(h200.split()[-2]) > 8
    done = run(*asked, "--format", "csr")
    assert done.exit_code == 0, done.output
    assert all(line.endswith(" 0 no GPU kernel") for line in done.output.splitlines()[1:])


def test_plan_is_of_the_batch_and_lengths_that_are_asked_for() -> None:
    asked = ("--batch", "16", "--prompt", "8", "--output", "24", "--gpus", "2")
    done = run("--model", "OPT-66B", "--format", "dense", "--gpu", "H200-SXM", *asked)
    work = memory.Workload(
        catalog.model("OPT-66B"), "dense", 0.0, batch=16, prompt=8, output=24, gpus=2
    )
    expected = memory.answers([work], [catalog.device("H200-SXM")])
    header, row = (line.split() for line in done.output.splitlines())
    (largest,) = {answer["largest_batch"] for answer in expected}
    assert done.exit_code == 0 and int(row[header.index("largest_batch")]) == largest
    assert largest > memory.largest_batch(
        memory.Workload(catalog.model("OPT-66B"), "dense", gpus=2),
        memory.usable_bytes(catalog.device("H200-SXM")),
    )


def test_a_batch_beyond_any_memory_is_refused() -> None:
    done = run("--batch", "9" * 400)
    assert done.exit_code == 2 and "9 is too large; allowed: at most 2147483647" in done.output
    assert run("--batch", str(2**31 - 1)).exit_code == 0
