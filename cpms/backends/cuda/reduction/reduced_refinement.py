"""Method ``refine`` where few nodes lie on cycles or between them: sweeps over these, one pass over the others.

With teleport v, and dangling mass that goes there too, x is proportional to y = damping P y + v. For nodes that no
cycle leads to y follows from v level by level. In the core y = damping P y + b, where b is v and what flows in: this
is PageRank with teleport b, where what leaves the core returns by b. Nodes that lead to no cycle come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import CONVERGENCE_ESTIMATE, LEVEL_SOLVE, LUMPING, TRIMMING
from cpms.backends.cuda.persistent.device_graph import DEFAULT, ResidentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement, Left, needed_bytes, too_large
from cpms.backends.cuda.persistent.strategies import Wanted, Ways
from cpms.backends.cuda.persistent.warp_ranges import Stretches
from cpms.backends.cuda.reduction import convergence_estimate
from cpms.backends.cuda.reduction.level_solve import Passes, Places, Renumbered, Split
from cpms.backends.cuda.reduction.lumping import merged
from cpms.backends.cuda.reduction.trimming import Cost, peel
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import DeviceRows, PaddedCsr, out_degree
from cpms.base import threads
from cpms.base.errors import UnsupportedError
from cpms.contracts.reduced_refinement import ReducedRefinement
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FloatFormat
from cpms.problems.pagerank import Problem

_FORECAST_EDGES = 1 << 20
"""Up to which a solve takes so little time that it matters how many sweeps it will be."""
_LARGE_EDGES, _MANY_EDGES = 1 << 23, 6
"""From which, and from how many a node, full sweeps are so much of a solve that it matters whether few will do."""


class PeeledRefinement(ReducedRefinement):
    """A core prepared for sweeps and the other nodes for passes; the whole graph if sweeps are to go over all of it.

    Parameters
    ----------
    problem : Problem
        Of a graph without weights, whose dangling mass goes where the teleport does.
    places : Places
    rows : Renumbered
    converges_fast : bool
        Whether what sweeps leave is known to.
    """

    def __init__(self, problem: Problem, places: Places, rows: Renumbered, *, converges_fast: bool = False) -> None:
        arrays = current().arrays
        self._problem, self.damping, self._fades_fast = problem, problem.damping, converges_fast
        self._passes = Passes.of(problem, places, rows)
        # The sum of y before the core, and that of b, which x of the core is divided by.
        self._report = arrays.zeros(2, np.float64)
        self._core: CudaRefinement | None = None
        self._entered: Split | None = None
        if places.core:
            split = Split.of(f"the core of {problem.graph.name}", places.core, rows, entered=bool(places.before))
            self._entered = split if places.before else None
            self._b = self._given(places)
            self._core = CudaRefinement(self._resident(places, split))
            # What begins where no teleport leads fades by no more than the damping a sweep.
            uniform = self._b.size < places.core
            self._first = arrays.full(places.core, 1.0 / places.core, np.float64) if uniform else self._b

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of edges and degrees, of the whole graph too once sweeps went over it."""
        parts = self._passes, self._core, self._whole_if_prepared
        return sum(part.nbytes for part in parts if part is not None)

    def warm_up(self, storage: FloatFormat | None) -> None:
        """Compile."""
        current().compile(LEVEL_SOLVE)
        if self._core:
            self._core.warm_up(storage)

    @property
    def core(self) -> CudaRefinement | None:
        """What is swept, if anything is."""
        return self._core

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """What the core refines in."""
        return self._core.default_residual_format if self._core else None

    def solve_reduced(self, iterate: Callable[[Refinement], None]) -> Any:
        """Return x, of sum 1, on the device."""
        core, x = self._core, None

        def follow(left: Left) -> None:
            nonlocal x
            x = self._behind(left)

        if self._entered:
            self._passes.before(self._entered, self._b, self._report)
        if core and self._reached():
            core.start(self._first, from_rounded=True)
            core.anderson, core.error_feedback, core.follow = self.anderson, self.error_feedback, follow
            iterate(core)
            core.follow = None  # It holds x.
        else:
            follow(Left.all_in(self._passes.shares))
        current().synchronize()
        return x

    def _behind(self, left: Left) -> Any:
        """Launch the pass behind the core; return room for x."""
        degree = self._passes.places.degree
        kept = self._core.graph.kept if self._core else None
        return self._passes.behind(left, degree if kept is None else kept, self._report)

    def _prepare_whole(self) -> CudaRefinement:
        with current().memory_for(self._problem.graph.name, needed_bytes(self._problem)):
            return CudaRefinement.of(self._problem, converges_fast=self._fades_fast)

    def _reached(self) -> bool:
        """Return whether any teleport reaches the core; uniform ones do."""
        return self._problem.teleport is None or bool(current().fetch_async(self._report)()[1] > 0.0)

    def _given(self, places: Places) -> Any:
        """Return what each place of the core gets, one number where all get the same; room for it if it is to come."""
        arrays, teleport = current().arrays, places.teleport
        if places.before:
            return arrays.zeros(places.core, np.float64)
        if teleport.size == 1:
            self._report[1] = places.core / self._problem.graph.nodes
            return arrays.full(1, 1.0 / places.core, np.float64)
        given = teleport[: places.core]
        self._report[1] = given.sum()
        return given / self._report[1]

    def _resident(self, places: Places, split: Split) -> ResidentGraph:
        degree = places.degree[: places.core]
        steps, wanted = DEFAULT.steps_for(split.nodes), Wanted(hot=False)
        edges, slots = Stretches.of(PaddedCsr.of(split), split, steps, cached=wanted.as_cached)
        ways = Ways.of(edges, slots, split.nodes, wanted=wanted)
        error_feedback = wanted.error_feedback(ways.way, converges_fast=self._fades_fast)
        # Where all mass goes on by edges, what rounding loses is all that comes back, which may be to all alike.
        closed = not (places.is_left or error_feedback or bool((degree == 0).any()))
        return ResidentGraph(
            nodes=split.nodes,
            damping=self.damping,
            edges=ways.read_of(edges),
            degree=degree,
            sink=current().arrays.full(1, 1.0 / split.nodes, np.float64) if closed else self._b,
            teleport=self._b,
            order=None,
            kept=split.kept() if places.is_left else None,
            ways=ways,
            starts=slots.starts if error_feedback else None,
        )


