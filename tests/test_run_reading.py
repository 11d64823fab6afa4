"""Files that are no notebooks, and values that are no literals: one clear line for each."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab_utils.cli import main

WHOLE = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
CELL = {"id": "a", "cell_type": "code", "metadata": {}, "source": "", "outputs": [],
        "execution_count": None}  # fmt: skip


@pytest.mark.parametrize("command", [["run", "--profile", "laptop"], ["format"]])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[]", "'list' object"),
        ("null", "'NoneType' object"),
        ("3", "'int' object"),
        ("{}", "could not be converted from version 1"),
        ({"nbformat": 4}, "missing an expected key: cells"),
        ({**WHOLE, "nbformat": 9}, "version 9"),
        ({**WHOLE, "nbformat_minor": "x"}, "AssertionError"),
        ({**WHOLE, "cells": 3}, "'int' object is not iterable"),
        ({**WHOLE, "cells": [{"cell_type": "code", "source": ""}]}, "expected key: metadata"),
        ({**WHOLE, "cells": [CELL | {"metadata": {"tags": 3}}]}, "3 is not of type 'array'"),
        ({**WHOLE, "cells": [CELL | {"source": 3}]}, "3 is not valid under any"),
        ({**WHOLE, "cells": [CELL, CELL | {"id": "b", "source": 3}]}, "cells/1/source: 3 is"),
        ("[" * 100_000, "recursion"),
        ("{", "not JSON"),
        (b'{"metadata": "\xff"}', "not UTF-8"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_no_notebook_is_named(command, content, why, tmp_path: Path) -> None:
    notebook = tmp_path / "odd.ipynb"
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    notebook.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = notebook.read_bytes()
    done = CliRunner().invoke(main, [*command, str(notebook)])
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.exception
    assert f"{notebook}: is not a notebook (" in done.output and why in done.output
    assert len(done.output.splitlines()) == 1
    assert notebook.read_bytes() == before


@pytest.mark.parametrize("text", ["{[]: 1}", "{{}}", "-" * 100_000 + "1"])
def test_a_value_that_python_cannot_make_is_refused(text: str, fixtures: Path) -> None:
    arguments = ["run", str(fixtures / "good.ipynb"), "--profile", "laptop", "-p", f"points={text}"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.exception
    assert "parameter 'points'" in done.output and "allowed: int" in done.output
