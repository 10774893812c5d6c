"""Cache folders of libraries: the user's own, or a private temporary one if those cannot be written.

Containers often have a read-only installation and a read-only home folder. Numba, CuPy, PyOpenCL and Matplotlib write
caches to the home folder, and most of them fail if it is read-only. A cache holds code, so a temporary one must belong
to the user alone. Each folder is checked once a process.
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


def is_writable(folder: Path) -> bool:
    """Return whether a folder is writable, or can be created if it does not exist yet.

    Examples
    --------
    >>> is_writable(Path(tempfile.gettempdir()) / "new" / "folder"), is_writable(Path("~/of/nobody"))
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
    """Return a temporary folder that no other user can write to; None if none can be created.

    Its name is the same in all processes of a user, since its content takes seconds to compile. Caches are code: if a
    folder of that name belongs to another user, or others may write to it, a new folder is created, which is removed
    when this process ends.
    """
    try:
        return _private_folder(Path(tempfile.gettempdir()))
    except OSError:
        return None


@cache
def temporary() -> Path | None:
    """Return `own_temporary`, and log once that it replaces folders that cannot be written."""
    folder = own_temporary()
    if folder is None:
        _log.warning("cpms: warning: no folder takes files, not even a temporary one; each process compiles anew")
    else:
        _log.warning("cpms: warning: caches are kept in %s; set HOME to a folder that takes files for another", folder)
    return folder


def _private_folder(parent: Path) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = parent / f"cpms-{user}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not stat.S_IMODE(found.st_mode) & 0o077
    if private and is_writable(folder):
        return folder
    made = Path(tempfile.mkdtemp(prefix="cpms-", dir=parent))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def redirect(library: str) -> None:
    """Set a library's cache folder to the temporary one if its own folders cannot be written; call before its import.

    Libraries read the folder from an environment variable, and default to one in the home folder.

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
    if not all(map(is_writable, [Path(given)] if given else defaults)) and (instead := temporary()):
        os.environ[variable] = str(instead / library)
    if library == "pyopencl" and not is_writable(caches):
        os.environ["PYOPENCL_NO_CACHE"] = "1"
