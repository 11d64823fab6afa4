"""Run notebooks headlessly: check everything first, then one notebook after the other.

Outputs go to `<output>/<run id>/`, never over the inputs. A notebook that fails does not stop
the next; the report on disk is rewritten after every notebook, so that it is true whenever the
run ends, also by Ctrl-C or SIGTERM.
"""

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import papermill
from papermill.exceptions import PapermillExecutionError

from lab_utils import machine
from lab_utils.run import parameters as declared
from lab_utils.run import profiles, report
from lab_utils.run.kernel import ThisInterpreter
from lab_utils.run.outcome import Result, RunReport

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
OUTPUTS = ROOT / "outputs"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def run(
    notebooks: Iterable[str | Path] = (),
    profile: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    output: str | Path = OUTPUTS,
    folder: str | Path = NOTEBOOKS,
) -> RunReport:
    """Execute notebooks and write their report; returns it when all have had their turn.

    `notebooks` are paths, or names of notebooks in `folder`; none means all of `folder`.
    `profile` is a name in `folder/profiles`, or `auto`. `parameters` are given to every one of
    the notebooks and override the profile. Ctrl-C ends the run, which is then returned; SystemExit,
    as `console.ended_in_order` makes of SIGTERM, is raised again when the report is written.

    Raises ValueError before any kernel starts: unknown notebook, profile or parameter, a value
    of the wrong type, a notebook without a proper parameters cell, or one called index, as the
    report's first page is. Raises RuntimeError where `output` cannot be made, or has something
    called latest that is no link.
    """
    output, folder = Path(output), Path(folder)
    chosen = profiles.load(profile, folder)
    results = [
        Result(path.stem, path, _values(path, chosen, parameters or {}))
        for path in _find(notebooks, folder)
    ]
    _check_latest(output)
    started = datetime.now(UTC)
    commit, described = machine.commit(), machine.describe()
    made = RunReport(
        folder=_new_folder(output, f"{started:%Y%m%dT%H%M%SZ}-{commit}"),
        profile=chosen.name,
        description=chosen.description,
        commit=commit,
        machine=described,
        started=started,
        results=results,
    )
    _execute_all(made)
    return made


def _find(notebooks: Iterable[str | Path], folder: Path) -> list[Path]:
    known = {path.stem: path for path in sorted(folder.glob("*.ipynb"))}
    names = list(notebooks) or list(known)
    paths = [known.get(str(name), Path(name)) for name in names]
    for path in paths:
        if path.suffix != ".ipynb" or not path.is_file():
            raise ValueError(
                f"notebook {str(path)!r} does not exist; allowed: a path to an .ipynb file, or "
                f"one of {', '.join(known) or 'none'} (in {folder})"
            )
    stems = [path.stem for path in paths]
    for stem in stems:
        if stems.count(stem) > 1:
            raise ValueError(f"notebook {stem!r} is named twice; allowed: once in a run")
    if "index" in stems:
        taken = "its page would be index.html, which is the report's own"
        raise ValueError(f"notebook {str(paths[stems.index('index')])!r}: {taken}; rename it")
    if not paths:
        raise ValueError(f"there are no notebooks in {folder}; name one")
    return paths


def _values(
    notebook: Path, profile: profiles.Profile, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    known = profile.parameters.get(notebook.stem, {})
    return declared.check(notebook, {**known, **overrides})


def _check_latest(output: Path) -> None:
    """Raise RuntimeError, before anything runs, where `_point_latest` would fail or lose a file."""
    latest = output / "latest"
    if os.path.lexists(latest) and not latest.is_symlink():
        raise RuntimeError(
            f"output={str(output)!r}: {latest} is no link; allowed there: nothing, or the link to "
            "the newest run"
        )


def _new_folder(output: Path, run_id: str) -> Path:
    """Create `<output>/<run id>`, numbered if two runs start in the same second."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeError(f"output={str(output)!r}: {error.strerror}; name another") from error
    number = 1
    while True:
        made = output / (run_id if number == 1 else f"{run_id}-{number}")
        try:
            made.mkdir()
            return made.resolve()
        except FileExistsError:
            number += 1


def _execute_all(made: RunReport) -> None:
    report.start(made)
    try:
        for number, result in enumerate(made.results, 1):
            result.status = "running"
            report.publish(made)
            _execute(result, made.folder, f"[{number}/{len(made.results)}] {result.name}")
            _write_page(result, made)
            print(f"{result.status:>7}  {result.name}  {result.seconds:.1f} s", flush=True)
            if result.error:
                print(f"         {result.reason}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        made.interrupt("Ctrl-C")
    except SystemExit:
        made.interrupt("SIGTERM")
        raise
    finally:
        report.publish(made)
        _point_latest(made.folder)


def _execute(result: Result, folder: Path, label: str) -> None:
    """Run one notebook into `folder`; what goes wrong becomes the result's error."""
    begin = time.monotonic()
    try:
        papermill.execute_notebook(
            result.notebook,
            folder / f"{result.name}.ipynb",
            parameters=result.parameters,
            kernel_name="python3",
            language="python",
            kernel_manager_class=ThisInterpreter,
            extra_arguments=["--log-level=CRITICAL"],  # its complaints when interrupted
            cwd=result.notebook.resolve().parent,
            progress_bar={"desc": label, "leave": False, "disable": None},
            start_timeout=120,
        )
        result.status = "passed"
    except PapermillExecutionError as error:
        result.status, result.error = "failed", ANSI.sub("", "\n".join(error.traceback))
    except Exception as error:  # a kernel that died or never started fails its notebook only
        result.status, result.error = "failed", f"{type(error).__name__}: {error}"
    finally:
        result.seconds = time.monotonic() - begin


def _write_page(result: Result, made: RunReport) -> None:
    """The HTML of a notebook; one that cannot be written fails its notebook only."""
    try:
        report.page(result, made)
    except Exception as error:
        result.status = "failed"
        result.error += f"the page could not be written: {type(error).__name__}: {error}"


def _point_latest(folder: Path) -> None:
    """Let `<output>/latest` lead to the newest run."""
    link = folder.parent / f".latest-{os.getpid()}"
    link.symlink_to(folder.name)
    try:
        os.replace(link, folder.parent / "latest")
    finally:
        link.unlink(missing_ok=True)  # it is there only if it could not be renamed
