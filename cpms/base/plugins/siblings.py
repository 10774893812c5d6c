"""Modules that lie beside the file of a plug-in: it can import them while it is loaded, as a script could."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let the modules of a folder be imported within the block, after those of ``sys.path``.

    ``sys.path`` is as before afterwards. So are the modules that the process knows: plug-ins of two folders may each
    have a module of the same name.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()).resolve()
    >>> _ = (folder / "a_sibling.py").write_text("X = 3")
    >>> with importable(folder):
    ...     import a_sibling
    >>> a_sibling.X, "a_sibling" in sys.modules, str(folder) in sys.path
    (3, False, False)
    """
    if any(Path(entry).resolve() == folder for entry in sys.path):
        yield
        return
    before, entry = set(sys.modules), str(folder)
    sys.path.append(entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(entry)
        found = {name for name in sys.modules.keys() - before if _lies_in(folder, name)}
        for name in [name for name in sys.modules if name.partition(".")[0] in found]:
            del sys.modules[name]


def _lies_in(folder: Path, name: str) -> bool:
    file = Path(getattr(sys.modules[name], "__file__", None) or ".")
    home = file.parent if file.name == "__init__.py" else file
    return "." not in name and home.parent == folder and not name.startswith("cpms_plugin_")
