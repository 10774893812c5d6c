"""Level-scheduled substitution over trimmed nodes, upstream and downstream of the core.

Ordered by levels, the trimmed part of I - damping P is triangular, so one substitution solves it exactly; rows of a
level are independent (Saltz, 1990; Naumov, 2011). It replaces these nodes' part of every sweep by one pass, at the cost
of a grid barrier a level, or a block barrier where a level is narrow. Launches ``preprocess/level_solve.cu``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE
from cpms.backends.cuda.kernels.template import LEVEL_SOLVE, Variant
from cpms.backends.cuda.persistent.device_graph import barrier
from cpms.backends.cuda.persistent.refinement import FinalContributions
from cpms.backends.cuda.reduction.trimming import Trimming
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

_UPSTREAM, _DOWNSTREAM = LEVEL_SOLVE
LUMPED = 0xFFFFFFFF
"""No node: the position holds lumped nodes; as in ``preprocess/level_solve.cu``."""


@dataclass(frozen=True, eq=False)
class ReducedOrder:
    """Order of the nodes of a reduced problem: the core, then level by level the upstream and the downstream nodes.

    Parameters
    ----------
    order : device array of uint32
        Node at each position; `LUMPED` where a position of the core stands for several lumped nodes.
    core : int
        Number of positions of the core, over which sweeps go.
    upstream, downstream : list of int
        Positions of each level, in the order of substitution.
    is_open : bool
        Whether edges may lead from the core to downstream nodes.
    degree : device array of uint32
        Out-degree at each position.
    teleport : device array of float64
        Teleport at each position, or one number if it is uniform.
    """

    order: Any
    core: int
    upstream: list[int]
    downstream: list[int]
    is_open: bool
    degree: Any
    teleport: Any

    @classmethod
    def of(cls, problem: Problem, trimming: Trimming, degree: Any) -> ReducedOrder:
        """Permute teleport and out-degrees, given the out-degrees by node."""
        teleport = current().upload(problem.teleport_or_scalar)
        by_position = teleport if len(teleport) == 1 else teleport[trimming.order]
        return cls(
            trimming.order,
            trimming.core,
            trimming.upstream,
            trimming.downstream,
            bool(trimming.downstream),
            degree[trimming.order],
            by_position,
        )

    @property
    def begins(self) -> Any:
        """First row of each level and the end, relative to the core's end; a device array of uint32."""
        return current().arrays.asarray(np.cumsum([0, *self.upstream, *self.downstream]).astype(np.uint32))


@dataclass(frozen=True, eq=False)
class PermutedRows:
    """Rows in the reduced order, whose sources are positions; device arrays of uint32."""

    row_begins: Any
    sources: Any

    @classmethod
    def of(cls, graph: Graph, trimming: Trimming, indptr: Any, sources: Any) -> PermutedRows:
        """Permute all rows of a graph."""
        backend = current()
        arrays = backend.arrays
        row_begins = arrays.zeros(graph.nodes + 1, np.uint32)
        row_begins[1:] = arrays.cumsum((indptr[1:] - indptr[:-1])[trimming.order])
        permuted_sources = arrays.empty(graph.edges, np.uint32)
        if graph.edges:
            arguments = (
                *(indptr, row_begins[:-1][trimming.position], trimming.position, sources, np.uint64(0)),
                *(np.uint32(graph.nodes), np.uint32(graph.edges), permuted_sources, np.uint64(0)),
            )
            backend.run(Variant("place_entries"), backend.grid_size(graph.edges), arguments)
        return cls(row_begins, permuted_sources)

    def edges_before(self, row: int) -> int:
        """Return the number of edges of the rows before ``row``."""
        return int(current().to_host(self.row_begins[row : row + 1])[0])


