"""CSR by target from an edge list in device memory: validated, sorted and compressed there.

Edges become 64-bit keys of target and source, which the device's radix sort orders (CUB's, through CuPy); a binary
search a row then finds where rows begin. That makes equal arrays of equal edges in any order, at the cost of a sort of
8 bytes an edge and three passes. See ``preprocess/edge_list.cu``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.arrays import out_degrees
from cpms.backends.cuda.arrays.codec import as_device_array
from cpms.backends.cuda.kernels.template import PACKS_OF_EDGES, ROWS_OF_EDGES
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.real_arrays import plain_array
from cpms.base.validation import described, require_real
from cpms.graph.edge_arrays import LARGEST_ID, check_choices, node_count
from cpms.graph.graph import Graph
from cpms.storage.device import on_device

_FIND_ROWS, _UNPACK, _NARROW = ROWS_OF_EDGES
_EDGE_BYTES = 28
"""Bytes of device memory an edge while a graph is built: ids, keys, the sort's copy, and sources."""


class DeviceArrays(NamedTuple):
    """A graph in device memory; arrays of uint32.

    Parameters
    ----------
    indptr : device array, shape (nodes + 1,)
        Where the in-edges of each node begin.
    sources : device array, shape (edges,)
        Source of each edge.
    out_degree : device array, shape (nodes,)
    """

    indptr: Any
    sources: Any
    out_degree: Any

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return sum(int(array.nbytes) for array in self)


def compile_kernels() -> None:
    """Compile the kernels of `from_edges`, or load those that are compiled."""
    current().compile([*PACKS_OF_EDGES.values(), *ROWS_OF_EDGES])


def from_edges(
    sources: Any, targets: Any, *, nodes: int | None, duplicates: str, self_loops: str, first_id: int, name: str
) -> DeviceArrays:
    """Return the in-edges of each node, sources ascending; parameters are those of `DeviceGraph.from_edges`."""
    check_choices(duplicates, self_loops)
    source_ids, target_ids = _ids(sources, "sources"), _ids(targets, "targets")
    if len(source_ids) != len(target_ids):
        raise InputError(f"{len(source_ids)} sources but {len(target_ids)} targets; give one of each an edge")
    edges = len(source_ids)
    require_countable(name, 0, edges)
    if source_ids.dtype != target_ids.dtype:
        source_ids, target_ids = (ids.astype(np.int64) for ids in (source_ids, target_ids))
    with current().memory_for(name, _EDGE_BYTES * edges):
        keys, largest = _packed(source_ids, target_ids, first_id)
        count = _node_count(largest, nodes, first_id, source_ids, target_ids)
        require_countable(name, count, edges)
        return _compressed(_selected(keys, duplicates, self_loops), count)


def from_csr(indptr: Any, sources: Any, *, name: str) -> DeviceArrays:
    """Return the in-edges of each node, given in CSR by target; parameters are those of `DeviceGraph.from_csr`."""
    begins, ids = _ids(indptr, "indptr"), _ids(sources, "sources")
    nodes, edges = len(begins) - 1, len(ids)
    if nodes < 1:
        raise InputError("the graph is empty; it needs at least one node")
    require_countable(name, nodes, edges)
    first, last, descending = (int(number) for number in (begins[0], begins[-1], (begins[1:] < begins[:-1]).any()))
    if first != 0 or last != edges or descending:
        raise InputError(
            f"indptr must ascend from 0 to the number of sources, {edges}; give where the in-edges of each node begin, "
            "or use DeviceGraph.from_edges"
        )
    low, high = (int(ids.min()), int(ids.max())) if edges else (0, 0)
    if low < 0 or high >= nodes:
        raise InputError(f"an edge comes from node {low if low < 0 else high}, but nodes are 0 to {nodes - 1}")
    words = ids.astype(np.uint32)
    return DeviceArrays(begins.astype(np.uint32), words, out_degrees.counted(words, nodes, name))


def uploaded(graph: Graph) -> DeviceArrays:
    """Return copies on the device of the arrays of a graph in main memory; out-degrees are counted there.

    Raises
    ------
    InputError
        If an edge begins at no node.
    """
    require_countable(graph.name, graph.nodes, graph.edges)
    with current().memory_for(graph.name, 4 * graph.edges + 24 * graph.nodes):
        indptr = _narrowed(current().upload(graph.indptr.astype(np.int64, copy=False)))
        sources = current().upload(graph.sources.astype(np.int32, copy=False)).view(np.uint32)
        return DeviceArrays(indptr, sources, out_degrees.counted(sources, graph.nodes, graph.name))


