"""Method ``refine`` where few nodes lie on cycles or between them: sweeps over these, one pass over the others.

With teleport v, and dangling mass that goes there too, x is proportional to y = damping P y + v. For nodes that no
cycle leads to y follows from v level by level. In the core y = damping P y + b, where b is v and what flows in: this
is PageRank with teleport b, where what leaves the core returns by b. Nodes that lead to no cycle come last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cpms.cuda import forecast
from cpms.cuda.arrange import OnDevice, Slots, out_degree
from cpms.cuda.backend import current
from cpms.cuda.passes import Passes, Renumbered, Split
from cpms.cuda.peel import Cost, Peel, peel
from cpms.cuda.refinement import CudaRefinement, needed_bytes, too_large
from cpms.cuda.resident import DEFAULT, ResidentGraph
from cpms.cuda.stretches import Stretches
from cpms.cuda.variants import FORECAST, PASSES, PEELING
from cpms.cuda.ways import Wanted, Ways
from cpms.engine import Problem, Refinement
from cpms.errors import UnsupportedError
from cpms.format import FloatFormat
from cpms.passed import Passed

_FORECAST_EDGES = 1 << 20
"""Up to which a solve takes so little time that it matters how many sweeps it will be."""
_LARGE_EDGES, _MANY_EDGES = 1 << 23, 6
"""From which, and from how many a node, full sweeps are so much of a solve that it matters whether few will do."""


class PeeledRefinement(Passed):
    """A core prepared for sweeps and the other nodes for passes; the whole graph if sweeps are to go over all of it.

    Parameters
    ----------
    problem : Problem
        Of a graph without weights, whose dangling mass goes where the teleport does.
    found : Peel
    rows : Renumbered
    degree : device array of uint32, shape (nodes,)
        Out-degrees.
    fades_fast : bool
        Whether what sweeps leave is known to.
    """

    def __init__(
        self, problem: Problem, found: Peel, rows: Renumbered, degree: Any, *, fades_fast: bool = False
    ) -> None:
        arrays = current().arrays
        self._problem, self.damping, self._fades_fast = problem, problem.damping, fades_fast
        self._passes = Passes.of(problem, found, rows, degree)
        # The sum of y before the core, and that of b, which x of the core is divided by.
        self._report = arrays.zeros(2, np.float64)
        self._core: CudaRefinement | None = None
        if found.core:
            self._split = Split.of(f"the core of {problem.graph.name}", found.core, rows)
            self._b = self._given(found)
            self._core = CudaRefinement(self._resident())
            # What begins where no teleport leads fades by no more than the damping a sweep.
            uniform = self._b.size < found.core
            self._first = arrays.full(found.core, 1.0 / found.core, np.float64) if uniform else self._b

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of edges and degrees, of the whole graph too once sweeps went over it."""
        parts = self._passes, self._core, self._whole_if_prepared
        return sum(part.nbytes for part in parts if part is not None)

    def expect(self, storage: FloatFormat | None) -> None:
        """Compile."""
        current().compile(PASSES)
        if self._core:
            self._core.expect(storage)

    @property
    def refines_in(self) -> FloatFormat | None:
        """What the core refines in."""
        return self._core.refines_in if self._core else None

    def solution(self, iterate: Callable[[Refinement], None]) -> Any:
        """Return x, of sum 1, on the device."""
        x = self._passes.behind(*self._inner(iterate), self._report)
        current().synchronize()
        return x

    def _inner(self, iterate: Callable[[Refinement], None]) -> tuple[Any, Any]:
        """Return the core's own solution, as shares, and how many edges of each of its nodes stay in it."""
        if self._core is None:
            return self._passes.shares, self._passes.degree
        if self._passes.peel.before:
            self._passes.before(self._split, self._b, self._report)
        if self._reached():
            self._core.start(self._first, rough=True)
            self._core.extrapolates = self.extrapolates
            self._core.carries = self.carries
            iterate(self._core)
        kept = self._core.graph.kept
        return self._core.shares, self._passes.degree if kept is None else kept

    def _prepare_whole(self) -> CudaRefinement:
        with current().memory_for(self._problem.graph.name, needed_bytes(self._problem)):
            return CudaRefinement.of(self._problem, fades_fast=self._fades_fast)

    def _reached(self) -> bool:
        """Return whether any teleport reaches the core; uniform ones do."""
        return self._problem.teleport is None or bool(current().note(self._report)()[1] > 0.0)

    def _given(self, found: Peel) -> Any:
        """Return what each node of the core gets, one number where all get the same; room for it if it is to come."""
        arrays, teleport = current().arrays, self._problem.teleport
        if found.before:
            return arrays.zeros(found.core, np.float64)
        if teleport is None:
            self._report[1] = found.core / self._problem.graph.nodes
            return arrays.full(1, 1.0 / found.core, np.float64)
        given = self._passes.teleport[: found.core]
        self._report[1] = given.sum()
        return given / self._report[1]

    def _resident(self) -> ResidentGraph:
        split = self._split
        steps, wanted = DEFAULT.steps_for(split.nodes), Wanted(hot=False)
        edges, slots = Stretches.of(Slots.of(split), split, steps, cached=wanted.as_cached)
        ways = Ways.of(edges, slots, split.nodes, wanted=wanted)
        return ResidentGraph(
            nodes=split.nodes,
            damping=self.damping,
            edges=ways.read_of(edges),
            degree=self._passes.degree[: split.nodes],
            sink=self._b,
            teleport=self._b,
            order=None,
            kept=split.degree if self._passes.peel.behind else None,
            ways=ways,
            starts=slots.starts if wanted.carries(ways.way, fades_fast=self._fades_fast) else None,
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
    with current().memory_for(problem.graph.name, needed_bytes(problem)):
        rows = OnDevice.of(problem.graph)
        if not problem.sends_back:
            return CudaRefinement.of(problem, rows=rows)
        current().compile([*PEELING, FORECAST])
        degree, fast = out_degree(problem.graph), False
        try:
            fast = _fades_fast(problem, rows, degree)
            found = _peeled(problem, rows, degree, fades_fast=fast)
        except current().out_of_memory:
            found = None  # It takes twice what sweeps over all nodes need.
        return found or CudaRefinement.of(problem, rows=rows, fades_fast=fast)


def _fades_fast(problem: Problem, rows: OnDevice, degree: Any) -> bool:
    """Return whether few sweeps are known to do: looked at where that takes little beside preparing the graph."""
    graph = problem.graph
    if graph.edges < max(_LARGE_EDGES, _MANY_EDGES * graph.nodes):
        return False
    return forecast.fades_fast(rows.indptr, rows.sources, degree, problem.damping)


def _peeled(problem: Problem, rows: OnDevice, degree: Any, *, fades_fast: bool) -> PeeledRefinement | None:
    """Return a problem with a smaller core; None where that does not pay."""
    graph, indptr, sources = problem.graph, rows.indptr, rows.sources
    cost = Cost()
    if graph.edges <= _FORECAST_EDGES:
        cost = cost._replace(sweeps=forecast.sweeps(indptr, sources, degree, problem.damping))
    found = peel(graph, indptr, sources, degree, cost)
    if found is None:
        return None
    return PeeledRefinement(problem, found, Renumbered.of(graph, found, indptr, sources), degree, fades_fast=fades_fast)
