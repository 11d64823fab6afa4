"""The build cache: what rebuilds, what does not, and what is said when it cannot."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from lab_utils import build, toolchains
from lab_utils.toolchains import Cxx

EXPORT = 'extern "C" __attribute__((visibility("default"))) int '


@pytest.fixture
def kernels(tmp_path, monkeypatch) -> Path:
    """A tiny kernels/ folder and an empty cache, in place of the real ones."""
    folder = tmp_path / "kernels" / "cpu"
    folder.mkdir(parents=True)
    (folder / "helper.h").write_text("inline int helper() { return 42; }\n")
    (folder / "answer.cpp").write_text(
        f'#include "helper.h"\n{EXPORT}answer() {{ return helper(); }}\n'
    )
    monkeypatch.setattr(build, "SOURCES", tmp_path / "kernels")
    monkeypatch.setattr(build, "LIBRARIES", {"cpu": build.LIBRARIES["cpu"]})
    monkeypatch.setenv("LSCD_CACHE", str(tmp_path / "cache"))
    return folder


def answer() -> int:
    return ctypes.CDLL(str(build.build("cpu"))).answer()


def cached(tmp_path: Path) -> list[str]:
    return sorted(str(p.relative_to(tmp_path / "cache")) for p in (tmp_path / "cache").rglob("*"))


def test_it_builds_once_and_leaves_the_library_alone(kernels, tmp_path, monkeypatch):
    assert answer() == 42
    path = build.build("cpu")
    assert cached(tmp_path) == [path.parent.name, f"{path.parent.name}/libcpu.so"]
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build.build("cpu") == path
    assert build.build_all() == {"cpu": path}


@pytest.mark.parametrize("changed", ["helper.h", "answer.cpp", "flags", "link flags"])
def test_whatever_the_library_depends_on_changes_its_key(kernels, monkeypatch, changed):
    library = build.LIBRARIES["cpu"]
    before = build.cache_key(library)
    assert build.cache_key(library) == before
    if changed == "flags":
        monkeypatch.setattr(Cxx, "COMMON", (*Cxx.COMMON, "-DX"))
    elif changed == "link flags":
        monkeypatch.setattr(Cxx, "link_flags", lambda _: ("-shared", "-lm"))
    else:
        (kernels / changed).write_text((kernels / changed).read_text() + "// changed\n")
    assert build.cache_key(library) != before


def test_another_compiler_changes_the_key(kernels, tmp_path, monkeypatch):
    before = build.cache_key(build.LIBRARIES["cpu"])
    use_compiler(tmp_path, monkeypatch, '#!/bin/sh\necho "another compiler 1.0"\n')
    assert build.cache_key(build.LIBRARIES["cpu"]) != before


def test_sources_of_one_name_in_two_folders_are_two_objects(kernels):
    for folder in ("encode", "spmm"):
        (kernels / folder).mkdir()
        (kernels / folder / "same.cpp").write_text(f"{EXPORT}{folder}() {{ return 1; }}\n")
    library = ctypes.CDLL(str(build.build("cpu")))
    assert library.encode() == library.spmm() == 1


def test_definitions_make_another_library_of_the_same_sources(kernels):
    (kernels / "answer.cpp").write_text(
        f"#ifndef ANSWER\n#define ANSWER 1\n#endif\n{EXPORT}answer() {{ return ANSWER; }}\n"
    )
    other = build.build("cpu", definitions=("ANSWER=2",))
    assert (answer(), ctypes.CDLL(str(other)).answer()) == (1, 2)


def test_progress_sees_every_source(kernels):
    (kernels / "more.cpp").write_text("int more() { return 1; }\n")
    seen = []
    build.build("cpu", progress=lambda steps: (seen.append(step) or step for step in steps))
    assert len(seen) == 2


def test_a_missing_compiler_is_named(kernels, monkeypatch):
    monkeypatch.setenv("CXX", "nonexistent-g++")
    with pytest.raises(RuntimeError, match=r"'nonexistent-g\+\+' not found: install g\+\+"):
        build.build("cpu")


def use_compiler(tmp_path: Path, monkeypatch, content: str) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(content)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))


def test_a_compiler_that_does_not_run_is_named(kernels, tmp_path, monkeypatch):
    use_compiler(tmp_path, monkeypatch, "\x7fELF, but not really")
    with pytest.raises(RuntimeError, match=r"cannot run .*/compiler: "):
        build.build("cpu")


def test_a_compile_error_shows_the_compilers_words_and_leaves_nothing(kernels, tmp_path):
    (kernels / "broken.cpp").write_text("int broken( { return 0; }\n")
    with pytest.raises(RuntimeError, match=r"(?s) failed: .*broken\.cpp:1:.*error"):
        build.build("cpu")
    assert cached(tmp_path) == []


def test_another_tool_that_fails_is_named():
    with pytest.raises(RuntimeError, match=r"^python\S* failed: .*\n.*no_such_module"):
        toolchains.run([sys.executable, "-m", "no_such_module"])


def test_a_link_error_leaves_nothing(kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(Cxx, "link_flags", lambda _: ("-shared", "-lno_such_library"))
    with pytest.raises(RuntimeError, match="no_such_library"):
        build.build("cpu")
    assert cached(tmp_path) == []


# Below a regular file, since root may write into any folder.
def test_a_cache_folder_that_cannot_be_written_is_named(kernels, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LSCD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(RuntimeError, match=r"build cache .*file/cache .*set LSCD_CACHE"):
        build.build("cpu")


def test_an_unknown_library_and_an_empty_folder_are_named(kernels):
    with pytest.raises(ValueError, match="name='gpu': no such library; allowed: cpu"):
        build.build("gpu")
    (kernels / "answer.cpp").unlink()
    with pytest.raises(RuntimeError, match=r"no sources under .*cpu"):
        build.build("cpu")


def test_a_library_that_cannot_be_loaded_is_named(kernels):
    build.build("cpu").write_bytes(b"not a library")
    with pytest.raises(RuntimeError, match=r"cannot load .*libcpu\.so"):
        build.load.__wrapped__("cpu")


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.delenv("LSCD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert build.cache_folder() == Path("/somewhere/lscd")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert build.cache_folder() == Path.home() / ".cache" / "lscd"


def test_two_processes_may_build_at_once(kernels, tmp_path):
    script = (
        "import sys; from pathlib import Path; from lab_utils import build; "
        "build.SOURCES = Path(sys.argv[1]); print(build.build('cpu'))"
    )
    command = [sys.executable, "-c", script, str(kernels.parent)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate()[0].strip() for process in running}
    assert paths == {str(build.build("cpu"))}
    assert [process.returncode for process in running] == [0, 0]
