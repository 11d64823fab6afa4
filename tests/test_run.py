"""The runner: what it refuses before a kernel starts, what it leaves, what it never touches."""

import asyncio
import json
import re
import shutil
import sys
from html import escape
from pathlib import Path
from queue import Empty
from typing import ClassVar
from urllib.parse import quote, unquote

import pytest
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from lab_utils.cli import main
from lab_utils.run import Result, RunReport, execute, kernel, report, run
from lab_utils.run.parameters import Written, check, declared

MIXED = ("fails", "dies", "good")
# Whatever a page would fetch: scripts, styles, pictures, frames, imports, workers.
FROM_NETWORK = re.compile(
    r"<(?:script|link|img|iframe|source)[^>]*(?:src|href)=[\"']?(?:https?:)?//"
    r"|(?:@import|url\()\s*[\"']?(?:https?:)?//|\bimport\(|cdn(?:js)?\.|unpkg\.com"
)


def refused(output: Path, *words: str, **arguments: object) -> None:
    """Assert that a run is refused with a message that has the words, and leaves nothing."""
    with pytest.raises(ValueError) as caught:
        run(output=output, **arguments)
    for word in words:
        assert word in str(caught.value)
    assert not output.exists()


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        ("no_parameters", ["0 cells", "exactly one"]),
        ("two_parameters", ["2 cells", "exactly one"]),
        ("untyped", ["columns = 8", "name: type = literal"]),
        ("computed", ["columns: int = 2 * 4", "not a literal"]),
        ("mistyped", ["'columns'", "'8'", "allowed: int"]),
        ("odd_type", ["'columns'", "`complex`", "list[...]"]),
        ("declared_twice", ["'columns'", "twice"]),
        ("no_such", ["'no_such'", "does not exist", "good"]),
    ],
)
def test_broken_notebook_is_refused(notebook, words, fixtures, tmp_path):
    refused(tmp_path / "out", *words, notebooks=[notebook], profile="laptop", folder=fixtures)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("width", 8, ["'width'", "8", "points, slope, label, sizes"]),
        ("points", "many", ["'points'", "'many'", "str", "allowed: int", "points of the curve"]),
        ("points", 2.5, ["'points'", "2.5", "float", "allowed: int"]),
        ("points", True, ["'points'", "True", "bool", "allowed: int"]),
        ("slope", "1.0", ["'slope'", "'1.0'", "allowed: float"]),
        ("label", 3, ["'label'", "3", "allowed: str"]),
        ("sizes", [1, "x"], ["'sizes'", "'x'", "list[int]"]),
        ("sizes", 8, ["'sizes'", "8", "list[int]"]),
    ],
)
def test_wrong_parameter_is_refused(name, value, words, fixtures, tmp_path):
    refused(tmp_path / "out", "good.ipynb", *words, notebooks=["good"], profile="laptop",
            parameters={name: value}, folder=fixtures)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("parameters: {}", ["description", "allowed"]),
        ("description: x\nparameters: {good: 3}", ["allowed", "notebook → parameter → value"]),
        ("description: x\nparameters: {gone: {a: 1}}", ["unknown notebook 'gone'", "good"]),
        ("description: x\nparameters: {good: {a: 1}}", ["unknown parameter 'a'", "points"]),
        ("description: x\nparameters: {good: {points: a}}", ["'points'", "'a'", "allowed: int"]),
        ("description: x\ndescription: y\nparameters: {}", ["'description'", "twice"]),
        ("description: [", ["profile"]),
    ],
)
def test_wrong_profile_is_refused(content, words, fixtures, tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.yaml").write_text(content)
    shutil.copy(fixtures / "good.ipynb", tmp_path)
    refused(tmp_path / "out", "mine.yaml", *words, profile="mine", folder=tmp_path)


def test_unknown_profile_is_refused(fixtures, tmp_path):
    refused(tmp_path / "out", "'nope'", "auto, laptop", profile="nope", folder=fixtures)


def test_a_notebook_named_twice_is_refused(fixtures, tmp_path):
    refused(tmp_path / "out", "'good'", "twice", notebooks=["good", fixtures / "good.ipynb"],
            profile="laptop", folder=fixtures)  # fmt: skip


def test_text_is_read_as_the_notebook_declares(fixtures):
    sees = fixtures / "sees.ipynb"
    texts = {"text": "8", "numbers": "[0.5, 1]", "maybe": "None", "flag": "True"}
    values = check(sees, {name: Written(text) for name, text in texts.items()})
    assert values == {"text": "8", "numbers": [0.5, 1], "maybe": None, "flag": True}
    assert declared(sees)["maybe"].help == "split-K, None for automatic"


def test_an_int_for_a_float_becomes_one(fixtures):
    slope = check(fixtures / "good.ipynb", {"slope": 2})["slope"]
    assert (slope, type(slope)) == (2.0, float)


def test_a_page_that_cannot_be_written_fails_its_notebook(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(report, "page", full)
    result = Result("good", tmp_path / "good.ipynb", {}, status="passed")
    execute._write_page(result, None)
    assert result.status == "failed"
    assert result.error == "the page could not be written: OSError: no space left"


@pytest.fixture(scope="module")
def mixed(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    """A run of a notebook that fails, one whose kernel dies, and a good one."""
    return run(MIXED, "laptop", output=tmp_path_factory.mktemp("outputs"), folder=fixtures)


def test_a_failing_notebook_does_not_stop_the_others(mixed):
    assert [result.status for result in mixed.results] == ["failed", "failed", "passed"]
    assert mixed.exit_code == 1
    assert "columns = 8 on purpose" in mixed.results[0].error
    assert "DeadKernelError" in mixed.results[1].error
    assert "columns = 8 on purpose" in mixed.results[0].reason
    assert "\n" not in mixed.results[0].reason and mixed.results[2].reason == ""


def test_links_between_notebooks_lead_to_pages():
    link = '<a href="{}">next</a>'
    assert report.to_pages(link.format("10_a.ipynb"), ["10_a", "b"]) == link.format("10_a.html")
    for name in ("a+b", "a (1)", "a,b=c@d", "a&b"):
        for spelt in (name, quote(name), escape(name), escape(quote(name, safe="()+,=@&"))):
            assert report.to_pages(link.format(f"{spelt}.ipynb"), [name]) == link.format(
                f"{spelt}.html"
            )
    for other in ("20_c.ipynb", "10_a.ipynb#x", "10_axipynb"):
        assert report.to_pages(link.format(other), ["10_a"]) == link.format(other)
    download = '<a href="10_a.ipynb" download>'
    assert report.to_pages(download, ["10_a"]) == download


def test_links_lead_to_notebooks_of_any_name(fixtures, tmp_path):
    shutil.copy(fixtures / "good.ipynb", tmp_path / "100% a?b#c.ipynb")
    made = run([tmp_path / "100% a?b#c.ipynb"], "laptop", output=tmp_path / "out", folder=fixtures)
    for page in made.folder.glob("*.html"):
        links = re.findall(r'(?:href|src)="([^"#][^":]*)"', page.read_text())
        files = [made.folder / unquote(link.split("?")[0].split("#")[0]) for link in links]
        assert len(files) > 2 and all(file.is_file() for file in files)


def test_every_notebook_leaves_its_page(mixed):
    for name in MIXED:
        assert (mixed.folder / f"{name}.ipynb").is_file()
        assert (mixed.folder / f"{name}.html").is_file()
    assert "columns = 8 on purpose" in (mixed.folder / "fails.html").read_text()
    assert mixed.folder.parent.joinpath("latest").resolve() == mixed.folder


def test_index_and_json_tell_the_same(mixed):
    told = json.loads((mixed.folder / "run.json").read_text())
    assert [r["status"] for r in told["results"]] == ["failed", "failed", "passed"]
    assert told["commit"] == mixed.commit
    index = (mixed.folder / "index.html").read_text()
    for words in ("1 passed", "2 failed", "A figure and a slider", mixed.commit, "laptop"):
        assert words in index


def test_inputs_are_untouched(fixtures, tmp_path):
    folder = shutil.copytree(fixtures, tmp_path / "notebooks")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run(["good"], "laptop", {"points": 3}, output=tmp_path / "out", folder=folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_pages_ask_nothing_of_the_network(mixed):
    for page in mixed.folder.glob("*.html"):
        assert FROM_NETWORK.findall(page.read_text()) == [], page.name


@pytest.mark.ui
def test_pages_are_alive_offline(mixed, browser):
    asked, errors = [], []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_context(offline=True).new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((mixed.folder / "index.html").as_uri())
        page.locator(".picture .main-svg").first.wait_for()  # no PNG: a still figure
        page.get_by_role("link", name="A figure and a slider").click()
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        assert page.locator(".js-plotly-plot .modebar").count() == 1
        assert page.locator("math mfrac").count() == 1
        chromium.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path):
    names = [execute._new_folder(tmp_path, "20260101T000000Z-abc").name for _ in range(3)]
    assert names == [f"20260101T000000Z-abc{end}" for end in ("", "-2", "-3")]


def test_kernel_is_this_interpreter(fixtures, tmp_path, monkeypatch):
    """A python3 kernel that the user has installed for another Python is not taken."""
    spec = {"argv": ["/bin/false"], "display_name": "other", "language": "python"}
    path = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    report = run(["sees"], "laptop", output=tmp_path / "out", folder=fixtures)
    assert report.exit_code == 0
    assert sys.executable in (report.folder / "sees.ipynb").read_text()


def test_command_hands_parameters_over(fixtures, tmp_path):
    arguments = ["run", str(fixtures / "sees.ipynb"), "--output", str(tmp_path), "--profile",
                 "laptop", "-p", "text=8", "-p", "numbers=[0.25]", "-p", "maybe=4"]  # fmt: skip
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "index.html" in done.output
    executed = json.loads((tmp_path / "latest" / "sees.ipynb").read_text())
    assert "'8' [0.25] 4 False" in json.dumps(executed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "no_such"], ["'no_such'", "does not exist"]),
        (["run", "{fixtures}/good.ipynb", "-p", "width=8"], ["'width'", "allowed: points"]),
        (["run", "{fixtures}/good.ipynb", "-p", "points"], ["'points'", "name=value"]),
        (["run", "-p", "a=1", "-p", "a=2"], ["'a'", "twice"]),
        (["run", "--profile", "nope"], ["'nope'", "laptop"]),
    ],
)
def test_command_tells_bad_input_in_one_message(arguments, words, fixtures):
    done = CliRunner().invoke(main, [text.format(fixtures=fixtures) for text in arguments])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    for word in words:
        assert word in done.output


def test_a_reply_is_seen_even_where_its_wake_up_was_lost(monkeypatch):
    """An endless poll would wait for ever; slices look again."""

    class Socket:
        waits: ClassVar[list[float]] = []

        async def poll(self, milliseconds: float) -> bool:
            self.waits.append(milliseconds)
            return len(self.waits) == 3

    async def receive(channel: object) -> dict:
        return {"content": "reply"}

    monkeypatch.setattr(kernel._SlicedChannel, "_recv", receive)
    channel = kernel._SlicedChannel.__new__(kernel._SlicedChannel)
    channel.socket = Socket()
    assert asyncio.run(channel.get_msg()) == {"content": "reply"}
    assert max(Socket.waits) <= 1000 * kernel.SLICE_S
    with pytest.raises(Empty):
        asyncio.run(channel.get_msg(timeout=0.0))
