"""Folders for what libraries compile and download: the user's own, else a temporary one.

Containers often have a read-only installation and a home folder that takes no files. Numba, CuPy, PyOpenCL and
Matplotlib keep files in the home folder, and most of them fail where they cannot.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

_log = logging.getLogger("cpms")


def takes_files(folder: Path) -> bool:
    """Return whether files can be written to a folder, which need not exist yet.

    Examples
    --------
    >>> takes_files(Path(tempfile.gettempdir()) / "new" / "folder"), takes_files(Path("~/of/nobody"))
    (True, False)
    """
    if folder.parts[:1] == ("~",):  # The home folder is not known.
        return False
    try:
        folder = folder.absolute()
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    except OSError:
        return False


@cache
def own_temporary() -> Path | None:
    """Return a temporary folder that no other user can write to; None if there is nowhere to have one.

    It keeps its name and content between processes, since what is in it takes seconds to compile. Caches are code: a
    folder of that name that belongs to somebody else, or that others may use, is left alone, and one made in its place
    that lasts as long as this process.
    """
    try:
        return _own(Path(tempfile.gettempdir()))
    except OSError:
        return None


@cache
def temporary() -> Path | None:
    """Return `own_temporary`, and log once that it takes the place of folders that take no files."""
    folder = own_temporary()
    if folder is None:
        _log.warning("cpms: warning: no folder takes files, not even a temporary one; each process compiles anew")
    else:
        _log.warning("cpms: warning: caches are kept in %s; set HOME to a folder that takes files for another", folder)
    return folder


def _own(parent: Path) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = parent / f"cpms-{user}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not stat.S_IMODE(found.st_mode) & 0o077
    if private and takes_files(folder):
        return folder
    made = Path(tempfile.mkdtemp(prefix="cpms-", dir=parent))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def redirect(library: str) -> None:
    """Let a library, loaded from now on, use the temporary folder in place of those of its own that take no files.

    Libraries look their folders up in a variable of the environment, and have others in the home folder by default.

    Parameters
    ----------
    library : {"matplotlib", "cupy", "pyopencl"}
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  # Path.home raises where there is none.
    caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    configurations = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    variable, defaults = {
        "matplotlib": ("MPLCONFIGDIR", [configurations, caches]),
        "cupy": ("CUPY_CACHE_DIR", [home / ".cupy"]),
        "pyopencl": ("POCL_CACHE_DIR", [caches]),
    }[library]
    given = os.environ.get(variable)
    if not all(map(takes_files, [Path(given)] if given else defaults)) and (instead := temporary()):
        os.environ[variable] = str(instead / library)
    if library == "pyopencl" and not takes_files(caches):
        os.environ["PYOPENCL_NO_CACHE"] = "1"
