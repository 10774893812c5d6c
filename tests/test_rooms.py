"""Rooms that programs run in: read-only installations, no home, little memory, interrupts, closed streams."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cpms
from cpms.base.errors import InputError
from cpms.cli import main
from cpms.sources import readers
from cpms.sources.readers import npz

CACHES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR")
PACKAGE = Path(cpms.__file__).parent
posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def command(*arguments, prefix=(), site=None, module="cpms", **variables):
    path = os.pathsep.join(filter(None, [str(site or PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    given = {name: str(value) for name, value in variables.items()}
    inherited = {name: value for name, value in os.environ.items() if name not in CACHES or name in given}
    return subprocess.run(
        [*prefix, sys.executable, "-P", "-m", module, *map(str, arguments)],
        env={**inherited, "PYTHONPATH": path, **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def refused(done, code):
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert done.stderr.startswith("cpms: error: ")
    return done.stderr


@pytest.fixture
def room(tmp_path):
    """Install what a wheel holds into a folder that takes no files, as the home folder beside it."""
    prefix = []
    if os.name != "posix":
        pytest.skip("needs a POSIX system")
    if os.geteuid() == 0:  # Permission bits bind root only without its capabilities.
        prefix = ["setpriv", "--bounding-set=-all"]
        if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"], check=False).returncode:
            pytest.skip("root's capabilities cannot be dropped here")
    site, home, work, temporary = (tmp_path / name for name in ("site", "home", "work", "tmp"))
    shutil.copytree(PACKAGE, site / "cpms", ignore=shutil.ignore_patterns("__pycache__", "_shipped"))
    for name in ("kernels", "experiments"):
        skipped = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(PACKAGE.parent / name, site / "cpms" / "_shipped" / name, ignore=skipped)
    for folder in (home, work, temporary):
        folder.mkdir()
    closed = [home, site, *(path for path in site.rglob("*") if path.is_dir())]
    for folder in closed:
        folder.chmod(0o555)
    if subprocess.run([*prefix, "touch", home / "x"], check=False, capture_output=True).returncode == 0:
        pytest.skip("permission bits do not bind here")
    # An empty name of a folder is none, and a backend of Matplotlib that is not there must not matter.
    yield {"prefix": prefix, "site": site, "HOME": home, "TMPDIR": temporary, "MPLBACKEND": "x", "XDG_CACHE_HOME": ""}
    for folder in closed:
        folder.chmod(0o755)


@pytest.fixture
def kept(room):
    """Where caches lie that no other folder takes, and the warning that says so."""
    folder = room["TMPDIR"] / f"cpms-{os.getuid()}"
    return folder, f"cpms: warning: caches are kept in {folder}; set HOME to a folder that takes files for another\n"


from_sources = pytest.mark.skipif(not (PACKAGE.parent / "kernels").is_dir(), reason="cpms is not run from its sources")


@from_sources
def test_a_read_only_installation_without_a_home_ranks(room, kept):
    caches, warning = kept
    ranked = command("rank", "uniform:nodes=20,edges=40", **room)
    assert (ranked.returncode, ranked.stderr) == (0, warning)
    assert list(caches.rglob("*.nbc"))


@pytest.mark.slow
@from_sources
def test_a_read_only_installation_without_a_home_does_the_work_of_the_first_command(room, kept, tmp_path):
    out = tmp_path / "work" / "out"
    caches, warning = kept
    ran = command("run", "quickstart", "--only", "fp64", "--output", out, **room)
    assert (ran.returncode, ran.stderr) == (0, warning)
    assert list(caches.rglob("*.nbc"))
    shown = command("show", "quickstart", "--results", out, "--output", out, **room)
    assert (shown.returncode, shown.stderr) == (0, warning)
    assert (out / "quickstart.png").stat().st_size > 0


RANKS = {"cpms": ["rank"], "cpms.mpi": []}
"""Programs that rank a graph, and what of their arguments comes before it."""


@pytest.mark.parametrize(
    ("module", "count"), [*(("cpms", count) for count in ("0", "-1", "abc", "")), ("cpms.mpi", "0")]
)
def test_a_count_of_threads_that_numba_refuses_is_named(module, count):
    done = command(*RANKS[module], "grid:rows=2,columns=2", module=module, NUMBA_NUM_THREADS=count)
    assert "NUMBA_NUM_THREADS" in refused(done, 2)


@posix
@pytest.mark.parametrize("mebibytes", [60, 300])
def test_too_small_an_address_space_is_refused_before_libraries_crash_in_it(mebibytes):
    limited = ["sh", "-c", f'ulimit -v {mebibytes * 1024} && exec "$@"', "sh"]
    assert f"may address {mebibytes} MiB" in refused(command("rank", "grid:rows=2,columns=2", prefix=limited), 3)


LOADING = {
    "interrupts": ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", 130),
    "swallows": (
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n"
        "    raise ImportError('it failed to load') from None\n",
        130,
    ),
    "is broken": ("raise ImportError('of no use')\n", 3),
    "takes much": ("raise MemoryError\n", 2),
}


@posix
@pytest.mark.parametrize(
    ("module", "case"),
    [
        *(("cpms", case) for case in LOADING),
        *(pytest.param("cpms.mpi", case, marks=[pytest.mark.slow] if case != "swallows" else []) for case in LOADING),
    ],
)
def test_what_happens_while_a_library_loads_is_one_line_at_most(tmp_path, case, module):
    program, code = LOADING[case]
    (tmp_path / "numba.py").write_text(program)
    path = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
    done = command(*RANKS[module], "grid:rows=2,columns=2", site=path, module=module)
    if code == 130:
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    else:
        refused(done, code)


def test_main_leaves_the_handler_of_interrupts_as_it_was(capsys):
    before = signal.getsignal(signal.SIGINT)
    assert main.main(["formats"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


@posix
@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full", ">/dev/full 2>/dev/full"])
@pytest.mark.parametrize(("arguments", "code"), [(["inspect", "0.1"], 0), (["inspect", "tenth"], 2)])
def test_errors_that_cannot_be_printed_leave_the_exit_code(redirected, arguments, code):
    if "full" in redirected and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = command(*arguments, prefix=["sh", "-c", f'exec "$@" {redirected}', "sh"])
    assert done.returncode == (2 if redirected.startswith(">") else code)


def test_memory_that_a_file_needs_and_that_is_not_there_is_no_corrupt_file(tmp_path, monkeypatch):
    path = tmp_path / "graph.npz"
    npz.save_npz(cpms.Graph.from_edges([0, 1], [1, 0]), path)

    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(npz, "stored_array", exhausted)
    with pytest.raises(InputError, match=r"graph\.npz: its graph does not fit into the memory"):
        readers.read(path)
