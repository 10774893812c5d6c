"""Files to graphs, one format a file.

A reader is a module with ``read(path: Path, options: ReadOptions) -> Graph`` that raises nothing
but `cpms.CpmsError`, whatever the bytes; a new format is such a module and a line in `MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cpms.base.errors import InputError
from cpms.sources.readers.options import ReadOptions as ReadOptions

if TYPE_CHECKING:
    from cpms.graph.graph import Graph

EDGE_LISTS = "edge_lists.reader"
MODULES = {
    ".mtx": "matrix_market",
    ".mtx.gz": "matrix_market",
    ".tar.gz": "archive",
    ".tgz": "archive",
    ".npz": "npz",
    **{suffix + gz: EDGE_LISTS for suffix in (".txt", ".el", ".csv", ".tsv") for gz in ("", ".gz")},
}


def module_for(path: Path) -> str | None:
    """Return the name of the module that reads files named like ``path``, None if none does.

    Examples
    --------
    >>> module_for(Path("web-Google.tar.gz"))
    'archive'
    """
    name = path.name.lower()
    return next((module for suffix, module in MODULES.items() if name.endswith(suffix)), None)


def is_file(path: Path | str) -> bool:
    r"""Return whether there is a file of that name; False for names that no file can have.

    Examples
    --------
    >>> is_file("no\0such")
    False
    """
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def read(path: Path | str, options: ReadOptions | None = None) -> Graph:
    """Read a graph from a file; the ending of its name decides the format.

    Parameters
    ----------
    path : Path or str
        A file whose name ends as one of `MODULES` does.
    options : ReadOptions, optional
        What to do with symmetry, values, repeated edges, self-loops and ids; of an edge list, its form.

    Raises
    ------
    InputError
        If the ending is unknown, or the file is unreadable, wrong or too large for the memory at
        hand, or ``options`` describe the form of an edge list where the file is none; the text names
        the file and the line or byte.
    """
    path = Path(path)
    module = module_for(path)
    if module is None:
        raise InputError(f"{path}: unknown kind of file; its name can end in {', '.join(MODULES)}")
    if not is_file(path):
        raise InputError(f"{path}: there is no such file")
    options = options or ReadOptions()
    if module != "edge_lists.reader":
        options.refuse_form(str(path))
    try:
        graph: Graph = import_module(f"cpms.sources.readers.{module}").read(path, options)
    except MemoryError as error:
        raise InputError(f"{path}: its graph does not fit into the memory of this process; use more") from error
    return graph
