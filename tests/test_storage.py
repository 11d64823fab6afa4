"""Stored encodings: all that was written comes back, and any damage to the file is found."""

import os
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matrices import VARIANTS, encodings, fitting, same_bits
from safetensors.torch import save_file

from lab_utils.formats import FORMATS, Csr, SparseMatrix, TcaBme, encode, load, storage
from lab_utils.patterns import random_sparse

in_one_folder = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("format, options", VARIANTS)
@in_one_folder
@given(data=st.data())
def test_every_array_comes_back(format, options, data, tmp_path):
    A = data.draw(encodings(format, **options))
    A.save(tmp_path / "a.safetensors")
    B = load(tmp_path / "a.safetensors")
    assert type(B) is type(A) and B.shape == A.shape and B.dtype == A.dtype
    assert same_bits(B.decode(), A.decode())
    for name, array in A.arrays.items():  # the order of the words too
        assert torch.equal(B.arrays[name].view(torch.uint8), array.view(torch.uint8))
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("format", FORMATS)
@in_one_folder
@given(data=st.data())
def test_every_flipped_bit_of_a_file_is_found(format, data, tmp_path):
    content = bytearray(stored(data.draw(encodings(format)), tmp_path))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "damaged")


def test_every_single_bit_of_a_small_file_is_guarded(tmp_path):
    content = stored(encode(random_sparse(3, 5, 0.5), "csr"), tmp_path)
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            load(tmp_path / "damaged")


@pytest.mark.parametrize("format", FORMATS)
def test_every_truncation_of_a_file_is_found(format, tmp_path):
    content = stored(encode(fitting(random_sparse(5, 9, 0.5), format), format), tmp_path)
    for length in range(len(content)):
        (tmp_path / "damaged").write_bytes(content[:length])
        with pytest.raises(ValueError, match="damaged"):
            load(tmp_path / "damaged")


def stored(A: SparseMatrix, folder) -> bytes:
    A.save(folder / "whole")
    return (folder / "whole").read_bytes()


def test_a_matrix_outlives_its_file(tmp_path):
    A = encode(random_sparse(100, 100, 0.5), "tca_bme")
    A.save(tmp_path / "a")
    B = load(tmp_path / "a")
    os.truncate(tmp_path / "a", 10)
    assert same_bits(B.decode(), A.decode())


