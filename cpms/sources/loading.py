"""`cpms.load`: a graph from a file, by name, or from a generator's specification."""

from __future__ import annotations

import difflib
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cpms.base.errors import InputError
from cpms.base.text.iterations import work_shown
from cpms.base.text.keywords import checked_keywords
from cpms.base.validation import described
from cpms.graph.edge_list import Read, graph_of_read
from cpms.graph.graph import Duplicates, Graph, SelfLoops
from cpms.sources import datasets, readers
from cpms.sources.in_memory import edges_of
from cpms.sources.readers.assemble import apply_options
from cpms.sources.readers.options import Columns, Header, Ids, ReadOptions, Symmetric, Weights, ZeroWeights


@checked_keywords
def load(
    source: str | os.PathLike[str] | Any,
    *,
    symmetric: Symmetric = "lower",
    duplicates: Duplicates = "keep",
    self_loops: SelfLoops = "keep",
    weights: Weights = "auto",
    zero_weights: ZeroWeights = "refuse",
    ids: Ids = "keep",
    columns: Columns = None,
    header: Header = "auto",
    comments: str = "auto",
    delimiter: str = "auto",
    progress: bool = False,
) -> Graph:
    r"""Load a graph.

    Parameters
    ----------
    source : str, path or object
        A file of a kind that its ending shows (`cpms.sources.readers.kinds`), a pipe, or ``"-"`` (standard input); the
        name of a data set (`cpms.sources.datasets.catalogue`); or a generator such as ``"rmat:scale=16,seed=1"``; in
        this order. Or an object in memory, as `cpms.sources.in_memory.graph_of` takes it: a data frame of pandas or
        Polars, a tuple of sources, targets and perhaps weights, a sparse matrix of SciPy, a graph of NetworkX.
    symmetric : {"lower", "expand"}
        Matrix Market files that declare themselves symmetric: the stored lower triangle alone, as in the CPMS paper, or
        both directions of every entry, the diagonal once. Edge lists: edges as they are, or both directions of each,
        self-loops once.
    duplicates : {"keep", "drop", "sum"}
        Repeated edges: keep each, keep the first, or add up their weights.
    self_loops : {"keep", "drop"}
        Edges from a node to itself.
    weights : {"auto", "ignore"}
        Use the values of a file that has them, or its pattern alone.
    zero_weights : {"refuse", "drop"}
        Entries of weight 0: an error, or no edges.
    ids : {"keep", "compact"}
        Nodes are all ids up to the largest, or only those that an edge touches, which keep their ids as names; ids
        below 2**63 are possible then.
    columns : str or sequence of str and int, optional
        Columns of an edge list or a frame that hold source, target and perhaps weight, by title or by number from 1:
        ``"source,target"``, ``"1,3"`` or ``["from", "to", "kg"]``. Others are not read. By default the first two, and a
        third as weights.
    header : {"auto", "yes", "no"}
        Whether the first line of an edge list holds titles.
    comments : str
        Mark with which comment lines of an edge list begin, or ``"none"``. By default ``#``, ``%`` and ``//`` mark
        comments, unless the line may be an edge.
    delimiter : str
        What separates the fields of an edge list: ``"tab"``, ``"comma"``, ``"space"`` (any run of blanks and tabs),
        ``"semicolon"`` or another character.
    progress : bool
        From two seconds on, show on standard error, if that is a terminal, what is being read, generated or built, and
        the time that is left.

    Returns
    -------
    Graph
        Its node ids are those of the file: from 1 for Matrix Market, from 0 for numbered edge lists, names where the
        file has names. Its ``read`` is a record of what was read.

    Raises
    ------
    InputError
        If there is no such source, or the file is wrong or can be understood in more than one way; with file and line
        or byte, and the option that settles it.

    Notes
    -----
    What is ``"auto"`` is decided where the evidence is on one side. A first line holds titles if numbers
    are below it and none in it, if numbers below it are weights and it has a word there, or if it is a
    known pair such as ``follower,followee`` that no name below is like. It is an edge if one of its names
    is in another edge. The file is refused in all other cases.

    Examples
    --------
    >>> import cpms, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "triangle.txt"
    >>> _ = file.write_text("# a cycle\n0 1\n1 2\n2 0\n")
    >>> cpms.load(file).edges
    3
    >>> _ = file.write_text("id|buyer|seller\n7|ann|bob\n8|bob|cid\n")
    >>> cpms.load(file, columns="buyer,seller", delimiter="|").node_id(0)
    'ann'
    """
    options = ReadOptions(
        symmetric=symmetric,
        duplicates=duplicates,
        self_loops=self_loops,
        weights=weights,
        zero_weights=zero_weights,
        ids=ids,
        columns=columns,
        header=header,
        comments=comments,
        delimiter=delimiter,
        progress=progress,
    )
    with work_shown("cpms.load") if progress else nullcontext():
        return graph_of_read(read(source, options))


def read(source: str | os.PathLike[str] | Any, options: ReadOptions) -> Read:
    """Return the edges that `load` would make a graph of, or the graph that a source has already.

    Raises
    ------
    InputError
        As `load` does.

    Examples
    --------
    >>> read(([0, 1], [1, 0]), ReadOptions()).targets
    array([1, 0])
    """
    try:
        text = os.fsdecode(source)
    except (TypeError, UnicodeError):
        if (found := edges_of(source, options)) is not None:
            return found
        raise InputError(
            f"source is {described(source)}; give the path of a file, a name, a generator, a data frame, a tuple of "
            "sources and targets, or a graph of SciPy or NetworkX"
        ) from None
    if readers.is_file(text) or readers.is_pipe(text):
        return readers.read_edges(text, options)
    if isinstance(source, str):
        if text in datasets.DATASETS or datasets.locate(text):
            return datasets.read_with(text, options)
        if _is_generator(text):
            from cpms.sources import generators

            options.refuse_form(text)
            return apply_options(generators.generate(text), options)
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


def is_missing(source: str) -> bool:
    """Return whether a name can only be that of a file, and there is none.

    Examples
    --------
    >>> is_missing("atlantis.csv"), is_missing("rmat:scale=4"), is_missing("wiki-Vote")
    (True, False, False)
    """
    is_there = os.path.exists(source)  # noqa: PTH110 - as in `_unknown`
    if is_there or source in datasets.DATASETS or _is_generator(source):
        return False
    return datasets.locate(source) is None


def _is_generator(text: str) -> bool:
    if ":" in text:
        return True
    from cpms.sources import generators

    return text in generators.names()


def _unknown(text: str) -> InputError:
    if os.path.isdir(text):  # noqa: PTH112 - a Path raises errors for some names that no file can have
        return InputError(f"{text} is a folder; give a file, or set CPMS_DATA to it and give a name")
    if os.path.exists(text):  # noqa: PTH110 - as above
        return InputError(f"{text}: is a device, not a file or a pipe; write its bytes into a file, and give that")
    if readers.module_for(Path(text)) or os.sep in text:
        return InputError(f"{text}: there is no such file")
    shown = repr(text if len(text) <= 80 else text[:77] + "...")
    near = difflib.get_close_matches(text, datasets.DATASETS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else "'cpms datasets' lists the names"
    return InputError(
        f"{shown} is no file, no data set and no generator; {hint}; "
        "files have an ending such as .mtx, .txt, .csv or .npz; generators look like rmat:scale=16"
    )
