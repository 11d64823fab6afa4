"""Every notebook is a test: it runs with its defaults, and is kept in canonical form."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from click.testing import CliRunner

from lab_utils.cli import main as lab
from lab_utils.run import NOTEBOOKS, profiles, run
from lab_utils.run.canonical import canonical, defects, format_notebooks

ALL = sorted(NOTEBOOKS.glob("*.ipynb"))


# Values that fit a parameter's type and nothing else, and what the error must say.
REFUSED = {
    "00_start_here": ({"dtype": "float32"}, "dtype='float32': unknown; allowed: fp16, bf16"),
    "10_compression_ratio": ({"encode_sparsities": []}, "encode_sparsities=[]: empty"),
    "11_roofline": ({"batches": []}, "batches=[]: empty"),
    "20_tiled_csl_and_bank_conflicts": ({"small_sparsity": 1.0}, "small_sparsity=1.0; allowed"),
    "21_bitmap_decoding": ({"lane": 40}, "lane=40; allowed: 0 to 31"),
    "22_pipeline": ({"latency": -1.0}, "latency=-1.0; allowed: 0 or more"),
    "23_ladder": ({"sparsities": []}, "sparsities=[]: empty"),
    "24_hopper_kernel": ({"shape": [100]}, "shape=[100]; allowed: two numbers"),
    "30_kernel_benchmark": ({"device": "cdua"}, "device='cdua'; allowed: cpu, cuda"),
    "31_kernel_anatomy": ({"dtype": "float32"}, "dtype='float32': unknown; allowed: fp16, bf16"),
    "40_opt_end_to_end": ({"batch": 0}, "batch=0 must be a whole number of at least 1"),
}
# More of them, that fail late or unclearly unless a notebook's first cells refuse them.
ALSO_REFUSED = [
    ("10_compression_ratio", {"seed": -1}, "seed=-1; allowed: integers from 0 to"),
    ("20_tiled_csl_and_bank_conflicts", {"seed": -1}, "seed=-1; allowed: integers from 0 to"),
    ("21_bitmap_decoding", {"seed": 2**64}, f"seed={2**64}; allowed: integers from 0 to"),
    ("24_hopper_kernel", {"seed": 2**63}, f"seed={2**63}; allowed: integers from 0 to"),
    ("30_kernel_benchmark", {"formats": ["dense"]}, "formats=['dense']: dense is measured anyway"),
    ("22_pipeline", {"sparsity": 1.0}, "sparsity=1.0; allowed: 0 to 0.99"),
    ("23_ladder", {"small_K": -5}, "K=-5 must be a whole number of at least 1"),
    ("23_ladder", {"save_rows": True}, "save_rows=True; allowed: with measure=True"),
    ("24_hopper_kernel", {"shape": [1, 1]}, "shape=[1, 1]; allowed: two numbers"),
    ("30_kernel_benchmark", {"gpu": "h201"}, "gpu='h201' has no rows; allowed: cpu-"),
    ("31_kernel_anatomy", {"device": "h201"}, "device='h201' has no rows; allowed: cpu-"),
    ("40_opt_end_to_end", {"stored": "h201"}, "stored='h201' has no rows; allowed: cpu-"),
]


def name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("notebook", ALL, ids=name)
def test_runs_with_its_defaults(notebook, tmp_path):
    report = run([notebook], "laptop", output=tmp_path)
    result = report.results[0]
    assert result.status == "passed", result.error
    assert "unread-formula" not in (report.folder / f"{notebook.stem}.html").read_text()


def test_every_notebook_has_a_bad_value():
    assert set(REFUSED) == {notebook.stem for notebook in ALL}


@pytest.mark.parametrize(
    ("notebook", "values", "says"),
    [*((stem, *refused) for stem, refused in REFUSED.items()), *ALSO_REFUSED],
)
def test_refuses_a_bad_value_by_its_name(notebook, values, says, tmp_path):
    path = NOTEBOOKS / f"{notebook}.ipynb"
    result = run([path], "laptop", values, output=tmp_path).results[0]
    assert result.status == "failed"
    assert "ValueError" in result.error
    assert says in result.error


@pytest.mark.parametrize("notebook", ALL, ids=name)
def test_is_canonical(notebook):
    assert format_notebooks([notebook], check=True) == []


@pytest.mark.parametrize("profile", sorted((NOTEBOOKS / "profiles").glob("*.yaml")), ids=name)
def test_profile_fits_the_notebooks(profile):
    assert profiles.load(profile.stem, NOTEBOOKS).description


def test_laptop_profile_is_the_defaults():
    """The defaults live in the notebooks alone."""
    laptop = yaml.safe_load((NOTEBOOKS / "profiles" / "laptop.yaml").read_text())
    assert laptop["parameters"] == {}


@pytest.fixture
def untidy(fixtures: Path, tmp_path: Path) -> Path:
    """A good notebook as an editor might leave it."""
    notebook = Path(shutil.copy(fixtures / "good.ipynb", tmp_path))
    content = json.loads(notebook.read_text())
    content["metadata"]["kernelspec"]["name"] = "my-env"
    content["nbformat_minor"] = 4
    for cell in content["cells"]:
        del cell["id"]
        cell["metadata"]["collapsed"] = True
    content["cells"][1]["execution_count"] = 7
    content["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["x"]}]
    content["cells"].append({"cell_type": "markdown", "metadata": {}, "source": [" \n"]})
    notebook.write_text(json.dumps(content))
    return notebook


def test_fixer_makes_canonical(untidy):
    assert format_notebooks([untidy]) == []
    fixed = nbformat.read(untidy, as_version=4)
    assert (fixed.nbformat_minor, fixed.metadata.kernelspec.name) == (5, "python3")
    assert len({cell.id for cell in fixed.cells}) == len(fixed.cells) == 6
    assert fixed.cells[1].metadata == {"tags": ["parameters"]}
    assert (fixed.cells[1].outputs, fixed.cells[1].execution_count) == ([], None)
    assert untidy.read_text() == canonical(untidy)


def test_check_writes_nothing(untidy):
    before = untidy.read_text()
    assert "not in canonical form" in format_notebooks([untidy], check=True)[0]
    done = CliRunner().invoke(lab, ["format", "--check", str(untidy)])
    assert done.exit_code == 1 and "not in canonical form" in done.output
    assert untidy.read_text() == before


def test_defects_need_a_person(untidy):
    content = nbformat.read(untidy, as_version=4)
    content.cells[0].source = "no title"
    content.cells[1].source = "points: int = 20"
    content.cells[2].source = "\n".join(["x = 1"] * 16)
    nbformat.write(content, untidy)
    opening, long_cell, help_comment = defects(untidy)
    assert "What you will learn" in opening
    assert "cell 3 has 16 lines; allowed: 15" in long_cell
    assert "'points' has no help comment" in help_comment
