"""The map in 00_start_here is complete, and leads somewhere."""

import re

import nbformat

from lab_utils.run import NOTEBOOKS


def test_the_map_lists_every_notebook() -> None:
    cells = nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    text = next(cell.source for cell in cells if cell.source.startswith("## A map"))
    listed = re.findall(r"^\| \[?`(\w+)`", text, re.MULTILINE)
    assert listed == sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    for name, target in re.findall(r"\[`(\w+)`\]\(([^)]*)\)", text):
        assert target == f"{name}.ipynb"
