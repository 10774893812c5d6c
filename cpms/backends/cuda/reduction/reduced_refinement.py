"""Method ``refine`` on a reduced problem: sweeps over the trimmed core, one substitution over the other nodes.

With teleport v that dangling mass follows, x is proportional to y = damping P y + v. For nodes that no cycle leads to,
y follows from v level by level. In the core y = damping P y + b, where b is v plus inflow from upstream: this is
PageRank with teleport b, to which the core's outflow returns. Nodes that lead to no cycle follow at the end (Del Corso,
Gulli and Romani, 2005, reorder the matrix to block triangular form likewise). Each trimmed node costs one visit in
place of one a sweep; finding the levels costs a pass over the edges each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import CONVERGENCE_ESTIMATE, LEVEL_SOLVE, LUMPING, TRIMMING
from cpms.backends.cuda.persistent.device_graph import DEFAULT, PersistentGraph, arrangement_for
from cpms.backends.cuda.persistent.refinement import CudaRefinement, FinalContributions, needed_bytes, too_large
from cpms.backends.cuda.persistent.strategies import StrategyData, StrategyRequest
from cpms.backends.cuda.persistent.warp_ranges import WarpRanges
from cpms.backends.cuda.reduction import convergence_estimate
from cpms.backends.cuda.reduction.level_solve import CoreRows, LevelSolve, PermutedRows, ReducedOrder
from cpms.backends.cuda.reduction.lumping import lumped
from cpms.backends.cuda.reduction.trimming import Cost, trim
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import DeviceRows, PaddedCsr, out_degree
from cpms.base import threads
from cpms.base.errors import UnsupportedError
from cpms.contracts.engine import MANY_SOLVES
from cpms.contracts.reduced_refinement import ReducedRefinement
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FloatFormat
from cpms.problems.pagerank import Problem

_ESTIMATE_EDGES = 1 << 20
"""Edges up to which a solve is so short that the number of its sweeps matters for the choice."""
_LARGE_EDGES, _MANY_EDGES = 1 << 23, 6
"""Edges, and edges a node, from which a residual sweep is so much of a solve that fast convergence is worth an
estimate.
"""


class TrimmedRefinement(ReducedRefinement):
    """A core prepared for sweeps and the other nodes for substitution.

    The whole graph is prepared too if sweeps over all nodes follow.

    Parameters
    ----------
    problem : Problem
        Of a graph without weights, whose dangling mass follows teleport.
    layout : ReducedOrder
    rows : PermutedRows
    converges_fast : bool
        Result of the convergence estimate.

    Attributes
    ----------
    core : CudaRefinement or None
        The core's refinement, if there is a core.
    """

    def __init__(
        self, problem: Problem, layout: ReducedOrder, rows: PermutedRows, *, converges_fast: bool = False
    ) -> None:
        arrays = current().arrays
        self._problem, self.damping, self._converges_fast = problem, problem.damping, converges_fast
        self._level_solve = LevelSolve.of(problem, layout, rows)
        # The sum of y upstream, and that of b, by which x of the core is divided.
        self._report = arrays.zeros(2, np.float64)
        self.core: CudaRefinement | None = None
        self._inflow_rows: CoreRows | None = None
        if layout.core:
            core_rows = CoreRows.of(
                f"the core of {problem.graph.name}", layout.core, rows, has_inflow=bool(layout.upstream)
            )
            self._inflow_rows = core_rows if layout.upstream else None
            self._b = self._core_teleport(layout)
            self.core = CudaRefinement(self._core_graph(layout, core_rows))
            # The error of a start outside the teleport's support decays by no more than the damping a sweep.
            uniform = self._b.size < layout.core
            self._first = arrays.full(layout.core, 1.0 / layout.core, np.float64) if uniform else self._b

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of edges and degrees, of the whole graph too once it is prepared."""
        parts = self._level_solve, self.core, self._whole_if_prepared
        return sum(part.nbytes for part in parts if part is not None)

    def warm_up(self, storage: FloatFormat | None) -> None:
        """Compile the kernels."""
        current().compile(LEVEL_SOLVE)
        if self.core:
            self.core.warm_up(storage)

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """The core's residual format."""
        return self.core.default_residual_format if self.core and self.error_feedback else None

    def solve_reduced(self, iterate: Callable[[Refinement], None]) -> Any:
        """Return x, of sum 1, on the device."""
        core, x = self.core, None

        def follow(final: FinalContributions) -> None:
            nonlocal x
            x = self._solve_downstream(final)

        if self._inflow_rows:
            self._level_solve.upstream(self._inflow_rows, self._b, self._report)
        if core and self._core_has_teleport():
            core.start(self._first, from_rounded=True)
            core.anderson, core.error_feedback, core.follow = self.anderson, self.error_feedback, follow
            try:
                iterate(core)
            finally:
                core.follow = None  # Its closure holds x.
        else:
            follow(FinalContributions.without_launch(self._level_solve.contributions))
        current().synchronize()
        return x

    def _solve_downstream(self, final: FinalContributions) -> Any:
        """Launch the substitution downstream of the core; return x."""
        degree = self._level_solve.layout.degree
        internal_degree = self.core.graph.internal_degree if self.core else None
        return self._level_solve.downstream(final, degree if internal_degree is None else internal_degree, self._report)

    def _prepare_whole(self) -> CudaRefinement:
        with current().memory_for(self._problem.graph.name, needed_bytes(self._problem)):
            return CudaRefinement.of(self._problem, converges_fast=self._converges_fast)

    def _core_has_teleport(self) -> bool:
        """Return whether any teleport reaches the core; a uniform one does."""
        return self._problem.teleport is None or bool(current().fetch_async(self._report)()[1] > 0.0)

    def _core_teleport(self, layout: ReducedOrder) -> Any:
        """Return the core's teleport, one number if uniform; a buffer if upstream nodes determine it."""
        arrays, teleport = current().arrays, layout.teleport
        if layout.upstream:
            return arrays.zeros(layout.core, np.float64)
        if teleport.size == 1:
            self._report[1] = layout.core / self._problem.graph.nodes
            return arrays.full(1, 1.0 / layout.core, np.float64)
        teleport = teleport[: layout.core]
        self._report[1] = teleport.sum()
        return teleport / self._report[1]

    def _core_graph(self, layout: ReducedOrder, core_rows: CoreRows) -> PersistentGraph:
        degree = layout.degree[: layout.core]
        tiles, request = DEFAULT.tiles_per_range(core_rows.nodes), StrategyRequest(hub_cache=False)
        edges, entries = WarpRanges.of(PaddedCsr.of(core_rows), core_rows, tiles, in_cache=request.cut_for_cache)
        strategy_data = StrategyData.of(edges, entries, core_rows.nodes, request=request)
        error_feedback = request.uses_error_feedback(strategy_data.strategy, converges_fast=self._converges_fast)
        # In a closed core all mass follows edges, and only rounding errors return; they may return uniformly.
        closed = not (layout.is_open or error_feedback or bool((degree == 0).any()))
        return PersistentGraph(
            nodes=core_rows.nodes,
            damping=self.damping,
            edges=edges,
            degree=degree,
            sink=current().arrays.full(1, 1.0 / core_rows.nodes, np.float64) if closed else self._b,
            teleport=self._b,
            order=None,
            internal_degree=core_rows.internal_degree() if layout.is_open else None,
            strategy_data=strategy_data,
            row_begins=entries.starts if error_feedback else None,
        )


