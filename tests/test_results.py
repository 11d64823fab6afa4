"""Stored rows: exact columns, whole pieces or nothing, one file per device."""

import csv
import errno
import multiprocessing
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from lab_utils import results
from lab_utils.results import tables

COLUMNS = results.COLUMNS["spmm"]
NUMBERS = {"M": 64, "K": 64, "N": 8, "sparsity": 0.5, "split_k": 1, "time_us": 10.0, "p10_us": 9.0,
           "p90_us": 12.0, "encoded_bytes": 4096, "gb_per_s": 0.41, "tflops": 0.01,
           "byte_limit_fraction": 0.2, "relative_error": 0.001, "dense_us": 15.0,
           "speedup": 1.5}  # fmt: skip


def row(**changes) -> dict:
    """A legal row of spmm.csv."""
    text = {"date": "2026-01-01T00:00:00+00:00", "commit": "12e4567", "device": "cpu-a"}
    more = {"driver": "", "cuda": "", "kernel": "csr_avx2", "backend": "cpu"}
    return text | more | {"pattern": "random", "dtype": "bf16"} | NUMBERS | changes


def lines(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text().splitlines()))


def test_header_and_rows_in_the_order_of_the_table(tmp_path: Path) -> None:
    shuffled = dict(sorted(row().items()))
    assert results.append("spmm", [shuffled], tmp_path) == [tmp_path / "cpu-a" / "spmm.csv"]
    results.append("spmm", [row(N=16)], tmp_path)
    header, first, second = lines(tmp_path / "cpu-a" / "spmm.csv")
    assert tuple(header) == COLUMNS
    assert first == [str(row()[name]) for name in COLUMNS]
    assert second[COLUMNS.index("N")] == "16"


def test_a_file_for_each_device(tmp_path: Path) -> None:
    rows = [row(device="h200", cuda="13.0", driver="580.95"), row(), row(device="h200", N=1)]
    assert len(results.append("spmm", rows, tmp_path)) == 2
    assert len(lines(tmp_path / "h200" / "spmm.csv")) == 3
    assert len(lines(tmp_path / "cpu-a" / "spmm.csv")) == 2


def test_rows_survive_the_round_trip(tmp_path: Path) -> None:
    rows = [row(), row(device="h200", cuda="13.0", driver="580", date="2025-06-01T00:00:00+00:00")]
    results.append("spmm", rows, tmp_path)
    stored = results.measured("spmm", tmp_path)
    assert tuple(stored.columns) == COLUMNS
    assert stored.to_dict("records") == rows[::-1]  # oldest first


def test_no_rows_yet(tmp_path: Path) -> None:
    empty = results.measured("spmm", tmp_path / "missing")
    assert empty.empty and tuple(empty.columns) == COLUMNS
    assert results.append("spmm", [], tmp_path) == []
    assert results.latest(empty).empty


