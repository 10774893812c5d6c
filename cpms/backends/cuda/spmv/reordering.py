"""Another order of the nodes in device memory, where gathers gain from it.

Where few nodes carry most edges, as in R-MAT graphs, their values share cache lines once nodes are
ordered by out-degree. Web graphs in crawl order lose by it: their neighbours are near already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays.access_sampling import distinct
from cpms.backends.cuda.runtime.current import current
from cpms.graph.graph import Graph

_WINDOWS = 16
_WINDOW_EDGES = 1 << 15
"""Edges in a sample: about what the warps of one multiprocessor gather while a line stays in its cache."""
_SECTOR_VALUES = 4
_LEAST_EDGES = 1 << 20
_MOST_SECTORS = 0.85
"""Share of the sectors touched in the given order up to which another order is taken."""


@dataclass(frozen=True, eq=False)
class Numbering:
    """Where nodes lie.

    Parameters
    ----------
    order : device array of uint32, shape (nodes,)
        The node in each place.
    place : device array of uint32, shape (nodes,)
        The place of each node.
    """

    order: Any
    place: Any

    @classmethod
    def of_order(cls, order: Any) -> Numbering:
        """Return the numbering in which nodes lie in this order, a device array of any integers."""
        arrays, order = current().arrays, order.astype(np.uint32, copy=False)
        place = arrays.empty(len(order), np.uint32)
        place[order] = arrays.arange(len(order), dtype=np.uint32)
        return cls(order, place)


def chosen(graph: Graph, degree: Any) -> Numbering | None:
    """Return the order by out-degree if samples of the edges touch far fewer sectors in it, else None.

    Parameters
    ----------
    graph : Graph
    degree : device array of uint32, shape (nodes,)
        Out-degrees.
    """
    if graph.edges < _LEAST_EDGES:
        return None
    arrays, upload = current().arrays, current().upload
    if not _skewed(degree, graph.edges):
        return None
    # 16-bit keys are sorted by their digits.
    key = (65535 - arrays.minimum(degree, 65535)).astype(np.uint16)
    candidate = Numbering.of_order(arrays.argsort(key, kind="stable"))
    begins = np.linspace(0, graph.edges - _WINDOW_EDGES, _WINDOWS).astype(np.int64)
    sources = upload(np.stack([graph.sources[begin : begin + _WINDOW_EDGES] for begin in begins]).view(np.uint32))
    per_sector = np.uint32(_SECTOR_VALUES)
    given, reordered = (distinct(nodes // per_sector) for nodes in (sources, candidate.place[sources]))
    return candidate if reordered <= _MOST_SECTORS * given else None


def _skewed(degree: Any, edges: int) -> bool:
    """Whether a third of the edges leave nodes of eight times the mean out-degree."""
    of_many = current().arrays.where(degree * float(len(degree)) > 8.0 * edges, degree, np.uint32(0))
    return int(of_many.sum(dtype=np.int64)) > edges // 3
