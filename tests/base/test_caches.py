"""Folders for caches: the user's own, a private temporary one, or none; what was compiled runs with any."""

import errno
import importlib
import os
import sys
import tempfile
from pathlib import Path

import numba
import pytest
from numba.core import caching

from cpms.base import caches, jit
from cpms.sources import datasets


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Give each test a temporary folder of its own, and a home folder that takes no files."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CUPY_CACHE_DIR", "MPLCONFIGDIR", "POCL_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PYOPENCL_NO_CACHE", "")
    for found in (caches.own_temporary, caches.temporary):
        found.cache_clear()
    jit._reported.clear()
    yield
    for found in (caches.own_temporary, caches.temporary):
        found.cache_clear()


def half(x):
    return x / 2


def no_locator(monkeypatch):
    """Let Numba find no folder of its own, as in a read-only installation."""
    given = [each for each in caching.CacheImpl._locator_classes if "UserProvided" in each.__name__]
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", given)


def test_what_is_compiled_goes_to_a_private_folder_that_keeps_its_name(monkeypatch, tmp_path, caplog):
    no_locator(monkeypatch)
    assert jit.compiled()(half)(3.0) == 1.5
    folder = caches.temporary()
    assert folder.parent == tmp_path / "tmp"
    assert folder.stat().st_mode & 0o077 == 0
    assert len(list(folder.rglob("*.nbc"))) == 1
    assert jit.compiled()(half)(3.0) == 1.5
    assert [record.getMessage().count(str(folder)) for record in caplog.records] == [1]
    caches.own_temporary.cache_clear()
    assert caches.own_temporary() == folder


def test_without_any_folder_code_is_compiled_in_memory(monkeypatch, caplog):
    no_locator(monkeypatch)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: (_ for _ in ()).throw(FileNotFoundError("none is usable")))
    assert jit.compiled()(half)(3.0) == 1.5
    assert "no folder takes files" in caplog.text


@pytest.mark.parametrize("planted", ["open", "file", "link", "dangling"])
def test_a_folder_that_others_may_have_made_is_not_trusted(tmp_path, planted):
    folder = caches.own_temporary()
    folder.rmdir()
    if planted == "open":
        folder.mkdir()
        folder.chmod(0o777)
    elif planted == "file":
        folder.touch()
    else:
        folder.symlink_to(tmp_path if planted == "link" else tmp_path / "nowhere")
    caches.own_temporary.cache_clear()
    other = caches.own_temporary()
    assert other not in (folder, tmp_path)
    assert other.parent == tmp_path / "tmp"
    assert other.stat().st_mode & 0o077 == 0


def test_a_full_disk_is_said_once_and_costs_nothing_else(monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    halved = jit.compiled()(half)
    assert (halved(3.0), halved(3)) == (1.5, 1.5)
    assert caplog.text.count("No space left on device") == 1


def test_an_index_that_cannot_be_read_is_as_good_as_none(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert jit.compiled()(half)(3.0) == 1.5
    (index,) = tmp_path.rglob("*half*.nbi")
    index.unlink()
    index.mkdir()
    assert jit.compiled()(half)(3.0) == 1.5
    assert caplog.text.count("compiled code cannot be cached") == 1


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [b"", b"\x80", b"garbage"])
def test_a_damaged_file_of_the_cache_is_replaced(tmp_path, monkeypatch, suffix, left):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert jit.compiled()(half)(3.0) == 1.5
    (file,) = tmp_path.rglob(f"*half*.{suffix}")
    file.write_bytes(left)
    assert jit.compiled()(half)(3.0) == 1.5
    assert len(file.read_bytes()) > len(left)


def test_a_loop_is_compiled_anew_where_the_file_of_its_helper_changed(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    loop = (
        "from cpms.base.jit import compiled\nfrom a_helper import part\n\n@compiled()\ndef f(x):\n    return part(x)\n"
    )
    (tmp_path / "a_loop.py").write_text(loop)
    for factor in ("2.0", "0.25"):
        helper = f"from cpms.base import jit\n\n@jit.inlined_in_loops()\ndef part(x):\n    return x * {factor}\n"
        (tmp_path / "a_helper.py").write_text(helper)
        for name in ("a_helper", "a_loop"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        assert importlib.import_module("a_loop").f(4.0) == 4.0 * float(factor)


def test_a_compiled_function_in_a_closure_is_refused():
    helper = jit.inlined_in_loops()(half)

    def loop(x):
        return helper(x)

    with pytest.raises(TypeError, match="loop holds a compiled function in its closure"):
        jit.compiled()(loop)


@pytest.mark.parametrize(
    ("library", "variable"),
    [("matplotlib", "MPLCONFIGDIR"), ("cupy", "CUPY_CACHE_DIR"), ("pyopencl", "POCL_CACHE_DIR")],
)
def test_libraries_are_sent_away_only_from_folders_that_take_no_files(monkeypatch, tmp_path, library, variable):
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    caches.redirect(library)
    assert os.environ[variable] == str(tmp_path / "mine")
    monkeypatch.delenv(variable)
    caches.redirect(library)
    assert Path(os.environ[variable]).parent == caches.temporary()
    monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    caches.redirect(library)
    assert variable not in os.environ


def test_downloads_are_kept_in_a_temporary_folder_and_found_there(caplog, monkeypatch):
    monkeypatch.delenv("CPMS_DATA", raising=False)
    folder = datasets._downloads(caches.own_temporary)
    assert folder.parent == caches.own_temporary()
    folder.mkdir()
    (folder / "wiki-Vote.mtx").touch()
    assert datasets.locate("wiki-Vote") == folder / "wiki-Vote.mtx"
    assert caplog.record_tuples == []


def test_numba_is_loaded_by_one_module_and_what_it_loads_after_its_checks():
    package = Path(jit.__file__).parents[1]
    texts = {path.name: path.read_text() for path in package.rglob("*.py")}
    loading = {
        name
        for name, text in texts.items()
        if any(line.split()[:2] in (["import", "numba"], ["from", "numba"]) for line in text.splitlines())
        or "from numba." in text
    }
    assert loading == {"jit.py", "pipelines.py"}
    assert {name for name, text in texts.items() if "compilation.pipelines" in text} == {"jit.py"}
    assert texts["jit.py"].index("\n_check_threads()") < texts["jit.py"].index("import LinkedCompiler")
