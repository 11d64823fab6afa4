"""Rewrite an executed notebook so that its HTML needs nothing from the network."""

from collections.abc import Iterator
from html import escape
from typing import Any

import plotly.io
from latex2mathml.converter import convert as mathml
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

PLOTLY = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
THUMBNAIL = (330, 215)  # pixels that a card of the index has at least
WIDGET_NOTE = """<div class="widget-note">Sliders need a running kernel: <code>make lab</code>
opens this notebook in JupyterLab.</div>"""


def convert(notebook: NotebookNode) -> None:
    """Replace, in place, what would need scripts from the network by what does not."""
    for output in _outputs(notebook):
        data = output.data
        if PLOTLY in data:
            output.data = NotebookNode({"text/html": plotly_div(data[PLOTLY])})
        elif WIDGET in data:  # sliders, or a progress bar that has had its day
            sliders = data.get("text/plain", "").startswith("interactive(")
            output.data = NotebookNode({"text/html": WIDGET_NOTE} if sliders else {})
        elif "text/latex" in data and "text/html" not in data:
            output.data = NotebookNode({"text/html": markdown(data["text/latex"])})
    notebook.metadata.pop("widgets", None)


def figures(notebook: NotebookNode) -> Iterator[dict[str, Any]]:
    """The outputs that are pictures, as {MIME type: content}, in order."""
    for output in _outputs(notebook):
        if PLOTLY in output.data or "image/png" in output.data:
            yield output.data


def plotly_div(figure: dict[str, Any], still: bool = False) -> str:
    """A figure's JSON as a <div> and the script that draws it; the page loads plotly.min.js.

    `still` makes a thumbnail without interaction: the whole figure, scaled down to THUMBNAIL.
    """
    layout = figure.get("layout", {})
    template = layout.get("template", {}).get("layout", {})
    width = layout.get("width") or template.get("width") or 860
    height = layout.get("height") or template.get("height") or 450
    div = plotly.io.to_html(
        {"data": figure["data"], "layout": layout},
        config={"responsive": not still, "displaylogo": False, "staticPlot": still},
        include_plotlyjs=False,
        full_html=False,
        validate=False,
        default_width=f"{width}px" if still else "100%",
        default_height=height,
    )
    if not still:
        return div
    scale = min(THUMBNAIL[0] / width, THUMBNAIL[1] / height)
    return f'<div class="still" style="--scale: {scale:.3f}; width: {width}px">{div}</div>'


def markdown(source: str) -> str:
    """Markdown as HTML, with formulas as MathML instead of text for MathJax."""
    return str(MarkdownWithMath(renderer=_MathMLRenderer(escape=False)).render(source))


class _MathMLRenderer(IPythonRenderer):
    def inline_math(self, body: str) -> str:
        return formula(body, "inline")

    def block_math(self, body: str) -> str:
        return formula(body, "block")

    def latex_environment(self, name: str, body: str) -> str:
        return formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")


def formula(latex: str, display: str) -> str:
    """LaTeX as MathML; what the converter cannot read is shown as its source, marked."""
    latex = latex.replace("{aligned}", "{align*}").replace("{equation}", "{align*}")
    try:
        written, reason = str(mathml(latex, display=display)), ""
    except Exception as error:  # the converter has a dozen exception types without a common base
        written, reason = "", type(error).__name__
    if written and ">\\" not in written:
        return written
    reason = reason or "unknown command"
    return f'<code class="unread-formula" title="{reason}">{escape(latex)}</code>'


def _outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                yield output
