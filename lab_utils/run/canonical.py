"""The one form in which notebooks are kept, so that a diff shows what a person changed.

nbformat 4.5 with cell ids, kernelspec python3, no outputs, no execution counts, no metadata but
tags, stable JSON. `canonical` writes that form. What needs a person is only reported: a code cell
of more than 15 lines, a missing opening, a parameters cell that the runner would refuse.
"""

import copy
import hashlib
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lab_utils.files import write_whole
from lab_utils.run import parameters
from lab_utils.run.reading import read

MAX_LINES = 15
OPENING = ("What you will do", "What you will learn", "What you need")
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def format_notebooks(notebooks: Iterable[Path], check: bool = False) -> list[str]:
    """Bring notebooks into canonical form; returns what is wrong after that, one line each.

    With `check` nothing is written, and a notebook that is not canonical is one of the lines.
    Raises ValueError at the first file that is no notebook.
    """
    problems = []
    for path in notebooks:
        formatted, text = canonical(path), path.read_text(encoding="utf-8")
        if text != formatted and check:
            problems.append(f"{path}: is not in canonical form; `lab format` repairs it")
        elif text != formatted:
            write_whole(path, formatted)
        problems += [f"{path}: {problem}" for problem in defects(path)]
    return problems


def canonical(notebook: Path) -> str:
    """The text of a notebook file in canonical form."""
    content = nbformat.v4.upgrade(read(notebook))
    content.metadata = nbformat.from_dict(copy.deepcopy(METADATA))
    content.nbformat_minor = 5
    content.cells = [_cell(cell) for cell in content.cells if cell.source.strip()]
    _give_ids(content)
    return nbformat.writes(content) + "\n"


def defects(notebook: Path) -> list[str]:
    """What is wrong with a notebook beyond its form; a person has to mend it."""
    cells = read(notebook).cells
    found = []
    if not cells or not _opens_well(cells[0]):
        wanted = ", ".join(f"**{words}**" for words in OPENING)
        found.append(f"the first cell is not a title and the lists {wanted}")
    for number, cell in enumerate(cells, 1):
        lines = len(cell.source.splitlines())
        if cell.cell_type == "code" and lines > MAX_LINES:
            found.append(f"cell {number} has {lines} lines; allowed: {MAX_LINES}")
        if cell.get("attachments"):
            found.append(f"cell {number} has a picture pasted into it; allowed: code that draws it")
    return found + _parameter_defects(notebook)


def _cell(cell: NotebookNode) -> NotebookNode:
    cell.source = cell.source.strip("\n")
    tags = sorted(set(cell.metadata.get("tags", [])))
    cell.metadata = NotebookNode({"tags": tags} if tags else {})
    if cell.cell_type == "code":  # in markdown, two spaces at the end break the line
        cell.source = "\n".join(line.rstrip() for line in cell.source.splitlines())
        cell.outputs, cell.execution_count = [], None
    return cell


def _give_ids(content: NotebookNode) -> None:
    """A cell without an id, or with one used before, gets one made of its text and place."""
    used: set[str] = set()
    for number, cell in enumerate(content.cells):
        if not cell.get("id") or cell.id in used:
            cell.id = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:8]
        used.add(cell.id)


def _opens_well(cell: NotebookNode) -> bool:
    words = all(f"**{line}**" in cell.source for line in OPENING)
    return cell.cell_type == "markdown" and cell.source.startswith("# ") and words


def _parameter_defects(notebook: Path) -> list[str]:
    try:
        found = parameters.declared(notebook)
    except ValueError as error:
        return [str(error).removeprefix(f"{notebook}: ")]
    return [f"parameter {name!r} has no help comment" for name, p in found.items() if not p.help]
