"""The levels of a graph before and behind its core, in device memory, and the launches of ``passes.cu``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.cuda.backend import current
from cpms.cuda.peel import Peel
from cpms.cuda.resident import barrier
from cpms.cuda.shape import FULL
from cpms.cuda.variants import PASSES, Variant
from cpms.engine import Problem
from cpms.graph import Graph

_BEFORE, _BEHIND = PASSES


@dataclass(frozen=True, eq=False)
class Renumbered:
    """Rows in the order of a `Peel`, with sources that are places; device arrays of uint32."""

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
            backend.run(Variant("place_edges"), backend.spread(graph.edges), arguments)
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
    degree : device array of uint32, shape (nodes,)
        How many edges of each node stay in the core.
    inflow_indptr, inflow_sources : device arrays of uint32
    """

    name: str
    nodes: int
    edges: int
    indptr: Any
    sources: Any
    degree: Any
    inflow_indptr: Any
    inflow_sources: Any
    weights: None = None

    @classmethod
    def of(cls, name: str, nodes: int, rows: Renumbered) -> Split:
        """Split the first rows, by whether sources are places below ``nodes``."""
        arrays = current().arrays
        starts, sources = rows.starts[: nodes + 1], rows.sources[: rows.edges_before(nodes)]
        inside = sources < np.uint32(nodes)
        counted = arrays.concatenate([arrays.zeros(1, np.uint32), arrays.cumsum(inside, dtype=np.uint32)])
        indptr, kept = counted[starts], sources[inside]
        degree = arrays.bincount(kept.astype(np.int64), minlength=nodes).astype(np.uint32)
        return cls(name, nodes, len(kept), indptr, kept, degree, starts - indptr, sources[~inside])


@dataclass(frozen=True, eq=False)
class Passes:
    """What one pass before the core and one behind it need besides the core's own solution."""

    peel: Peel
    damping: float
    indptr: Any
    sources: Any
    begins: Any
    degree: Any
    teleport: Any
    shares: Any
    barrier: tuple[Any, Any]

    @classmethod
    def of(cls, problem: Problem, peel: Peel, rows: Renumbered, degree: Any) -> Passes:
        """Take the rows outside the core, given the nodes' out-degrees on the device."""
        first, teleport = rows.edges_before(peel.core), current().upload(problem.teleport_or_scalar)
        return cls(
            peel=peel,
            damping=problem.damping,
            indptr=rows.starts[peel.core :] - np.uint32(first),
            sources=rows.sources[first:].copy(),
            begins=peel.begins,
            degree=degree[peel.order],
            teleport=teleport if len(teleport) == 1 else teleport[peel.order],
            shares=current().arrays.zeros(problem.graph.nodes, np.float64),
            barrier=barrier(current().resident_blocks(FULL)),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return sum(int(part.nbytes) for part in (self.indptr, self.sources, self.degree, self.peel.order))

    def before(self, split: Split, b: Any, report: Any) -> None:
        """Put b of the core, of sum 1, into ``b``; the mass before the core and b's own sum into ``report``."""
        inflow = split.inflow_indptr, split.inflow_sources
        levels = self._levels(len(self.peel.before))
        self._launch(_BEFORE, (*levels, *inflow, self.shares, b, *self.barrier, report))

    def behind(self, core_shares: Any, kept: Any, report: Any) -> Any:
        """Return x, of sum 1, in the order of nodes, from the core's solution as shares."""
        x = current().arrays.empty(len(self.shares), np.float64)
        done = len(self.peel.before) if self.peel.core else 0
        levels = self._levels(len(self.peel.before) + len(self.peel.behind))
        arguments = (
            *(*levels, np.uint32(done), core_shares, kept, report, self.peel.order, np.uint32(len(x))),
            *(self.shares, x, *self.barrier),
        )
        self._launch(_BEHIND, arguments)
        return x

    def _levels(self, count: int) -> tuple[Any, ...]:
        return (
            *(self.indptr, self.sources, self.begins, self.degree, self.teleport, np.uint32(self.teleport.size > 1)),
            *(np.uint32(self.peel.core), np.uint32(count), np.float64(self.damping)),
        )

    def _launch(self, kernel: Variant, arguments: tuple[Any, ...]) -> None:
        widest = max([self.peel.core, len(self.shares) // 8, *self.peel.before, *self.peel.behind])
        current().run_resident(kernel, current().resident_spread(widest), arguments)