def prepared(problem: Problem, engine: str) -> Refinement:
    """Return a problem prepared for method ``refine`` on the device.

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
        with threads.beside(lambda: graph.out_degree):  # The referee counts for itself, and has time to.
            return _arranged(problem, rows)


def _arranged(problem: Problem, rows: DeviceRows) -> Refinement:
    if not problem.dangling_follows_teleport:
        return CudaRefinement.of(problem, rows=rows)
    current().compile([*TRIMMING, *LUMPING, CONVERGENCE_ESTIMATE])
    degree, fast = out_degree(problem.graph, rows), False
    try:
        fast = _fades_fast(problem, rows, degree)
        found = _peeled(problem, rows, degree, converges_fast=fast)
    except current().out_of_memory:
        found = None  # It takes twice what sweeps over all nodes need.
    return found or CudaRefinement.of(problem, rows=rows, converges_fast=fast)


def merged_core(problem: Problem) -> CudaRefinement:
    """Return all nodes prepared for sweeps, those whose edges lead to the same nodes as one, whether it pays or not.

    Raises
    ------
    UnsupportedError
        If there are none, or teleport is not uniform.
    """
    wanted = Cost(lumped=math.inf)
    made = merged(problem, DeviceRows.of(problem.graph), out_degree(problem.graph), None, wanted)
    core = PeeledRefinement(problem, *made).core if made else None
    if core is None:
        raise UnsupportedError(f"{problem.graph.name} has no nodes that can be merged; sweep over all of them")
    return core


def _fades_fast(problem: Problem, rows: DeviceRows, degree: Any) -> bool:
    """Return whether few sweeps are known to do: looked at where that takes little beside preparing the graph."""
    graph = problem.graph
    if graph.edges < max(_LARGE_EDGES, _MANY_EDGES * graph.nodes):
        return False
    return convergence_estimate.converges_fast(rows.indptr, rows.sources, degree, problem.damping)


def _peeled(problem: Problem, rows: DeviceRows, degree: Any, *, converges_fast: bool) -> PeeledRefinement | None:
    """Return a problem with a smaller core; None where that does not pay."""
    graph, indptr, sources = problem.graph, rows.indptr, rows.sources
    cost = Cost()
    if graph.edges <= _FORECAST_EDGES:
        cost = cost._replace(sweeps=convergence_estimate.sweeps(indptr, sources, degree, problem.damping))
    found = peel(graph, indptr, sources, degree, cost)
    made = merged(problem, rows, degree, found, cost)
    if made is None and found is not None:
        made = Places.of(problem, found, degree), Renumbered.of(graph, found, indptr, sources)
    return None if made is None else PeeledRefinement(problem, *made, converges_fast=converges_fast)
