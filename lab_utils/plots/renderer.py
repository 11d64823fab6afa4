"""How figures reach a notebook: as JSON alone, or with a PNG that a headless browser draws."""

import functools
import os
import threading
import time

import kaleido
import plotly.graph_objects as go
import plotly.io as pio
from choreographer.browsers.chromium import Chromium

WANTS_PNG = "LSCD_PNG"  # environment variable that the runner of notebooks sets


def use() -> str:
    """Set template and renderer for this session and return the renderer's name.

    In JupyterLab figures are JSON only: of a PNG beside it, JupyterLab would show nothing but the
    PNG. Under `lab run` (WANTS_PNG is set), and with a Chromium or Chrome that draws, they carry
    both, so that GitHub shows executed notebooks; without one, a printed line says why not.
    """
    pio.templates.default = "lscd"
    pio.renderers.default = "plotly_mimetype"
    if WANTS_PNG in os.environ:
        trouble = _start_png_server()
        if trouble:
            print(f"Figures carry no PNG, which only GitHub would miss: {trouble}.")
        else:
            pio.renderers.default = "plotly_mimetype+png"
    return pio.renderers.default


@functools.cache
def _start_png_server(timeout_s: float = 60.0) -> str | None:
    """Start kaleido's server, draw one figure, and return None or what went wrong.

    The server keeps one Chromium open: 0.2 s an image instead of 2.5 s. When its browser cannot
    start, its thread dies and every call blocks for ever, hence the watch over the first image.
    """
    if not Chromium.find_browser(skip_local=False):
        return "no Chromium or Chrome found; install one (Debian: apt install chromium)"
    pio.defaults.headers = None  # given per image, the server ignores them with a warning
    before = set(threading.enumerate())
    kaleido.start_sync_server(silence_warnings=True, mathjax=False)  # MathJax comes from a CDN
    server = next(iter(set(threading.enumerate()) - before), None)
    outcome: list[str | None] = []
    threading.Thread(target=_draw_one, args=(outcome,), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    while not outcome and server and server.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    if outcome:
        return outcome[0]
    if server and server.is_alive():
        return f"the browser did not draw within {timeout_s:.0f} s"
    kaleido.stop_sync_server(silence_warnings=True)
    return "the browser did not start"


def _draw_one(outcome: list[str | None]) -> None:
    try:
        go.Figure().to_image("png", width=20, height=20)
        outcome.append(None)
    except Exception as error:  # whatever it is, it means the same here: no PNG, and why
        outcome.append(f"{type(error).__name__}: {error}")
