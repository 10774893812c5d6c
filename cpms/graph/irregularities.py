"""What is kept of an edge list that its author may not expect: repeated edges, self-loops, ids without an edge."""

from __future__ import annotations

import numpy as np

from cpms.base.text.counted import counted
from cpms.graph import csr_build
from cpms.graph.graph import Graph

_MOST_EDGES = 1 << 22
"""Edges of the largest graph whose edges are looked at; a solve of a larger one may take less time than the look."""


def irregularities(graph: Graph) -> str:
    """Return the numbers of repeated edges, of self-loops and of nodes without an edge in words; empty without any.

    The edges of a graph with more than 2**22 of them are not looked at, and its text is empty.

    Examples
    --------
    >>> irregularities(Graph.from_edges([1, 1, 2], [2, 2, 2]))
    '1 repeated edge and 1 self-loop kept; 1 id without an edge, which --ids compact leaves out'
    >>> irregularities(Graph.from_edges([0, 1], [1, 0]))
    ''
    """
    if graph.edges > _MOST_EDGES:
        return ""
    edges = csr_build.Compressed(graph.indptr, graph.sources, None)
    repeated, loops = (int(np.count_nonzero(mark(edges))) for mark in (csr_build.is_duplicate, csr_build.is_self_loop))
    alone = int(np.count_nonzero((graph.in_degree == 0) & (graph.out_degree == 0)))
    kept = " and ".join(
        counted(count, noun) for count, noun in ((repeated, "repeated edge"), (loops, "self-loop")) if count
    )
    without = f"{counted(alone, 'id')} without an edge, which --ids compact leaves out" if alone else ""
    return "; ".join(filter(None, [f"{kept} kept" if kept else "", without]))
