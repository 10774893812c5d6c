"""Mixed-precision iterative refinement of the trimmed core on processors.

Substitution in topological order solves the nodes upstream and downstream of all cycles directly; refinement sweeps
over the core between. A graph without cycles needs no sweep at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from cpms.backends.cpu.refinement import CpuRefinement, residual_format
from cpms.backends.cpu.substitution import Acyclic, acyclic
from cpms.backends.cpu.trimmed_core import Core, core
from cpms.base.types import Floats
from cpms.contracts.reduced_refinement import ReducedRefinement
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FloatFormat
from cpms.problems.pagerank import Problem


class CpuTrimmedRefinement(ReducedRefinement):
    """Refinement of a trimmed core, or the direct solution of an acyclic graph; the whole graph on demand.

    Parameters
    ----------
    problem : Problem
    found : Acyclic or Core, optional
        The substitution over the trimmed nodes; by default it is looked for when a solve needs it.
    """

    def __init__(self, problem: Problem, found: Acyclic | Core | None = None) -> None:
        self.problem, self.damping = problem, problem.damping
        if found is not None:
            self._reduction = found, _of_core(found)

    @cached_property
    def _reduction(self) -> tuple[Acyclic | Core | None, CpuRefinement | None]:
        found = acyclic(self.problem) or core(self.problem)
        return found, _of_core(found)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the arrays of substitution and of the matrices, each once it is prepared."""
        parts = *self.__dict__.get("_reduction", ()), self._whole_if_prepared
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """The default residual format of the core, or of the whole graph if it has no reduction."""
        found, of_core = self._reduction
        if found is None:
            return self.unreduced_residual_format
        return of_core.default_residual_format if of_core else None

    @property
    def unreduced_residual_format(self) -> FloatFormat | None:
        """The default residual format of the whole graph."""
        return residual_format(self.problem.graph.nodes)

    def solve_reduced(self, iterate: Callable[[Refinement], None]) -> Floats | None:
        """Return x; None if dangling mass does not follow teleport, which the core requires."""
        found, of_core = self._reduction
        if isinstance(found, Acyclic):
            return found.solve_reduced()
        if found is None or of_core is None or not Core.solves(self.problem):
            return None
        y, right, scale = found.begin()
        if scale == 0.0:
            return found.end(y, scale, right)
        right /= scale
        of_core.set_teleport(right)
        # An error outside the support of the right side decays by the damping factor a sweep, and no faster.
        of_core.start(right)
        of_core.anderson = self.anderson
        iterate(of_core)
        return found.end(y, scale, of_core.read())

    def set_teleport(self, teleport: Floats | None) -> bool:
        """Replace the teleport distribution, shape (nodes,); None is the uniform one."""
        self.problem = replace(self.problem, teleport=teleport)
        found, of_core = self.__dict__.get("_reduction", (None, None))
        if found is not None:
            self._reduction = replace(found, problem=self.problem), of_core
        if self._whole_if_prepared:
            self._whole_if_prepared.set_teleport(teleport)
        return True

    def prepare_whole(self) -> None:
        """Prepare the whole graph for sweeps now."""
        self._whole  # noqa: B018

    def _prepare_whole(self) -> CpuRefinement:
        return CpuRefinement(self.problem)


def _of_core(found: Acyclic | Core | None) -> CpuRefinement | None:
    if not isinstance(found, Core):
        return None
    nodes, damping = found.graph.nodes, found.problem.damping
    return CpuRefinement(
        Problem(found.graph, damping, np.full(nodes, 1.0 / nodes)),
        degree=found.degree,
        internal_degree=found.internal_degree,
    )


def prepared(problem: Problem) -> CpuTrimmedRefinement | CpuRefinement:
    """Return a prepared refinement: of the trimmed core if trimming is worthwhile, else of the whole graph."""
    found = acyclic(problem) or core(problem)
    return CpuTrimmedRefinement(problem, found) if found else CpuRefinement(problem)


def prepared_from_start(problem: Problem) -> CpuTrimmedRefinement:
    """Return a refinement prepared for given ranks: of the whole graph, which is trimmed when a solve needs that."""
    refinement = CpuTrimmedRefinement(problem)
    refinement.prepare_whole()
    return refinement