def test_latest_takes_whole_runs() -> None:
    def at(day: int, **changes) -> dict:
        return row(date=f"2026-01-0{day}T00:00:00+00:00", **changes)

    rows = [at(1, kernel="old"), at(1), at(2), at(2, kernel="torch_mm"), at(1, N=16)]
    rows += [at(1, device="h200")]
    kept = results.latest(pd.DataFrame(rows))
    assert sorted(zip(kept.device, kept.N, kept.kernel, strict=True)) == [
        ("cpu-a", 8, "csr_avx2"), ("cpu-a", 8, "torch_mm"), ("cpu-a", 16, "csr_avx2"),
        ("h200", 8, "csr_avx2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({k: v for k, v in row(device="b").items() if k != "speedup"}, "a row lacks speedup"),
        (row(device="b", colour="red"), "a row has colour"),
    ],
)
def test_one_bad_row_and_nothing_is_written(tmp_path: Path, bad: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        results.append("spmm", [row(), bad], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["", ".", "..", "a/b", "/tmp", "a\\b", "a\0", " a", None, 5])
def test_a_device_is_the_plain_name_of_a_folder(tmp_path: Path, device: object) -> None:
    message = re.escape(f"device={device!r}; allowed: the plain name of a folder")
    with pytest.raises(ValueError, match=message):
        results.append("spmm", [row(), row(device=device)], tmp_path)
    with pytest.raises(ValueError, match=message):
        results.check_writable("spmm", device, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (("\ufeff" + ",".join(COLUMNS) + "\n").encode(), "starts with a byte order mark"),
        (",".join(COLUMNS).encode("utf-16"), "is no CSV table in UTF-8"),
        (b"date,\xe4\n", "is no CSV table in UTF-8"),
        (b"date," + b"a" * 200_000 + b"\n", "is no CSV table in UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "cpu-a" / "spmm.csv"
    file.parent.mkdir()
    file.write_bytes(content)
    for use in (lambda: results.append("spmm", [row()], tmp_path),
                lambda: results.measured("spmm", tmp_path)):  # fmt: skip
        with pytest.raises(ValueError, match=f"{re.escape(str(file))} {message}"):
            use()
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("date,time\n1,2\n", "columns are date,time; needs date,commit"),
        (",".join(COLUMNS) + "\n2026,abc", "the last line is cut"),
    ],
)
def test_another_table_is_left_alone(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "cpu-b" / "spmm.csv"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        results.append("spmm", [row(), row(device="cpu-b")], tmp_path)
    assert file.read_text() == content
    assert not (tmp_path / "cpu-a").exists()
    with pytest.raises(ValueError, match=message):
        results.measured("spmm", tmp_path)


@pytest.mark.parametrize(
    ("column", "cell", "allowed"),
    [
        ("M", "36 864", "numbers, or nothing"),
        ("sparsity", "80%", "numbers, or nothing"),
        ("time_us", "n/a", "numbers, or nothing"),
        ("date", "1/31/2026", r"2026-01-31T12:00:00\+00:00"),
        ("date", "2026-01-31T12:00:00+01:00", r"2026-01-31T12:00:00\+00:00"),
    ],
)
def test_a_cell_of_another_kind_is_named(
    tmp_path: Path, column: str, cell: str, allowed: str
) -> None:
    """One of them would make text of all of its column, and each filter drop all rows."""
    (file,) = results.append("spmm", [row(), row(**{column: cell}), row()], tmp_path)
    told = rf"spmm\.csv: line 3 has {column}={re.escape(repr(cell))}; allowed: {allowed}"
    with pytest.raises(ValueError, match=told):
        results.measured("spmm", tmp_path)
    with pytest.raises(ValueError, match=told):
        results.of_file(file)


def test_a_device_without_rows_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MEASURED", tmp_path)
    results.append("spmm", [row(), row(device="h200")])
    results.check_stored("h200")
    with pytest.raises(ValueError, match="gpu='h201' has no rows; allowed: cpu-a, h200"):
        results.check_stored("h201", "gpu")


def test_blank_lines_are_named_by_their_number(tmp_path: Path) -> None:
    (file,) = results.append("spmm", [row(), row(date="yesterday")], tmp_path)
    header, good, bad = file.read_text().splitlines()
    file.write_text("\n".join([header, "", good, ""]))
    with pytest.raises(ValueError, match="line 2 has no date; allowed: rows that have one"):
        results.of_file(file)
    file.write_text("\n".join([header, good, good, bad, ""]))
    with pytest.raises(ValueError, match="line 4 has date='yesterday'; allowed: "):
        results.of_file(file)


def test_what_pandas_takes_for_missing_is_a_name(tmp_path: Path) -> None:
    results.append("spmm", [row(pattern="None"), row(time_us=float("nan"))], tmp_path)
    rows = results.measured("spmm", tmp_path)
    assert rows.pattern.tolist() == ["None", "random"] and rows.time_us.isna().tolist() == [0, 1]


def test_unknown_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="table='gemm': unknown; allowed: spmm"):
        results.append("gemm", [row()], tmp_path)
    with pytest.raises(ValueError, match="table='gemm'"):
        results.measured("gemm", tmp_path)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(RuntimeError, match=r"spmm\.csv: cannot be written: "):
        results.append("spmm", [row()], in_the_way)


def test_read_only_folder(tmp_path: Path, monkeypatch) -> None:
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)  # root, in a container, may write everywhere
    with pytest.raises(RuntimeError, match=r"spmm\.csv: cannot be written: Permission denied"):
        results.append("spmm", [row()], tmp_path)
    monkeypatch.undo()
    assert list(tmp_path.rglob("*.csv")) == []


