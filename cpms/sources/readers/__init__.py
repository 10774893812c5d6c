"""Files to graphs, one format a file.

A reader is a module with ``read(path: Path, options: ReadOptions) -> Read``, or for text, which may be compressed, with
``read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList``, which reads a stream to its end. ``name``
is what the graph is called; ``options`` are the choices of `cpms.load`, and each reader says which of them do not
matter and where ids of its files begin. It raises nothing but `cpms.CpmsError`, whatever the bytes, with file and line
or byte. A new format is such a module and a line in `cpms.sources.readers.kinds`.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cpms.base.errors import InputError
from cpms.graph.edge_list import graph_of_read
from cpms.sources.readers.kinds import EDGE_LISTS as EDGE_LISTS
from cpms.sources.readers.kinds import ENDINGS as ENDINGS
from cpms.sources.readers.kinds import KONECT, TEXTS, stem_of
from cpms.sources.readers.kinds import MODULES as MODULES
from cpms.sources.readers.kinds import module_for as module_for
from cpms.sources.readers.options import ReadOptions as ReadOptions
from cpms.sources.readers.stream import Stream, open_stream
from cpms.sources.readers.stream import is_pipe as is_pipe

if TYPE_CHECKING:
    from cpms.graph.edge_list import Read
    from cpms.graph.graph import Graph

TEXT_MODULES = {*TEXTS.values(), KONECT}
"""Modules that read a stream of text."""
HAVE_COLUMNS = (EDGE_LISTS, "frames", "zipped")
"""Modules whose files may be edge lists, or tables of edges."""
_BANNER = b"%%matrixmarket"


def is_file(path: Path | str) -> bool:
    r"""Return whether there is a file of that name; False for names that no file can have.

    Examples
    --------
    >>> is_file("no\0such")
    False
    """
    return os.path.isfile(path)  # noqa: PTH113 - a Path raises errors for some of these names


def read(path: Path | str, options: ReadOptions | None = None) -> Graph:
    """Read a graph from a file, as `read_edges` does, into main memory."""
    return graph_of_read(read_edges(path, options))


def read_edges(path: Path | str, options: ReadOptions | None = None) -> Read:
    """Read the edges of a graph from a file; the ending of its name decides the format.

    Parameters
    ----------
    path : Path or str
        A file whose name ends as one of `MODULES` does, a pipe, or ``-`` for standard input.
    options : ReadOptions, optional
        What to do with symmetry, values, repeated edges, self-loops and ids; of an edge list, its form.

    Raises
    ------
    InputError
        If the ending is unknown, or the file is unreadable, wrong or too large for the memory at hand, or ``options``
        describe the form of an edge list where the file is none; the text names the file and the line or byte.
    """
    path = Path(path)
    options = options or ReadOptions()
    try:
        if is_pipe(path):
            return _read_pipe(path, options)
        module = module_for(path)
        if module is None:
            own = "; a generator of your own is named file.py:function" if path.suffix == ".py" else ""
            raise InputError(f"{path}: unknown kind of file; its name can end in {ENDINGS}{own}")
        if not is_file(path):
            raise InputError(f"{path}: there is no such file")
        if module not in HAVE_COLUMNS:
            options.refuse_form(str(path))
        if module in TEXT_MODULES:
            with open_stream(path) as stream:
                return read_text(module, stream, stem_of(path), options)
        found: Read = import_module(f"cpms.sources.readers.{module}").read(path, options)
    except MemoryError as error:
        raise InputError(f"{path}: its graph does not fit into the memory of this process; use more") from error
    return found


def read_text(module: str, stream: Stream, name: str, options: ReadOptions) -> Read:
    """Read a stream with the module for its kind of text."""
    found: Read = import_module(f"cpms.sources.readers.{module}").read_stream(stream, name, options)
    return found


def _read_pipe(path: Path, options: ReadOptions) -> Read:
    """Read standard input or a pipe: a Matrix Market file by its first line, else an edge list."""
    with open_stream(path) as stream:
        stream.keep()
        stream.skip_byte_order_mark()
        is_matrix = stream.read(len(_BANNER)).lower() == _BANNER
        stream.begin_again()
        module = module_for(path) or ("matrix_market" if is_matrix else EDGE_LISTS)
        if module not in TEXT_MODULES:
            raise InputError(f"{stream.label}: files of this kind are not read from pipes; write it into a file")
        if module != EDGE_LISTS:
            options.refuse_form(stream.label)
        name = "stdin" if str(path) == "-" else stem_of(path)
        return read_text(module, stream, name, options)
