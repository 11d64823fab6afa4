"""How runs of notebooks end before their end, and what is refused so that none ends in vain."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab_utils.cli import main
from lab_utils.run import execute


@pytest.mark.parametrize(
    ("sent", "name", "status"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)]
)
def test_a_run_that_is_stopped_leaves_a_true_report(sent, name, status, fixtures, tmp_path) -> None:
    sign = tmp_path / "asleep"
    notebooks = [tmp_path / "sleeps.ipynb", tmp_path / "sleeps_too.ipynb"]
    for notebook in notebooks:
        shutil.copy(fixtures / "sleeps.ipynb", notebook)
    command = [sys.executable, "-m", "lab_utils.cli", "run", *notebooks, "--profile", "laptop",
               "-p", f"sign={sign}", "--output", str(tmp_path / "out")]  # fmt: skip
    # Where a shell has put the tests into the background, they and their children ignore Ctrl-C.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, **pipes, **heeding)
    deadline = time.monotonic() + 60
    while not sign.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(sent)
    printed = process.communicate(timeout=30)[0]
    assert process.returncode == status, printed
    assert "Traceback" not in printed
    latest = tmp_path / "out" / "latest"
    told = json.loads((latest / "run.json").read_text())
    assert [r["status"] for r in told["results"]] == ["interrupted", "not run"]
    assert told["interrupted"] == name
    assert f"stopped by {name}" in (latest / "index.html").read_text()


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "_execute_all", lambda made: pytest.fail("a notebook ran"))


def lab_run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["run", "--profile", "laptop", *map(str, arguments)])
    assert "Traceback" not in done.output
    return done.exit_code, done.output


@pytest.mark.usefixtures("unstarted")
def test_a_latest_that_is_no_link_is_left_alone(fixtures: Path, tmp_path: Path) -> None:
    for make in (Path.mkdir, Path.touch):
        output = tmp_path / make.__name__
        output.mkdir()
        make(output / "latest")
        code, printed = lab_run(fixtures / "good.ipynb", "--output", output)
        assert code == 1 and f"output='{output}': {output / 'latest'} is no link" in printed
        assert [path.name for path in output.iterdir()] == ["latest"]


def test_a_latest_that_appears_meanwhile_leaves_no_link_beside_it(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    with pytest.raises(OSError, match="latest"):
        execute._point_latest(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]


@pytest.mark.usefixtures("unstarted")
def test_a_notebook_called_as_the_report_is_refused(fixtures: Path, tmp_path: Path) -> None:
    notebook = shutil.copy(fixtures / "good.ipynb", tmp_path / "index.ipynb")
    code, printed = lab_run(notebook, "--output", tmp_path / "out")
    assert code == 2 and "would be index.html, which is the report's own; rename it" in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("unstarted")
def test_no_folder_is_not_the_current_one(fixtures: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = lab_run(fixtures / "good.ipynb", "--output", "")
    assert code == 2 and "'' is no folder; allowed: a path" in printed
    assert not list(tmp_path.iterdir())
