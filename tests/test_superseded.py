"""Rows that a later run replaces: which they are, and that nothing else goes with them."""

import errno
import multiprocessing
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_results import row

from lab_utils import results
from lab_utils.cli import main
from lab_utils.results import superseded


def at(day: int, **changes) -> dict:
    return row(date=f"2026-01-{day:02}T00:00:00+00:00", **changes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two runs of one case, the later of which lacks a kernel; and other cases."""
    rows = [at(1), at(1, kernel="torch_mm"), at(1, N=16), at(2, time_us=8.5), at(1, dtype="fp16")]
    results.append("spmm", [at(3, device="cpu-b")], tmp_path)
    (file,) = results.append("spmm", rows, tmp_path)
    return file


def test_counts_without_writing(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    found = superseded.find("spmm", folder=tmp_path)
    assert found.to_dict() == {(str(file), "csr_avx2"): 1}
    assert file.read_bytes() == before


def test_the_other_lines_stay_as_they_are(file: Path, tmp_path: Path) -> None:
    lines, latest = file.read_bytes().splitlines(), results.latest
    wanted = latest(results.measured("spmm", tmp_path), results.KERNEL_CASE)
    assert superseded.find("spmm", folder=tmp_path, drop=True).sum() == 1
    assert file.read_bytes().splitlines() == [lines[0], *lines[2:]]
    found = results.measured("spmm", tmp_path)
    assert found.to_dict("records") == wanted.to_dict("records")
    assert superseded.find("spmm", folder=tmp_path, drop=True).empty
    assert [path.name for path in file.parent.iterdir()] == ["spmm.csv"]


def test_of_some_kernels_alone(file: Path, tmp_path: Path) -> None:
    results.append("spmm", [at(4, kernel="torch_mm")], tmp_path)
    assert superseded.find("spmm", ["torch_mm"], tmp_path, drop=True).sum() == 1
    assert superseded.find("spmm", folder=tmp_path).to_dict() == {(str(file), "csr_avx2"): 1}


def test_a_full_file_is_read_beside_the_one_that_is_appended_to(file: Path, tmp_path: Path) -> None:
    everything = results.measured("spmm", tmp_path)
    full = file.rename(file.with_name("spmm-1.csv"))
    (file.parent / "spmm-old.csv").write_text("no rows")  # of no table
    assert results.measured("spmm", tmp_path).equals(everything)
    assert results.append("spmm", [at(5, time_us=7.5)], tmp_path) == [file]
    assert len(results.measured("spmm", tmp_path)) == len(everything) + 1
    counts = {(str(full), "csr_avx2"): 2}
    assert superseded.find("spmm", folder=tmp_path).to_dict() == counts
    assert superseded.find("spmm", folder=tmp_path, drop=True).to_dict() == counts
    assert superseded.find("spmm", folder=tmp_path).empty
    assert len(results.of_file(full)) == 3 and len(results.of_file(file)) == 1


@pytest.mark.parametrize("table", superseded.TABLES)
def test_the_stored_tables_lose_nothing_that_is_read(table: str) -> None:
    rows = results.measured(table)
    kept = rows[~superseded.superseded(rows)]
    assert set(kept.kernel + " " + kept.device) == set(rows.kernel + " " + rows.device)
    assert results.latest(kept).equals(results.latest(rows))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("opt",), r"table='opt'; allowed: spmm, energy"),
        (("spmm", ["gemm"]), r"kernel='gemm' has no rows of spmm; allowed: csr_avx2, torch_mm"),
        (("energy", ["gemm"]), r"kernel='gemm' has no rows of energy; allowed: none"),
    ],
)
def test_bad_input(file: Path, tmp_path: Path, arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        superseded.find(*arguments, folder=tmp_path, drop=True)


def test_a_value_of_several_lines_is_refused(file: Path, tmp_path: Path) -> None:
    results.append("spmm", [at(5, pattern="a\nb")], tmp_path)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"7 lines for 6 rows; allowed: one each"):
        superseded.find("spmm", folder=tmp_path, drop=True)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<<<<<<< HEAD\n", r"line 7 has date='<<<<<<< HEAD'; allowed: 2026-01-31T12:00:00\+00:00"),
        ("3/1/2026,,,\n", r"line 7 has date='3/1/2026'; allowed: "),
        ("2026-01-05T00:00:00+00:00\n", r"line 7 has no device; allowed: rows that have one"),
        ("," * 23 + "\n", r"line 7 has no date"),
        ("," * 40 + "\n", r"spmm\.csv cannot be read as rows: "),
        (None, r"line 7 has no pattern"),
    ],
)
def test_lines_of_no_run_are_refused_and_kept(
    file: Path, tmp_path: Path, line: str | None, message: str
) -> None:
    if line is None:
        results.append("spmm", [at(5, pattern="")], tmp_path)
    else:
        file.write_text(file.read_text() + line)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=message):
        superseded.find("spmm", folder=tmp_path, drop=True)
    assert file.read_bytes() == before


def test_nothing_is_replaced_where_a_file_is_refused(file: Path, tmp_path: Path) -> None:
    results.append("spmm", [at(1, device="z"), at(2, device="z", pattern="")], tmp_path)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"z/spmm\.csv: line 3 has no pattern"):
        superseded.find("spmm", folder=tmp_path, drop=True)
    assert file.read_bytes() == before


def test_a_first_row_with_a_field_too_many_is_refused(tmp_path: Path) -> None:
    """pandas would take each first column for a name, and a kernel for a backend."""
    rows = [at(1, driver="580", cuda="13.0", M=M) for M in (1, 2, 3)]
    (file,) = results.append("spmm", rows, tmp_path)
    header, *lines = file.read_text().splitlines()
    file.write_text("\n".join([header, *(line + "," for line in lines), ""]))
    before = file.read_bytes()
    with pytest.raises(ValueError, match="more fields than columns"):
        superseded.find("spmm", folder=tmp_path, drop=True)
    assert file.read_bytes() == before


def test_an_empty_file_has_no_rows(file: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "spmm.csv").touch()
    assert superseded.find("spmm", folder=tmp_path, drop=True).sum() == 1
    assert len(results.measured("spmm", tmp_path)) == 5


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    target = file.rename(tmp_path / "elsewhere.csv")
    target.chmod(0o640)
    file.symlink_to(target)
    assert superseded.find("spmm", folder=tmp_path, drop=True).sum() == 1
    assert target.stat().st_mode & 0o777 == 0o640
    assert file.is_symlink() and len(target.read_bytes().splitlines()) == 5


def test_full_disk_leaves_the_file_as_it_was(file: Path, tmp_path: Path, monkeypatch) -> None:
    def full(path: Path, data: bytes) -> None:
        with path.open("wb") as half:
            half.write(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RuntimeError, match=r"spmm\.csv: cannot be written: No space left"):
        superseded.find("spmm", folder=tmp_path, drop=True)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["spmm.csv"]


def _append_many(folder: Path, N: int) -> None:
    for day in range(1, 29):
        results.append("spmm", [at(day, N=N, M=day), at(day, N=N, kernel="torch_mm")], folder)


def test_rows_that_are_added_meanwhile_are_not_lost(file: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    runs = [context.Process(target=_append_many, args=(tmp_path, N)) for N in (20, 21, 22)]
    for run in runs:
        run.start()
    dropped, late = 0, time.monotonic() + 120
    try:
        while any(run.is_alive() for run in runs) and time.monotonic() < late:
            dropped += superseded.find("spmm", folder=tmp_path, drop=True).sum()
    finally:
        for run in runs:
            run.join(max(0.0, late - time.monotonic()))
            run.kill()
    superseded.find("spmm", folder=tmp_path, drop=True)
    rows = results.measured("spmm", tmp_path).query("N >= 20")
    assert [run.exitcode for run in runs] == [0, 0, 0] and dropped > 0
    assert rows.kernel.value_counts().to_dict() == {"csr_avx2": 3 * 28, "torch_mm": 3}
    assert set(rows[rows.kernel.eq("torch_mm")].date.str[:10]) == {"2026-01-28"}


def test_the_command(file: Path, tmp_path: Path) -> None:
    def lab(*arguments: str) -> str:
        told = CliRunner().invoke(main, ["superseded", "--output", str(tmp_path), *arguments])
        assert told.exit_code == 0, told.output
        return told.output

    assert lab().splitlines() == [
        f"     1  csr_avx2{' ' * 22}{file}",
        "     1  rows are superseded",
    ]
    assert lab("--drop").endswith("     1  rows taken out\n")
    assert lab() == "     0  rows are superseded\n"
    assert len(file.read_text().splitlines()) == 5
