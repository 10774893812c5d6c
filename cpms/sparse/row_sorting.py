"""Stable sorting of rows by length within blocks, and of entries in layouts that interleave rows.

The blocks are the sorting windows of SELL-C-sigma (Kreutzer et al., SIAM J. Sci. Comput. 36, 2014). Sorting within
blocks rather than globally keeps the locality of the numbering. Lengths of 16 bits are radix-sorted by NumPy, in
threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.graph.graph import Graph

Ints = npt.NDArray[Any]


def order_in_blocks(numbers: npt.NDArray[Any], block: int) -> npt.NDArray[np.uint16]:
    """Return the order of the numbers of each block, smallest first and stable, as indices within the block.

    Parameters
    ----------
    numbers : ndarray of integers, shape (n,)
        At least 0.
    block : int
        At most 65,536.

    Returns
    -------
    ndarray of uint16, shape (n,)

    Examples
    --------
    >>> order_in_blocks(np.array([3, 1, 1, 0, 2]), 4).tolist()
    [3, 1, 2, 0, 0]
    """
    # NumPy has a radix sort for 16 bits alone.
    keys = numbers.astype(np.uint16) if numbers.max(initial=0) <= np.iinfo(np.uint16).max else numbers
    order, whole = np.empty(len(keys), np.uint16), len(keys) // block

    def sort(blocks: tuple[int, int]) -> None:
        here = slice(blocks[0] * block, blocks[1] * block)
        order[here] = np.argsort(keys[here].reshape(-1, block), axis=1, kind="stable").ravel()

    threads.each(sort, threads.ranges(whole, at_least=16, parts=64))
    order[whole * block :] = np.argsort(keys[whole * block :], kind="stable")
    return order


def interleaved(graph: Graph, rows: Ints, cuts: Ints, group: int) -> Ints:
    """Return the places in the graph's CSR of all entries, in the order of a layout that interleaves rows.

    In sliced rows and in jagged diagonals the entries of a group of rows come column by column up to a cut, and then
    row by row. A stable sort by group, by the smaller of column and cut, and by the row's place in its group puts them
    so, in O(edges log edges) time; the layouts' compiled loops make the same order faster.

    Parameters
    ----------
    graph : Graph
    rows : ndarray of integers, shape (nodes,)
        The rows in the order of the layout; each ``group`` consecutive ones are a group.
    cuts : ndarray of int64, shape (groups,)
        The columns of each group that are interleaved.
    group : int

    Examples
    --------
    >>> graph = Graph.from_edges([0, 1, 0, 1, 2], [0, 0, 1, 1, 1])
    >>> interleaved(graph, np.array([0, 1, 2]), np.array([1, 0]), 2).tolist()
    [0, 2, 1, 3, 4]
    """
    place = np.empty(graph.nodes, np.int64)
    place[rows] = np.arange(graph.nodes)
    targets = graph.targets
    columns, places = np.arange(graph.edges) - graph.indptr[targets], place[targets]
    of_group = places // group
    keys = (of_group * (int(cuts.max(initial=0)) + 1) + np.minimum(columns, cuts[of_group])) * group + places % group
    return np.argsort(keys, kind="stable")
