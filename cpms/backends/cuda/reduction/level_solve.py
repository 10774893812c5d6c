"""The levels of a graph before and behind its core, in device memory; launches ``preprocess/level_solve.cu``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE
from cpms.backends.cuda.kernels.template import LEVEL_SOLVE, Variant
from cpms.backends.cuda.persistent.device_graph import barrier
from cpms.backends.cuda.persistent.refinement import Left
from cpms.backends.cuda.reduction.trimming import Peel
from cpms.backends.cuda.runtime.current import current
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

_BEFORE, _BEHIND = LEVEL_SOLVE
OF_MANY = 0xFFFFFFFF
"""No node; as in ``preprocess/level_solve.cu``."""


@dataclass(frozen=True, eq=False)
class Places:
    """What lies where: the core, then level by level what is before it and what is behind.

    Parameters
    ----------
    order : device array of uint32
        The node in each place; `OF_MANY` where a place of the core stands for nodes that lie behind it.
    core : int
        How many places sweeps are for.
    before, behind : list of int
        Places of each level, in the order of the pass.
    is_left : bool
        Whether edges may lead from the core to what is behind it.
    degree : device array of uint32
        Out-degree in each place.
    teleport : device array of float64
        In each place, or one number where all have the same.
    """

    order: Any
    core: int
    before: list[int]
    behind: list[int]
    is_left: bool
    degree: Any
    teleport: Any

    @classmethod
    def of(cls, problem: Problem, peel: Peel, degree: Any) -> Places:
        """Give each node its own, given the out-degrees of nodes."""
        teleport = current().upload(problem.teleport_or_scalar)
        by_place = teleport if len(teleport) == 1 else teleport[peel.order]
        return cls(peel.order, peel.core, peel.before, peel.behind, bool(peel.behind), degree[peel.order], by_place)

    @property
    def begins(self) -> Any:
        """First row of each level and behind the last, counted from the core's end; a device array of uint32."""
        return current().arrays.asarray(np.cumsum([0, *self.before, *self.behind]).astype(np.uint32))


@dataclass(frozen=True, eq=False)
class Renumbered:
    """Rows by place, with sources that are places; device arrays of uint32."""

    starts: Any
    sources: Any

    @classmethod
    def of(cls, graph: Graph, peel: Peel, indptr: Any, sources: Any) -> Renumbered:
        """Move all rows of a graph."""
        backend = current()
        arrays = backend.arrays
        starts = arrays.zeros(graph.nodes + 1, np.uint32)
        starts[1:] = arrays.cumsum((indptr[1:] - indptr[:-1])[peel.order])
        moved = arrays.empty(graph.edges, np.uint32)
        if graph.edges:
            arguments = (
                *(indptr, starts[:-1][peel.place], peel.place, sources, np.uint64(0)),
                *(np.uint32(graph.nodes), np.uint32(graph.edges), moved, np.uint64(0)),
            )
            backend.run(Variant("place_entries"), backend.spread(graph.edges), arguments)
        return cls(starts, moved)

    def edges_before(self, row: int) -> int:
        """Return how many edges the rows before one have."""
        return int(current().to_host(self.starts[row : row + 1])[0])


@dataclass(frozen=True, eq=False)
class Split:
    """The core's rows: edges from the core itself, those of a graph of its own, and edges from before it.

    Parameters
    ----------
    name : str
    nodes, edges : int
        Of the core.
    indptr, sources : device arrays of uint32
    inflow_indptr, inflow_sources : device arrays of uint32
    """

    name: str
    nodes: int
    edges: int
    indptr: Any
    sources: Any
    inflow_indptr: Any
    inflow_sources: Any
    weights: None = None

    @classmethod
    def of(cls, name: str, nodes: int, rows: Renumbered, *, entered: bool) -> Split:
        """Split the first rows, by whether sources are among them; all are unless they are entered from elsewhere."""
        arrays = current().arrays
        starts, sources = rows.starts[: nodes + 1], rows.sources[: rows.edges_before(nodes)]
        if not entered:
            return cls(name, nodes, len(sources), starts, sources, starts[:0], sources[:0])
        inside = sources < np.uint32(nodes)
        counted = arrays.concatenate([arrays.zeros(1, np.uint32), arrays.cumsum(inside, dtype=np.uint32)])
        indptr, kept = counted[starts], sources[inside]
        return cls(name, nodes, len(kept), indptr, kept, starts - indptr, sources[~inside])

    def kept(self) -> Any:
        """Return how many edges of each node stay in the core, a device array of uint32."""
        return current().arrays.bincount(self.sources.astype(np.int64), minlength=self.nodes).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class Passes:
    """What one pass before the core and one behind it need besides the core's own solution."""

    places: Places
    nodes: int
    damping: float
    indptr: Any
    sources: Any
    begins: Any
    shares: Any
    barrier: tuple[Any, Any]

    @classmethod
    def of(cls, problem: Problem, places: Places, rows: Renumbered) -> Passes:
        """Take the rows outside the core."""
        first = rows.edges_before(places.core)
        return cls(
            places=places,
            nodes=problem.graph.nodes,
            damping=problem.damping,
            indptr=rows.starts[places.core :] - np.uint32(first),
            sources=rows.sources[first:].copy(),
            begins=places.begins,
            shares=current().arrays.zeros(len(places.order), np.float64),
            barrier=barrier(current().persistent_blocks(DEFAULT_SHAPE)),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return sum(int(part.nbytes) for part in (self.indptr, self.sources, self.places.degree, self.places.order))

    def before(self, split: Split, b: Any, report: Any) -> None:
        """Put b of the core, of sum 1, into ``b``; the mass before the core and b's own sum into ``report``."""
        inflow = split.inflow_indptr, split.inflow_sources
        levels = self._levels(len(self.places.before))
        self._launch(_BEFORE, (*levels, *inflow, self.shares, b, *self.barrier, report))

    def behind(self, left: Left, kept: Any, report: Any) -> Any:
        """Launch; return room for x, of sum 1, in the order of nodes, from what is left of the core's own solution."""
        x, places = current().arrays.empty(self.nodes, np.float64), self.places
        done = len(places.before) if places.core else 0
        levels = self._levels(len(places.before) + len(places.behind))
        arguments = (
            *(*levels, np.uint32(done), *left, kept, report, places.order, np.uint32(len(places.order))),
            *(self.shares, x, *self.barrier),
        )
        self._launch(_BEHIND, arguments)
        return x

    def _levels(self, count: int) -> tuple[Any, ...]:
        places = self.places
        return (
            *(self.indptr, self.sources, self.begins, places.degree, places.teleport),
            *(np.uint32(places.teleport.size > 1), np.uint32(places.core), np.uint32(count), np.float64(self.damping)),
        )

    def _launch(self, kernel: Variant, arguments: tuple[Any, ...]) -> None:
        places = self.places
        widest = max([places.core, len(places.order) // 8, *places.before, *places.behind])
        current().run_persistent(kernel, current().persistent_spread(widest), arguments)
