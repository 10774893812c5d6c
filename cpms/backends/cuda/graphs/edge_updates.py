"""A graph in device memory after some of its edges are removed and others added.

The changes, few beside the edges, are sorted and checked in main memory; kernels find where they belong by binary
search and merge them into the rows, which reads and writes each stored edge once. See ``preprocess/edge_updates.cu``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.graphs.edge_list import DeviceArrays, require_countable
from cpms.backends.cuda.kernels.template import EDGE_UPDATES
from cpms.backends.cuda.runtime.current import current
from cpms.graph.edge_updates import Indices, located
from cpms.graph.graph import Graph
from cpms.storage.device import to_host

_FIND, _SHIFT_ROWS, _MERGE = EDGE_UPDATES
_ENTRIES_OF_A_THREAD = 32


def updated(
    graph: Graph, stored: DeviceArrays, added: Sequence[Any] | None, removed: Sequence[Any] | None
) -> DeviceArrays:
    """Return the changed arrays of a graph; parameters and errors are those of `DeviceGraph.with_edges`."""
    backend = current()
    backend.compile(EDGE_UPDATES)

    def bounds(sources: Indices, targets: Indices) -> tuple[Indices, Indices]:
        count = len(sources)
        if not count:
            return sources, targets
        ends = _uploaded(sources, targets)
        found = backend.arrays.empty((2, count), np.uint32)
        arguments = stored.indptr, stored.sources, *ends, np.uint32(count), found[0], found[1]
        backend.run(_FIND, backend.grid_size(count), arguments)
        first, after = backend.to_host(found).astype(np.int64)
        return first, after

    changes = located(graph, _in_main_memory(added), _in_main_memory(removed), bounds)
    edges = graph.edges - len(changes.gone) + len(changes.sources)
    require_countable(graph.name, graph.nodes, edges)
    with backend.memory_for(graph.name, 4 * edges + 8 * graph.nodes):
        indptr, sources = (backend.arrays.empty(length, np.uint32) for length in (graph.nodes + 1, edges))
        degree = stored.out_degree.copy()
    gone, before, new_sources, new_targets, old_targets = _uploaded(
        changes.gone, changes.before, changes.sources, changes.targets, changes.old_targets
    )
    added_count, removed_count = np.uint32(len(new_sources)), np.uint32(len(gone))
    row_pointers = np.uint64(graph.nodes + 1)
    backend.run(
        _SHIFT_ROWS,
        backend.grid_size(graph.nodes + 1, each=_ENTRIES_OF_A_THREAD),
        (stored.indptr, row_pointers, new_targets, added_count, old_targets, removed_count, indptr),
    )
    backend.run(
        _MERGE,
        backend.grid_size(max(graph.edges, len(new_sources)), each=_ENTRIES_OF_A_THREAD),
        (
            *(stored.sources, np.uint64(graph.edges), gone, removed_count),
            *(before, new_sources, added_count, degree, sources),
        ),
    )
    return DeviceArrays(indptr, sources, degree)


def _in_main_memory(edges: Sequence[Any] | None) -> Sequence[Any] | None:
    if not isinstance(edges, tuple | list):
        return edges
    return [to_host(ends) for ends in edges]


def _uploaded(*lists: npt.NDArray[np.int64]) -> list[Any]:
    """Return numbers below 2^32 as uint32 on the device, in one copy."""
    ends = np.cumsum([len(numbers) for numbers in lists])
    together = current().upload(np.concatenate(lists).astype(np.uint32))
    return [together[end - len(numbers) : end] for end, numbers in zip(ends.tolist(), lists, strict=True)]
