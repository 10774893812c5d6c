"""Edges of objects in memory: frames, pairs of columns, SciPy's matrices, NetworkX's graphs.

The libraries are known by the methods of their objects and are not imported for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.validation import consistent
from cpms.graph.edge_list import EdgeList, Read, graph_of_read
from cpms.graph.graph import Graph
from cpms.sources.readers.assemble import apply_options
from cpms.sources.readers.options import ReadOptions


def graph_of(given: Any) -> Graph | None:
    """Return the graph that an object is or holds, as `edges_of` reads it; None if it is of no known kind.

    Examples
    --------
    >>> graph_of(([0, 1], [1, 0])).edges, graph_of(3)
    (2, None)
    """
    found = edges_of(given)
    return None if found is None else graph_of_read(found)


def edges_of(given: Any, options: ReadOptions | None = None) -> Read | None:
    """Return the edges that an object holds, or the graph that it is; None if it is of no known kind.

    Parameters
    ----------
    given : object
        A `Graph`; a data frame of pandas or Polars, or a table of Arrow; a tuple of sources, targets and perhaps
        weights; a square sparse matrix of SciPy, whose entry (i, j) is the edge i -> j; a graph of NetworkX.
    options : ReadOptions, optional

    Raises
    ------
    InputError
        If it is of a known kind, but no graph.

    Examples
    --------
    >>> edges_of(([0, 1], [1, 0])).nodes, edges_of(3)
    (2, None)
    """
    options = options or ReadOptions()
    if isinstance(given, Graph):
        options.refuse_form(given.name)
        return apply_options(given, options)
    if isinstance(given, tuple):
        from cpms.sources.readers.frames import from_columns

        return from_columns(given, options)
    if hasattr(given, "iloc") or hasattr(given, "__arrow_c_stream__"):
        from cpms.sources.readers.frames import from_frame

        return from_frame(given, options)
    if hasattr(given, "tocoo"):
        options.refuse_form("the matrix")
        return _from_scipy(given, options)
    if hasattr(given, "to_directed") and hasattr(given, "is_multigraph"):
        from cpms.sources.readers.graph_files.by_networkx import from_networkx

        options.refuse_form("the graph")
        name = str(getattr(given, "name", "") or "graph")
        return from_networkx(given, name, "the graph", options, form="NetworkX graph")
    return None


def _from_scipy(given: Any, options: ReadOptions) -> EdgeList:
    from cpms.sources.readers.scipy_npz import from_scipy_arrays

    found = consistent(given).tocoo()
    if len(found.shape) != 2:
        raise InputError(f"the matrix has shape {found.shape}; a graph needs a square one")
    arrays = {"format": np.array([b"coo"]), "shape": np.array(found.shape), "data": found.data}
    edges = from_scipy_arrays(arrays | {"row": found.row, "col": found.col}, "graph", options)
    return replace(edges, label="the matrix")