@dataclass(frozen=True, eq=False)
class CoreRows:
    """The core's rows, split into edges within the core, which form a graph, and inflow from upstream nodes.

    Parameters
    ----------
    name : str
    nodes, edges : int
        Of the core.
    indptr, sources : device arrays of uint32
        Edges within the core.
    inflow_indptr, inflow_sources : device arrays of uint32
        Edges from upstream nodes.
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
    def of(cls, name: str, nodes: int, rows: PermutedRows, *, has_inflow: bool) -> CoreRows:
        """Split the first rows by whether their sources are in the core; without inflow all are."""
        arrays = current().arrays
        row_begins, sources = rows.row_begins[: nodes + 1], rows.sources[: rows.edges_before(nodes)]
        if not has_inflow:
            return cls(name, nodes, len(sources), row_begins, sources, row_begins[:0], sources[:0])
        is_internal = sources < np.uint32(nodes)
        internal_before = arrays.concatenate([arrays.zeros(1, np.uint32), arrays.cumsum(is_internal, dtype=np.uint32)])
        indptr, internal = internal_before[row_begins], sources[is_internal]
        return cls(name, nodes, len(internal), indptr, internal, row_begins - indptr, sources[~is_internal])

    def internal_degree(self) -> Any:
        """Return the number of edges of each node within the core, a device array of uint32."""
        return current().arrays.bincount(self.sources.astype(np.int64), minlength=self.nodes).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class LevelSolve:
    """Data of the substitutions over upstream and downstream nodes, besides the core's solution."""

    layout: ReducedOrder
    nodes: int
    damping: float
    indptr: Any
    sources: Any
    begins: Any
    contributions: Any
    barrier: tuple[Any, Any]

    @classmethod
    def of(cls, problem: Problem, layout: ReducedOrder, rows: PermutedRows) -> LevelSolve:
        """Select the rows outside the core."""
        first = rows.edges_before(layout.core)
        return cls(
            layout=layout,
            nodes=problem.graph.nodes,
            damping=problem.damping,
            indptr=rows.row_begins[layout.core :] - np.uint32(first),
            sources=rows.sources[first:].copy(),
            begins=layout.begins,
            contributions=current().arrays.zeros(len(layout.order), np.float64),
            barrier=barrier(current().persistent_blocks(DEFAULT_SHAPE)),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return sum(int(part.nbytes) for part in (self.indptr, self.sources, self.layout.degree, self.layout.order))

    def upstream(self, core_rows: CoreRows, b: Any, report: Any) -> None:
        """Solve upstream levels; write the core's teleport b, of sum 1, into ``b``.

        ``report`` receives the upstream mass and b's sum before normalisation.
        """
        inflow = core_rows.inflow_indptr, core_rows.inflow_sources
        levels = self._levels(len(self.layout.upstream))
        self._launch(_UPSTREAM, (levels, *inflow, self.contributions, b, *self.barrier, report))

    def downstream(self, final: FinalContributions, internal_degree: Any, report: Any) -> Any:
        """Solve downstream levels from the core's solution; return x by node, of sum 1.

        The kernel may still be running on return.
        """
        x, layout = current().arrays.empty(self.nodes, np.float64), self.layout
        done = len(layout.upstream) if layout.core else 0
        levels = self._levels(len(layout.upstream) + len(layout.downstream))
        core = pack(structs.CORE_SOLUTION, **final._asdict(), internal_degree=internal_degree)
        arguments = (
            *(levels, np.uint32(done), core, report, layout.order, np.uint32(len(layout.order))),
            *(self.contributions, x, *self.barrier),
        )
        self._launch(_DOWNSTREAM, arguments)
        return x

    def _levels(self, count: int) -> Struct:
        layout = self.layout
        return pack(
            structs.LEVELS,
            indptr=self.indptr,
            sources=self.sources,
            begins=self.begins,
            degrees=layout.degree,
            teleport=layout.teleport,
            teleport_stride=layout.teleport.size > 1,
            core=layout.core,
            count=count,
            damping=self.damping,
        )

    def _launch(self, kernel: Variant, arguments: tuple[Any, ...]) -> None:
        layout = self.layout
        widest = max([layout.core, len(layout.order) // 8, *layout.upstream, *layout.downstream])
        current().run_persistent(kernel, current().persistent_spread(widest), arguments)
