"""What all commands share: options that take lists, alike in `lab` and in `lab_utils.llm`."""

import json
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lab_utils import bench
from lab_utils.cli import main as lab
from lab_utils.console import many, together
from lab_utils.llm.cli import main as llm
from lab_utils.llm.measuring import Sweep


@click.command()
@together(
    many("--size", "sizes", int, "INTS", "Sizes."),
    many("--part", "parts", float, "FLOATS", "Parts.", default=["0.5,0.8"], show_default=True),
    many("--name", "names", str, "NAMES", "Names."),
)
def told(**lists: list) -> None:
    """Tell what was understood."""
    click.echo(json.dumps(lists))


def run(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"sizes": [], "parts": [0.5, 0.8], "names": []}),
        (["--size", "8,16"], {"sizes": [8, 16]}),
        (["--size", "16", "--size", "8,2"], {"sizes": [16, 8, 2]}),
        (["--size", " 8, 16 ", "--name", "a, b"], {"sizes": [8, 16], "names": ["a", "b"]}),
        (["--size", "8,2,8", "--size", "08"], {"sizes": [8, 2]}),
        (["--part", "0.70,0.1,.7"], {"parts": [0.7, 0.1]}),
        (["--name", "b,a,b"], {"names": ["b", "a"]}),
    ],
)
def test_lists_have_each_value_once_in_order(arguments: list[str], expected: dict) -> None:
    done = run(told, *arguments)
    assert done.exit_code == 0, done.output
    everything = {"sizes": [], "parts": [0.5, 0.8], "names": []} | expected
    assert json.loads(done.output) == everything


@pytest.mark.parametrize("option", ["--size", "--part", "--name"])
@pytest.mark.parametrize("text", ["", " ", ",", "8,", ",8", "8,,16", "8, ,16"])
def test_empty_items_are_refused(option: str, text: str) -> None:
    done = run(told, option, text)
    kind = {"--size": "whole numbers", "--part": "numbers", "--name": "names"}[option]
    assert done.exit_code == 2
    assert f"{text!r} has an empty item; allowed: {kind}, commas between them" in done.output


def test_what_is_no_such_value_is_named() -> None:
    done = run(told, "--size", "8, 2.5")
    assert done.exit_code == 2 and "'2.5'; allowed: whole numbers, commas" in done.output
    done = run(told, "--part", "0.5,half")
    assert done.exit_code == 2 and "'half'; allowed: numbers, commas" in done.output


def test_the_help_lists_options_in_their_order() -> None:
    options = [line.split()[0] for line in run(told, "--help").output.splitlines() if "--" in line]
    assert options == ["--size", "--part", "--name", "--help"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What `lab bench --N` and `measure --batch` ask for, in place of measuring it."""
    found: list = []
    grid = bench.grid

    def cases(shapes, Ns, **others):
        found.append(Ns)
        return grid(shapes, Ns, **others)

    def rows(sweep, formats, batches, leave_out):
        found.append(batches)
        return iter([])

    monkeypatch.setattr(bench, "grid", cases)
    monkeypatch.setattr(bench, "sweep", lambda *_, **__: [])
    monkeypatch.setattr(Sweep, "rows", rows)
    return found


@pytest.mark.parametrize(
    ("lists", "expected"),
    [(["8,16"], [8, 16]), (["8,8"], [8]), (["16,8,16", "4"], [16, 8, 4]), (["8,,16"], None)],
)
def test_both_commands_read_a_list_alike(lists, expected, asked) -> None:
    for command, option, rest in (
        (lab, "--N", ["bench", "--shape", "64x64", "--device", "cpu", "--no-save"]),
        (llm, "--batch", ["measure", "--model", "OPT-125M", "--device", "cpu", "--no-save"]),
    ):
        done = run(command, *rest, *(part for text in lists for part in (option, text)))
        if expected is None:
            assert done.exit_code == 2 and "'8,,16' has an empty item" in done.output
    assert asked == ([] if expected is None else [expected, expected])


EARLY = """
import pathlib, sys, time
import lab_utils.llm.checkpoint as checkpoint
from lab_utils.llm.cli import main

def opened(source, **place):
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(60)

checkpoint.opened = opened
main(["prune", "OPT-125M", "pruned", "--sparsity", "0.5", "--device", "cpu"])
"""


def test_a_command_that_has_only_begun_ends_by_sigterm_with_its_status(tmp_path: Path) -> None:
    sign = tmp_path / "begun"
    with subprocess.Popen([sys.executable, "-c", EARLY, sign], cwd=tmp_path) as process:
        while not sign.exists() and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
    assert process.returncode == 143 and list(tmp_path.iterdir()) == [sign]


def test_a_terminated_command_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab_utils.llm", "prune", "OPT-350M", tmp_path / "x",
               "--sparsity", "0.5", "--device", "cpu"]  # fmt: skip
    with subprocess.Popen(command) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
    assert process.returncode == 143 and not list(tmp_path.iterdir())
