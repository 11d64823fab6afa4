"""The HTML that a run leaves: one page per notebook and an index, complete without a network.

Figures stay interactive: each plotly output becomes a <div>, and all pages share one
plotly.min.js beside them. Formulas become MathML, which browsers draw themselves.
"""

import base64
import shutil
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
import plotly
from jinja2 import Environment, FileSystemLoader
from nbconvert import HTMLExporter
from nbconvert.preprocessors import TagRemovePreprocessor
from nbformat import NotebookNode

from lab_utils.run import offline
from lab_utils.run.results import Result, RunReport, write_whole

TEMPLATES = files("lab_utils.run") / "templates"
PAPERMILL_BANNER = "papermill-error-cell-tag"  # our pages show the traceback themselves


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
    exporter.register_preprocessor(
        TagRemovePreprocessor(remove_cell_tags={PAPERMILL_BANNER}), enabled=True
    )
    offline.convert(notebook)
    resources = {"metadata": {"name": title(notebook, result.name)}, "result": result, "run": made}
    html, _ = exporter.from_notebook_node(notebook, resources)
    write_whole(made.folder / f"{result.name}.html", html)


def title(notebook: NotebookNode, otherwise: str) -> str:
    """The text of the first heading."""
    for cell in notebook.cells:
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else []:
            if line.startswith("# "):
                return line[2:].strip()
    return otherwise


def _executed(result: Result, folder: Path) -> NotebookNode | None:
    """The notebook with its outputs; None before it has any, or if Ctrl-C cut its writing."""
    try:
        return nbformat.read(folder / f"{result.name}.ipynb", as_version=4)
    except (FileNotFoundError, nbformat.reader.NotJSONError):
        return None


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
    return {
        "result": result,
        "title": title(source, result.name),
        "thumbnail": _thumbnail(executed, result, folder) if executed else "",
        "page": f"{result.name}.html" if (folder / f"{result.name}.html").is_file() else "",
        "executed": f"{result.name}.ipynb" if executed else "",
    }


def _thumbnail(executed: NotebookNode, result: Result, folder: Path) -> str:
    """The first figure as HTML: its PNG if there is one, else a small still plotly figure."""
    figure = next(offline.figures(executed), None)
    if figure is None:
        return ""
    if "image/png" in figure:
        path = folder / "assets" / f"{result.name}.png"
        path.write_bytes(base64.b64decode(figure["image/png"]))
        return f'<img src="assets/{path.name}" alt="" loading="lazy">'
    return offline.plotly_div(figure[offline.PLOTLY], still=True)
