"""Degree reordering: nodes in device memory sorted by out-degree, where gathers become more local.

Where few nodes have most edges, as in R-MAT graphs, their values share cache lines after sorting (hub sorting; Balaji
and Lucia, IISWC 2018). Web graphs in crawl order lose locality: their neighbours are near already. So samples of the
edges decide, at the cost of one sort of the nodes and a few windows of edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays.access_sampling import mean_distinct
from cpms.backends.cuda.runtime.current import current
from cpms.graph.graph import Graph

_WINDOWS = 16
_WINDOW_EDGES = 1 << 15
"""Edges in a sample: about as many as a multiprocessor's warps gather before its cache evicts a line."""
_SECTOR_VALUES = 4
_MIN_EDGES = 1 << 20
_MAX_SECTORS = 0.85
"""Largest ratio of sectors touched, reordered over given, at which the nodes are reordered."""


@dataclass(frozen=True, eq=False)
class Reordering:
    """A permutation of the nodes.

    Parameters
    ----------
    order : device array of uint32, shape (nodes,)
        The node at each position.
    position : device array of uint32, shape (nodes,)
        The position of each node.
    """

    order: Any
    position: Any

    @classmethod
    def of_order(cls, order: Any) -> Reordering:
        """Return the permutation of this order of nodes, a device array of any integers."""
        arrays, order = current().arrays, order.astype(np.uint32, copy=False)
        position = arrays.empty(len(order), np.uint32)
        position[order] = arrays.arange(len(order), dtype=np.uint32)
        return cls(order, position)


def chosen(graph: Graph, degree: Any) -> Reordering | None:
    """Return the order by out-degree if samples of the edges touch far fewer sectors in it, else None.

    Parameters
    ----------
    graph : Graph
    degree : device array of uint32, shape (nodes,)
        Out-degrees.
    """
    if graph.edges < _MIN_EDGES:
        return None
    arrays, upload = current().arrays, current().upload
    if not _skewed(degree, graph.edges):
        return None
    # 16-bit keys are sorted by their digits.
    key = (65535 - arrays.minimum(degree, 65535)).astype(np.uint16)
    candidate = Reordering.of_order(arrays.argsort(key, kind="stable"))
    begins = np.linspace(0, graph.edges - _WINDOW_EDGES, _WINDOWS).astype(np.int64)
    if graph.device_arrays is None:
        sources = upload(np.stack([graph.sources[begin : begin + _WINDOW_EDGES] for begin in begins]).view(np.uint32))
    else:
        sources = graph.device_arrays.sources[arrays.asarray(begins[:, None] + np.arange(_WINDOW_EDGES))]
    per_sector = np.uint32(_SECTOR_VALUES)
    given, reordered = (mean_distinct(nodes // per_sector) for nodes in (sources, candidate.position[sources]))
    return candidate if reordered <= _MAX_SECTORS * given else None


def _skewed(degree: Any, edges: int) -> bool:
    """Return whether a third of the edges leave nodes of more than eight times the mean out-degree."""
    hub_degrees = current().arrays.where(degree * float(len(degree)) > 8.0 * edges, degree, np.uint32(0))
    return int(hub_degrees.sum(dtype=np.int64)) > edges // 3
