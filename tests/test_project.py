"""The house stays in order: packages, layers, sizes, and a README that tells the truth."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from opt_transformers import theirs
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from lab_utils.cli import main
from lab_utils.llm.checkpoint import Stored

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lab_utils"
README = ROOT / "README.md"

# A module imports only from lower numbers, or from its own package.
LAYERS = {
    "cli": 10,
    "run": 9,
    "plots": 8, "bench": 8, "llm": 8,
    "__init__": 7,
    "nn": 6,
    "machine": 5, "ops": 5, "baselines": 5, "ladder": 5,
    "backends": 4, "patterns": 4,
    "formats": 3,
    "analysis": 2, "accuracy": 2,
    "build": 1, "results": 1,
    "catalog": 0, "console": 0, "files": 0, "power": 0, "streams": 0,
    "toolchains": 0,
}  # fmt: skip
CONDA_NAMES = {
    "cupy": "cupy-cuda13x",
    "jupyter_client": "jupyter-client",
    "playwright-python": "playwright",
    "python-kaleido": "kaleido",
    "pytorch": "torch",
}
CONDA_ONLY = {"python", "pip", "make", "cxx-compiler"}
MAKE_VARIABLES = {"ARGS", "PYTHON", "TORCH_INDEX"}


def committed() -> list[Path]:
    """The files of the repository: tracked, or new and not ignored."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so it cannot be told which files are committed")
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [path for line in listed.splitlines() if (path := ROOT / line).is_file()]


def floors(texts: list[str]) -> dict[str, str]:
    parsed = [Requirement(text) for text in texts]
    return {canonicalize_name(one.name): str(one.specifier) for one in parsed}


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def requirements(project: dict) -> list[str]:
    """What pyproject.toml asks for, extras included."""
    optional = project["optional-dependencies"].values()
    return [*project["dependencies"], *(text for extra in optional for text in extra)]


def test_conda_users_get_the_same_packages(project, requirements):
    wanted = floors(requirements)
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    conda = {text.split()[0]: text for text in listed if isinstance(text, str)}
    python = conda["python"].split()[1]
    assert set(python.split(",")) == set(project["requires-python"].split(","))
    named = [CONDA_NAMES.get(n, n) + t.removeprefix(n) for n, t in conda.items()]
    assert floors([t for t in named if t.split()[0] not in CONDA_ONLY]) == wanted
    assert listed[-1] == {"pip": ["-e ."]}


def test_every_package_is_pinned(requirements):
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    pins = {canonicalize_name(name): version for name, version in (s.split("==") for s in lines)}
    assert not [version for version in pins.values() if "+" in version]
    assert pins["torch"] == "2.13.0"
    for text in requirements:
        wanted = Requirement(text)
        assert pins[canonicalize_name(wanted.name)] in wanted.specifier, text


def test_pins_accept_every_python_that_the_package_does():
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    for installed in metadata.distributions():
        if f"{installed.name}=={installed.version}" in pins:
            wanted = SpecifierSet(installed.metadata["Requires-Python"] or "")
            refused = [version for version in ("3.11.0", "3.13.0") if version not in wanted]
            assert not refused, f"{installed.name} needs Python {wanted}"


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Names of the modules of lab_utils that a file imports, without the package's name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; allowed: lab_utils.…"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = [name.split(".") for name in names if name.split(".")[0] == "lab_utils"]
    places = {parts[1] if len(parts) > 1 else "__init__" for parts in ours}
    return {place if place in LAYERS else "__init__" for place in places}


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_dependencies_point_one_way(path):
    place = layer(path)
    assert place in LAYERS, f"give {place} a layer in this test, and a line in the README's tree"
    upwards = {name for name in imported(path) if name != place and LAYERS[name] >= LAYERS[place]}
    assert not upwards, f"{place} (layer {LAYERS[place]}) imports {upwards}"


def test_files_are_small():
    too_long = [
        (path.relative_to(ROOT), lines)
        for path in committed()
        if path.suffix == ".py" and (lines := len(path.read_text().splitlines())) > 300
    ]
    assert too_long == []
    assert [p.relative_to(ROOT) for p in committed() if p.stat().st_size > 5_000_000] == []