def test_saving_over_a_file_replaces_it(tmp_path):
    encode(random_sparse(9, 9, 0.5), "csr").save(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    with (tmp_path / "a").open("rb") as reader:
        encode(random_sparse(9, 9, 0.5), "tca_bme").save(str(tmp_path / "a"))
        assert reader.read() == before  # who has opened the old file keeps it whole
    assert isinstance(load(str(tmp_path / "a")), TcaBme)


def test_saving_over_a_link_writes_what_it_leads_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    encode(random_sparse(9, 9, 0.5), "csr").save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and load(tmp_path / "a").name == "csr"


def test_only_files_are_written_over(tmp_path, monkeypatch):
    # Or else a fault here would replace a device of the machine.
    monkeypatch.setattr(storage, "write_whole", lambda *_: pytest.fail("written"))
    os.mkfifo(tmp_path / "pipe")
    A = encode(random_sparse(9, 9, 0.5), "csr")
    for path in (tmp_path / "pipe", tmp_path, "/dev/null", "", 5, None):
        with pytest.raises(ValueError, match="path=.*; allowed: the name of a file"):
            A.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_what_names_no_file_is_refused():
    for path in (None, 5, b"a", "a\0b"):
        for use in (load, encode(random_sparse(9, 9, 0.5), "csr").save):
            with pytest.raises(ValueError, match="path=.*; allowed: the name of a file"):
                use(path)


def test_a_name_that_is_too_long_is_told():
    for use in (load, encode(random_sparse(9, 9, 0.5), "csr").save):
        with pytest.raises(
            RuntimeError, match=r"cannot (read|write) path='n+': File name too long"
        ):
            use("n" * 300)


def test_without_values_nothing_is_saved(tmp_path):
    A = encode(random_sparse(9, 9, 0.5), "csr").to("meta")
    with pytest.raises(ValueError, match="A is on meta, so it has no values; allowed: cpu, cuda"):
        A.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_links_that_lead_in_a_circle_are_told(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(RuntimeError, match=r"cannot write path='.*a': Too many levels of symbolic"):
        encode(random_sparse(9, 9, 0.5), "csr").save(tmp_path / "a")


def test_a_missing_file_and_a_foreign_file_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"absent'?: no such file"):
        load(tmp_path / "absent")
    with pytest.raises(ValueError, match="is no file"):
        load(tmp_path)
    (tmp_path / "text").write_text("not a matrix")
    with pytest.raises(ValueError, match="text: not a stored sparse matrix"):
        load(tmp_path / "text")


def test_another_format_or_version_is_refused(tmp_path, monkeypatch):
    encode(random_sparse(9, 9, 0.5), "csr").save(tmp_path / "a")
    with pytest.raises(ValueError, match="format is 'csr', this class reads 'tca_bme'"):
        TcaBme.load(tmp_path / "a")
    monkeypatch.setattr(Csr, "version", 2)
    with pytest.raises(ValueError, match="version is 1, this class reads 2"):
        load(tmp_path / "a")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"dtype": "float64"}, "dtype is 'float64'; allowed"),
        ({"format": "ellpack"}, "format='ellpack': unknown"),
        ({"dtype": []}, r"dtype is \[\]; allowed"),
        ({"shape": [9, 8]}, "row 0 has a col_idx out of"),
        ({"shape": [9]}, r"shape is \[9\]; allowed: \[M, K\]"),
        ({"shape": [9.5, 9]}, r"shape is \[9.5, 9\]; allowed"),
        ({"shape": None}, "shape is None; allowed"),
    ],
)
def test_a_file_of_another_make_is_refused(change, message, tmp_path):
    A = encode(torch.ones(9, 9, dtype=torch.float16), "csr")
    metadata = {"format": "csr", "version": 1, "shape": [9, 9], "dtype": "float16", **change}
    storage.write(tmp_path / "a", metadata, A.arrays)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "a")


@pytest.mark.parametrize("text", ["5", "null", '"a"', "[" * 100_000])
def test_metadata_of_another_form_are_refused(text, tmp_path):
    entries = {"lscd": text, "crc32": str(zlib.crc32(text.encode()))}
    save_file({"a": torch.zeros(1)}, tmp_path / "a", metadata=entries)
    with pytest.raises(ValueError, match="a: not a stored sparse matrix, or damaged"):
        load(tmp_path / "a")


def test_metadata_that_lacks_an_entry_is_refused(tmp_path):
    storage.write(tmp_path / "a", {"format": "csr"}, {})
    with pytest.raises(ValueError, match="its metadata has no version, shape, dtype"):
        load(tmp_path / "a")


# Root may write anywhere, so the unwritable folders are one that is absent and one that is a file.
@pytest.mark.parametrize("folder", ["absent", "file"])
def test_a_folder_that_cannot_be_written_is_named(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match=f"cannot write path=.*{folder}/a"):
        encode(random_sparse(9, 9, 0.5), "csr").save(tmp_path / folder / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_empty_path_is_named():
    with pytest.raises(ValueError, match="path='.'; allowed: the name of a file"):
        encode(random_sparse(9, 9, 0.5), "csr").save("")


def test_a_failed_write_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch):
    A = encode(random_sparse(9, 9, 0.5), "csr")
    A.save(tmp_path / "a")

    def runs_out_of_space(path, content):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", runs_out_of_space)
    with pytest.raises(RuntimeError, match="No space left"):
        encode(random_sparse(9, 9, 0.9), "csr").save(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert same_bits(load(tmp_path / "a").decode(), A.decode())
