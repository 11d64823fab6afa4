"""The HTML that a run leaves: one page per notebook and an index, complete without a network.

Figures stay interactive: each plotly output becomes a <div>, and all pages share one
plotly.min.js beside them. Formulas become MathML, which browsers draw themselves.
"""

import base64
import re
import shutil
from datetime import timedelta
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import nbformat
import plotly
from jinja2 import Environment, FileSystemLoader
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from lab_utils.files import write_whole
from lab_utils.run import offline
from lab_utils.run.outcome import Result, RunReport

TEMPLATES = files("lab_utils.run") / "templates"
BANNER = "papermill-error-cell-tag"  # papermill's; our pages show the traceback themselves


def start(made: RunReport) -> None:
    """Put what all pages share into the run's folder."""
    assets = made.folder / "assets"
    assets.mkdir()
    library = files(plotly) / "package_data" / "plotly.min.js"
    shutil.copy(library, assets / "plotly.min.js")
    shutil.copy(TEMPLATES / "report.css", assets / "report.css")


def publish(made: RunReport) -> None:
    """Write index.html and run.json as things stand."""
    made.save()
    cards = [_card(result, made.folder) for result in made.results]
    template = _environment().get_template("index.html.j2")
    write_whole(made.folder / "index.html", template.render(run=made, cards=cards))


def page(result: Result, made: RunReport) -> None:
    """Write the page of one executed notebook; a failed one has its traceback on top."""
    notebook = _executed(result, made.folder)
    if notebook is None:
        return
    exporter = HTMLExporter(
        template_name="report",
        extra_template_basedirs=[str(TEMPLATES)],
        filters={"markdown2html": offline.markdown, "seconds": _duration},
    )
    offline.convert(notebook)
    title, _ = opening(notebook, result.name)
    resources = {"metadata": {"name": title}, "result": result, "run": made}
    html, _ = exporter.from_notebook_node(notebook, resources)
    names = [result.name for result in made.results]
    write_whole(made.folder / f"{result.name}.html", to_pages(html, names))


def to_pages(html: str, names: list[str]) -> str:
    """`html` whose links to these notebooks lead to their pages, but for downloads."""

    def to_page(link: re.Match[str]) -> str:
        known = unquote(unescape(link[2])) in names  # there are many ways to quote a name
        return f'{link[1]}{link[2]}.html"' if known else link[0]

    return re.sub(r'(<a href=")([^"]*)\.ipynb"(?! download)', to_page, html)


def opening(notebook: NotebookNode, otherwise: str) -> tuple[str, str]:
    """Title and purpose: the first heading and, as HTML, the paragraph under it."""
    first = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), "")
    heading, _, rest = first.partition("\n")
    if not heading.startswith("# "):
        return otherwise, ""
    return heading[2:].strip(), offline.markdown(rest.strip().split("\n\n")[0])


def _executed(result: Result, folder: Path) -> NotebookNode | None:
    """The notebook with its outputs; None before it has any, or if Ctrl-C cut its writing."""
    try:
        notebook = nbformat.read(folder / f"{result.name}.ipynb", as_version=4)
    except (FileNotFoundError, nbformat.reader.NotJSONError):
        return None
    notebook.cells = [c for c in notebook.cells if BANNER not in c.metadata.get("tags", [])]
    return notebook


def _environment() -> Environment:
    environment = Environment(loader=FileSystemLoader(str(TEMPLATES)), autoescape=True)
    environment.filters["seconds"] = _duration
    return environment


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds))).removeprefix("0:") + " min"


def _card(result: Result, folder: Path) -> dict[str, Any]:
    """What the index shows of one notebook."""
    executed = _executed(result, folder)
    source = executed or nbformat.read(result.notebook, as_version=4)
    title, purpose = opening(source, result.name)
    return {
        "result": result,
        "title": title,
        "purpose": purpose,
        "thumbnail": _thumbnail(executed, result, folder) if executed else "",
        "page": f"{result.name}.html" if (folder / f"{result.name}.html").is_file() else "",
        "executed": f"{result.name}.ipynb" if executed else "",
    }


def _thumbnail(executed: NotebookNode, result: Result, folder: Path) -> str:
    """A figure as HTML: its PNG if there is one, else a small still plotly figure.

    It is the first of the cells tagged `thumbnail`, or else of the notebook.
    """
    cells = sorted(executed.cells, key=lambda c: "thumbnail" not in c.metadata.get("tags", []))
    figure = next(offline.figures(NotebookNode(cells=cells)), None)
    if figure is None:
        return ""
    if "image/png" in figure:
        path = folder / "assets" / f"{result.name}.png"
        path.write_bytes(base64.b64decode(figure["image/png"]))
        return f'<img src="assets/{quote(path.name)}" alt="" loading="lazy">'
    return offline.plotly_div(figure[offline.PLOTLY], still=True)