@pytest.mark.parametrize("asked", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_is_content(asked):
    command = [sys.executable, "-m", "ruff", *asked, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def fences() -> list[str]:
    """The contents of the README's fenced blocks."""
    return re.findall(r"^```[^\n]*\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def test_readme_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matrix, layer, opt = [block for block in fences() if block.startswith(("import ", "from "))]
    names: dict = {}
    exec(matrix, names)
    expected = names["x"] @ names["weight"].T
    assert (names["y"] - expected).float().norm() < 0.01 * expected.float().norm()
    assert (tmp_path / "layer.safetensors").is_file()
    exec(layer, names)
    assert list(names["replaced"]) == ["0"] and (tmp_path / "model.pt").is_file()
    theirs(vocab_size=400).save_pretrained("opt-125m")
    exec(opt, names)
    assert names["new"].shape == (2, 32) and Stored("opt-125m-sparse").formats == {"tca_bme"}


def tree_paths() -> list[str]:
    """The paths in the README's annotated tree; depth is indentation, with or without lines."""
    tree = next(block for block in fences() if re.search(r"^\W*lab_utils/", block, re.MULTILINE))
    paths, above = [], []
    for line in filter(str.strip, tree.splitlines()):
        plain = re.sub(r"[│├└─]", " ", line)
        indent, name = len(plain) - len(plain.lstrip()), plain.split()[0]
        above = [(i, n) for i, n in above if i < indent]
        paths.append("".join(n for _, n in above) + name)
        if name.endswith("/"):
            above.append((indent, name))
    return paths


def test_readme_tree_is_the_real_one():
    paths = tree_paths()
    assert [path for path in paths if not (ROOT / path).exists()] == []
    folders = {path.relative_to(ROOT).parts[0] for path in committed() if path.parent != ROOT}
    missing = {f"{name}/" for name in folders if name[0] != "."} - set(paths)
    assert missing == set()
    modules = {f"{name}/" if (PACKAGE / name).is_dir() else f"{name}.py" for name in LAYERS}
    assert {f"lab_utils/{name}" for name in modules - {"__init__.py"}} - set(paths) == set()


def test_readme_names_the_layers_from_top_to_bottom():
    (chain,) = re.findall(r"Dependencies point one way: ([^.]+)\.", README.read_text())
    named = {name: number for name, number in LAYERS.items() if name != "__init__"}
    layers = [{name for name in named if named[name] == number}
              for number in sorted(set(named.values()), reverse=True)]  # fmt: skip
    assert [set(step.split(", ")) for step in chain.split(" → ")] == layers


def test_nothing_cites_a_document_that_readers_do_not_have():
    """Sections of the SPEC from which this was written; papers are cited by name."""
    cites = re.compile(rb"\bSPEC(\.md|\s+[0A-G]\b)")
    assert [path.name for path in committed() if cites.search(path.read_bytes())] == []


def commands() -> list[str]:
    """The make and lab commands of the README, in fenced blocks and in `inline code`."""
    lines = [line.strip().removeprefix("$ ") for block in fences() for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", README.read_text())
    return [line.split(" #")[0].strip() for line in lines if re.match(r"(make|lab) ", line)]


def test_links_between_documents_lead_somewhere():
    """Files, and headings as GitHub names them."""
    files = committed()
    documents = [path for path in files if path.suffix == ".md"]
    assert README in documents and len(documents) > 5
    places, lost = {*files, *(folder for path in files for folder in path.parents)}, []
    for document in documents:
        for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
            path, _, heading = link.partition("#")
            target = document.parent / path if path else document
            is_there = target.resolve() in places and (not heading or heading in headings(target))
            if not is_there and not link.startswith("https://"):
                lost.append((document.name, link))
    assert not lost


def headings(document: Path) -> set[str]:
    """What links to its headings call them; of those that repeat, the first."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in lines}


def test_readme_commands_exist():
    assert {"make run", "make test"} <= set(commands())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in commands():
        tool, *arguments = shlex.split(line)
        if tool == "make":
            variables = {text.split("=")[0] for text in arguments if "=" in text}
            assert variables <= MAKE_VARIABLES, line
            assert {text for text in arguments if "=" not in text} <= targets, line
        else:
            name, *rest = arguments
            assert name in main.commands, line
            main.commands[name].make_context(name, rest)  # raises for an unknown option
