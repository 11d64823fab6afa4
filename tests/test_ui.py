"""A student's first minute: JupyterLab in a browser, run a notebook, move a slider, look."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TOKEN = "token-of-the-ui-test"
PATIENCE = 40_000  # ms for any one step; the whole test takes a third of that

PANEL = "window.jupyterapp?.shell.currentWidget"
RUN_ALL = f"""async () => {{
    const panel = {PANEL};
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    await window.jupyterapp.commands.execute("notebook:run-all-cells");
}}"""
TRACEBACKS = """[...document.querySelectorAll(
    '[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"]'
)].map(node => node.innerText)"""
ENDED = f"""() => {{
    const cells = {PANEL}.content.widgets.filter(cell => cell.model.type === "code");
    const idle = {PANEL}.sessionContext.session.kernel.status === "idle";
    const ran = cells.every(cell => cell.model.executionCount !== null);
    return idle && (ran || {TRACEBACKS}.length > 0);
}}"""
FIGURE = """(() => {
    const plot = document.querySelector(".jupyter-widgets .js-plotly-plot");
    return plot?.data && JSON.stringify([plot.data, plot.layout.title]);
})()"""
# In 21: the colours of the warp's fragment, and what is written below it.
FRAGMENT = """(() => {
    const plot = document.querySelector(".jupyter-widgets .js-plotly-plot");
    const fragment = plot?.data?.find(trace => trace.name === "fragment");
    return fragment && JSON.stringify([fragment.z, plot.layout.xaxis2.title.text]);
})()"""
SLIDERS = {"10_compression_ratio": FIGURE, "21_bitmap_decoding": FRAGMENT}  # the first slider moves


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[str]:
    """URL of a JupyterLab of its own, on copies of the notebooks and with settings of its own."""
    home = tmp_path_factory.mktemp("jupyterlab")
    for name in SLIDERS:
        shutil.copy(root / "notebooks" / f"{name}.ipynb", home)
    _settings(home, "notebook-extension/tracker", windowingMode="none")
    _settings(home, "apputils-extension/notification", checkForUpdates=False, fetchNews="false")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0",
               "--ip=127.0.0.1", "--expose-app-in-browser", f"--ServerApp.root_dir={home}",
               f"--IdentityProvider.token={TOKEN}"]  # fmt: skip
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime",
              "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
              "IPYTHONDIR": "ipython"}  # fmt: skip
    environment = os.environ | {name: str(home / folder) for name, folder in places.items()}
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield _url(server, home)
    finally:
        server.terminate()
        server.wait(timeout=20)


def _settings(home: Path, extension: str, **values: object) -> None:
    path = home / "settings" / "@jupyterlab" / f"{extension}.jupyterlab-settings"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(values))


def _url(server: subprocess.Popen, home: Path, patience: float = 30.0) -> str:
    """Where the server listens, from the file it writes when it does."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and server.poll() is None:
        for path in (home / "runtime").glob("jpserver-*.json"):
            return json.loads(path.read_text())["url"]
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{(home / 'server.log').read_text()}")


@pytest.fixture
def page(browser: str) -> Iterator[Page]:
    """A page that collects what its console reports as an error, in `page.errors`."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        page = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
        yield page
        chromium.close()


@pytest.mark.ui
@pytest.mark.parametrize(("name", "figure"), SLIDERS.items(), ids=SLIDERS)
def test_a_slider_changes_the_figure(lab: str, name: str, figure: str, page: Page) -> None:
    page.goto(f"{lab}lab/tree/{name}.ipynb?token={TOKEN}&reset")
    page.wait_for_function(f"() => {PANEL}?.context")
    page.evaluate(RUN_ALL)
    page.wait_for_function(ENDED)
    assert page.evaluate(TRACEBACKS) == []

    page.locator(".jp-OutputArea-output.js-plotly-plot .main-svg").first.wait_for()
    assert page.locator(".jp-OutputArea-output img:visible").count() == 0  # no PNG, a live figure

    page.wait_for_function(figure)
    before = page.evaluate(figure)
    handle = page.locator(".jupyter-widgets .noUi-handle").first
    handle.scroll_into_view_if_needed()
    handle.press("ArrowRight")
    page.wait_for_function(f"before => {figure} && {figure} !== before", arg=before)

    assert page.evaluate(TRACEBACKS) == []
    assert page.errors == []