def _narrowed(numbers: Any) -> Any:
    """Return integers of 64 bits as uint32."""
    made = current().arrays.empty(len(numbers), np.uint32)
    current().run(_NARROW, current().grid_size(len(numbers)), (numbers, np.uint64(len(numbers)), made))
    return made


def _ids(values: Any, name: str) -> Any:
    """Return integers on the device, of 4 or 8 bytes each."""
    if on_device(values):
        given = as_device_array(values)
    else:
        require_real(name, values)
        given = plain_array(name, values)
    if given.ndim != 1:
        raise InputError(f"{name} have {given.ndim} dimensions; give a list of ids")
    if len(given) == 0:
        return current().arrays.zeros(0, np.int32)
    if given.dtype.kind not in "iu":
        hint = "for names, give their indices as integers and names=…" if given.dtype.kind in "UO" else "convert them"
        raise InputError(f"{name} are {given.dtype}; node ids are integers below 2^59: {hint}")
    if given.dtype.itemsize < 4:
        given = given.astype(np.int32)
    return current().arrays.ascontiguousarray(current().upload(given))


def require_countable(name: str, nodes: int, edges: int) -> None:
    """Refuse more nodes or edges than indices of 32 bits count.

    Raises
    ------
    UnsupportedError
    """
    if not memory_limits.is_countable(nodes, edges):
        raise UnsupportedError(
            f"graphs in device memory have fewer than 2^31 nodes, and fewer than 2^32 edges and nodes; {name} has "
            f"{nodes:,} nodes and {edges:,} edges; use Graph.from_edges"
        )


def _packed(sources: Any, targets: Any, first_id: int) -> tuple[Any, int]:
    """Return the sorted keys of the edges, and the largest id, counted from ``first_id``; -1 without edges."""
    arrays, edges = current().arrays, len(sources)
    keys, largest = arrays.empty(edges, np.uint64), arrays.zeros(1, np.uint64)
    if edges == 0:
        return keys, -1
    arguments = sources, targets, np.uint64(edges), np.uint64(first_id % 2**64), keys, largest
    current().run(PACKS_OF_EDGES[sources.dtype.name], current().grid_size(edges, each=4), arguments)
    found = current().fetch_async(largest)
    keys.sort()
    return keys, int(found()[0])


def _node_count(largest: int, nodes: Any, first_id: int, sources: Any, targets: Any) -> int:
    """Return the number of nodes, as given or by the largest id; refuse ids out of range as `Graph.from_edges` does."""
    if largest > LARGEST_ID:
        for name, ids in (("sources", sources), ("targets", targets)):
            low, high = int(ids.min()), int(ids.max())
            if low < first_id:
                raise InputError(f"{name} hold the id {low}; the smallest possible is {first_id}")
            if max(high, high - first_id) > LARGEST_ID:
                raise InputError(
                    f"{name} hold the id {high}; ids must be at most {LARGEST_ID}, counted from {min(0, first_id)}"
                )
    return node_count(largest, nodes, first_id)


def _selected(keys: Any, duplicates: str, self_loops: str) -> Any:
    """Return the keys without self-loops and repeated edges, where these are to be dropped."""
    if self_loops == "drop":
        keys = keys[keys >> np.uint64(32) != keys & np.uint64(2**32 - 1)]
    if duplicates == "drop" and len(keys):
        is_first = current().arrays.ones(len(keys), bool)
        is_first[1:] = keys[1:] != keys[:-1]
        keys = keys[is_first]
    if duplicates == "sum" and len(keys) and bool((keys[1:] == keys[:-1]).any()):
        raise UnsupportedError(
            f"duplicates is {described(duplicates)}, and edges repeat: their sums are weights, which graphs in device "
            "memory have not; keep or drop them, or use Graph.from_edges"
        )
    return keys


def _compressed(keys: Any, nodes: int) -> DeviceArrays:
    """Return rows from sorted keys, and count the edges of each source."""
    backend, edges = current(), len(keys)
    indptr, sources = backend.arrays.zeros(nodes + 1, np.uint32), backend.arrays.empty(edges, np.uint32)
    degree = backend.arrays.zeros(nodes, np.uint32)
    if edges:
        backend.run(_FIND_ROWS, backend.grid_size(nodes + 1), (keys, np.uint32(edges), np.uint32(nodes), indptr))
        backend.run(_UNPACK, backend.grid_size(edges), (keys, np.uint32(edges), sources, degree))
    return DeviceArrays(indptr, sources, degree)
