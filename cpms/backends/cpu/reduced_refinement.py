"""Mixed-precision iterative refinement of the trimmed core on processors.

Substitution in topological order solves the nodes upstream and downstream of all cycles directly; refinement sweeps
over the core between. A graph without cycles needs no sweep at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cpms.backends.cpu.refinement import CpuRefinement
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
    found : Acyclic or Core
        The substitution over the trimmed nodes.
    """

    def __init__(self, problem: Problem, found: Acyclic | Core) -> None:
        self.problem, self.damping = problem, problem.damping
        self._found, self._of_core = found, _of_core(found) if isinstance(found, Core) else None

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the arrays of substitution and of the matrices, including the whole one once it is prepared."""
        parts = self._found, self._of_core, self._whole_if_prepared
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """The default residual format of the core."""
        return self._of_core.default_residual_format if self._of_core else None

    def solve_reduced(self, iterate: Callable[[Refinement], None]) -> Floats | None:
        """Return x; None if dangling mass does not follow teleport, which the core requires."""
        found = self._found
        if isinstance(found, Acyclic):
            return found.solve_reduced()
        if not (self._of_core and Core.solves(self.problem)):
            return None
        y, right, scale = found.begin()
        if scale == 0.0:
            return found.end(y, scale, right)
        right /= scale
        self._of_core.set_teleport(right)
        # An error outside the support of the right side decays by the damping factor a sweep, and no faster.
        self._of_core.start(right)
        self._of_core.anderson = self.anderson
        iterate(self._of_core)
        return found.end(y, scale, self._of_core.read())

    def set_teleport(self, teleport: Floats | None) -> bool:
        """Replace the teleport distribution, shape (nodes,); None is the uniform one."""
        self.problem = replace(self.problem, teleport=teleport)
        self._found = replace(self._found, problem=self.problem)
        if self._whole_if_prepared:
            self._whole_if_prepared.set_teleport(teleport)
        return True

    def _prepare_whole(self) -> CpuRefinement:
        return CpuRefinement(self.problem)


def _of_core(found: Core) -> CpuRefinement:
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