@pytest.mark.parametrize("place", ["rows", "rows/cpu-a", "rows/cpu-a/spmm.csv"])
def test_what_is_in_the_way_is_found_before(tmp_path: Path, place: str) -> None:
    results.check_writable("spmm", "cpu-a", tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []
    in_the_way = tmp_path / place
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.mkdir() if place.endswith(".csv") else in_the_way.touch()
    message = re.escape(f"--output='{tmp_path / 'rows'}': {in_the_way} cannot be written to; ")
    with pytest.raises(RuntimeError, match=message + r"allowed: a folder in which cpu-a/spmm\.csv"):
        results.check_writable("spmm", "cpu-a", tmp_path / "rows", "--output")


def test_what_is_read_only_is_found_before(tmp_path: Path, monkeypatch) -> None:
    (file,) = results.append("spmm", [row()], tmp_path)
    results.check_writable("spmm", "cpu-a", tmp_path)
    may = os.access  # root, in a container, may write everywhere
    for closed, device in ((file, "cpu-a"), (tmp_path, "cpu-b")):
        monkeypatch.setattr(os, "access", lambda at, mode, closed=closed: (
            may(at, mode) and not (at == closed and mode & os.W_OK)))  # fmt: skip
        with pytest.raises(RuntimeError, match=rf"folder='{tmp_path}': {closed} cannot be written"):
            results.check_writable("spmm", device, tmp_path)


def test_a_folder_that_cannot_be_listed_will_do(tmp_path: Path, monkeypatch) -> None:
    may = os.access
    monkeypatch.setattr(os, "access", lambda at, mode: (
        may(at, mode) and not (at == tmp_path and mode & os.R_OK)))  # fmt: skip
    results.check_writable("spmm", "cpu-a", tmp_path)


def test_another_table_is_found_before(tmp_path: Path) -> None:
    (file,) = results.append("spmm", [row()], tmp_path)
    file.rename(file.with_name("opt.csv"))
    with pytest.raises(ValueError, match=r"opt\.csv: columns are date,commit"):
        results.check_writable("opt", "cpu-a", tmp_path)


def test_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch) -> None:
    (file,) = results.append("spmm", [row()], tmp_path)
    before, write = file.read_text(), os.write
    monkeypatch.setattr(os, "write", lambda where, data: write(where, data[:10]))
    with pytest.raises(RuntimeError, match="cannot be written: no space left"):
        results.append("spmm", [row(N=16)], tmp_path)
    monkeypatch.undo()
    assert file.read_text() == before


def _append_many(folder: Path) -> None:
    for n in range(1, 21):
        results.append("spmm", [row(N=n), row(N=n, kernel="torch_mm")], folder)


def test_runs_at_the_same_time_do_not_interleave(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    runs = [context.Process(target=_append_many, args=(tmp_path,)) for _ in range(3)]
    for process in runs:
        process.start()
    for process in runs:
        process.join()
    assert [process.exitcode for process in runs] == [0, 0, 0]
    found = lines(tmp_path / "cpu-a" / "spmm.csv")
    assert len(found) == 1 + 3 * 40 and {len(line) for line in found} == {len(COLUMNS)}
    assert sum(tuple(line) == COLUMNS for line in found) == 1
