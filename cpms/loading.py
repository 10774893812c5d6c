"""`cpms.load`: a graph from a file, by name, or from a generator's specification."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from cpms import datasets, readers
from cpms.errors import InputError
from cpms.graph import Duplicates, Graph, SelfLoops
from cpms.readers.assemble import apply
from cpms.readers.options import Ids, ReadOptions, Symmetric, Weights
from cpms.scalars import described


def load(
    source: str | os.PathLike[str],
    *,
    symmetric: Symmetric = "lower",
    duplicates: Duplicates = "keep",
    self_loops: SelfLoops = "keep",
    weights: Weights = "auto",
    ids: Ids = "keep",
    progress: bool = False,
) -> Graph:
    r"""Load a graph.

    Parameters
    ----------
    source : str or path
        A file (``.mtx``, ``.mtx.gz``, SuiteSparse ``.tar.gz``, edge list ``.txt``, ``.el``,
        ``.csv``, ``.tsv``, each also ``.gz``, ``.npz``), the name of a data set
        (`cpms.datasets.catalogue`), or a generator such as ``"rmat:scale=16,seed=1"``; in this
        order.
    symmetric : {"lower", "expand"}
        Files that declare themselves symmetric: the stored lower triangle alone, as in the CPMS
        paper, or both directions of every entry, the diagonal once.
    duplicates : {"keep", "drop", "sum"}
        Repeated edges: keep each, keep the first, or add up their weights.
    self_loops : {"keep", "drop"}
        Edges from a node to itself.
    weights : {"auto", "ignore"}
        Use the values of a file that has them, or its pattern alone.
    ids : {"keep", "compact"}
        Nodes are all ids up to the largest, or only those that an edge touches, which keep their
        ids as names.
    progress : bool
        Show a progress bar on standard error if that is a terminal.

    Returns
    -------
    Graph
        Its node ids are those of the file: from 1 for Matrix Market, from 0 for numbered edge
        lists, names where the file has names.

    Raises
    ------
    InputError
        If there is no such source, or the file is wrong; with file and line or byte.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "triangle.txt"
    >>> _ = file.write_text("# a cycle\n0 1\n1 2\n2 0\n")
    >>> load(file).edges
    3
    """
    options = ReadOptions(
        symmetric=symmetric,
        duplicates=duplicates,
        self_loops=self_loops,
        weights=weights,
        ids=ids,
        progress=progress,
    )
    try:
        text = os.fsdecode(source)
    except (TypeError, UnicodeError):
        raise InputError(f"source is {described(source)}; give the path of a file, a name, or a generator") from None
    if readers.is_file(text):
        return readers.read(text, options)
    if isinstance(source, str):
        if text in datasets.DATASETS or datasets.locate(text):
            return datasets.load_with(text, options)
        if _is_generator(text):
            from cpms import generators

            return apply(generators.generate(text), options)
    raise _unknown(text)


def files_of(source: str) -> list[Path]:
    """Return the files that `load` would read: of a generator's specification, those that it names.

    Examples
    --------
    >>> files_of("rmat:scale=4,edge_factor=2")
    []
    """
    if readers.is_file(source):
        return [Path(source)]
    if (found := datasets.locate(source)) or source in datasets.DATASETS or ":" not in source:
        return [found] if found else []
    return [path for part in re.split(r"[:=,()]", source) if part for path in files_of(part)]


def _is_generator(text: str) -> bool:
    if ":" in text:
        return True
    from cpms import generators

    return text in generators.names()


def _is_folder(text: str) -> bool:
    try:
        return bool(text) and Path(text).is_dir()
    except (OSError, ValueError):
        return False


def _is_special(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _unknown(text: str) -> InputError:
    if _is_folder(text):
        return InputError(f"{text} is a folder; give a file, or set CPMS_DATA to it and give a name")
    if _is_special(text):
        return InputError(
            f"{text}: is a pipe or a device, which cannot be read twice; write it into a file, and give that"
        )
    if readers.module_for(Path(text)) or os.sep in text:
        return InputError(f"{text}: there is no such file")
    shown = repr(text if len(text) <= 80 else text[:77] + "...")
    near = difflib.get_close_matches(text, datasets.DATASETS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else "'cpms datasets' lists the names"
    return InputError(
        f"{shown} is no file, no data set and no generator; {hint}; "
        f"files end in {', '.join(readers.MODULES)}, generators look like rmat:scale=16"
    )