def prepared(problem: Problem, engine: str, solves: int = MANY_SOLVES, *, estimates: bool = True) -> Refinement:
    """Return a problem prepared for method ``refine`` on the device, in the least time with so many solves.

    Without ``estimates`` the number of sweeps is taken for the usual one, and convergence for slow.

    Raises
    ------
    UnsupportedError
        If it does not fit.
    """
    reason = too_large(problem, engine)
    if reason:
        raise UnsupportedError(reason)
    graph = problem.graph
    with current().memory_for(graph.name, needed_bytes(problem)):
        rows = DeviceRows.of(graph)
        if graph.device_arrays is not None:
            return _reduced(problem, rows, solves, estimates=estimates)
        with threads.in_background(lambda: graph.out_degree):  # The certificate needs out-degrees of its own.
            return _reduced(problem, rows, solves, estimates=estimates)


def _reduced(problem: Problem, rows: DeviceRows, solves: int, *, estimates: bool) -> Refinement:
    arrangement, cost = arrangement_for(rows.edges, solves), Cost()._replace(solves=solves)
    if not (problem.dangling_follows_teleport and cost.search_is_worthwhile(rows.nodes, rows.edges)):
        return CudaRefinement.of(problem, arrangement, rows=rows)
    current().compile([*TRIMMING, *LUMPING, CONVERGENCE_ESTIMATE])
    degree, converges_fast = out_degree(problem.graph, rows), False
    try:
        if estimates:
            converges_fast = _converges_fast(problem, rows, degree)
            cost = _with_sweeps(cost, problem, rows, degree)
        trimming = _trimmed(problem, rows, degree, cost, converges_fast=converges_fast)
    except current().out_of_memory:
        trimming = None  # Trimming needs twice the memory of sweeps over all nodes.
    return trimming or CudaRefinement.of(problem, arrangement, rows=rows, converges_fast=converges_fast)


def lumped_core(problem: Problem) -> CudaRefinement:
    """Return all nodes prepared for sweeps, with nodes of equal columns lumped even where it is not worthwhile.

    Raises
    ------
    UnsupportedError
        If there are none, or teleport is not uniform.
    """
    request = Cost(lumped_entry=math.inf)
    made = lumped(problem, DeviceRows.of(problem.graph), out_degree(problem.graph), None, request)
    core = TrimmedRefinement(problem, *made).core if made else None
    if core is None:
        raise UnsupportedError(f"{problem.graph.name} has no nodes that can be lumped; sweep over all of them")
    return core


def _converges_fast(problem: Problem, rows: DeviceRows, degree: Any) -> bool:
    """Return whether convergence is estimated to be fast; estimated where that is cheap beside preparing the graph."""
    graph = problem.graph
    if graph.edges < max(_LARGE_EDGES, _MANY_EDGES * graph.nodes):
        return False
    return convergence_estimate.converges_fast(rows.indptr, rows.sources, degree, problem.damping)


def _with_sweeps(cost: Cost, problem: Problem, rows: DeviceRows, degree: Any) -> Cost:
    """Return the costs of a solve with its number of sweeps estimated, where that matters."""
    if problem.graph.edges > _ESTIMATE_EDGES:
        return cost
    return cost._replace(sweeps=convergence_estimate.sweeps(rows.indptr, rows.sources, degree, problem.damping))


def _trimmed(
    problem: Problem, rows: DeviceRows, degree: Any, cost: Cost, *, converges_fast: bool
) -> TrimmedRefinement | None:
    """Return the problem with a reduced core; None where that is not worthwhile."""
    graph, indptr, sources = problem.graph, rows.indptr, rows.sources
    trimming = trim(graph, indptr, sources, degree, cost)
    made = lumped(problem, rows, degree, trimming, cost)
    if made is None and trimming is not None:
        made = ReducedOrder.of(problem, trimming, degree), PermutedRows.of(graph, trimming, indptr, sources)
    return None if made is None else TrimmedRefinement(problem, *made, converges_fast=converges_fast)
