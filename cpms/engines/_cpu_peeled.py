"""Method ``refine`` on processors where passes solve all, or all but a core between cycles, which alone is swept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from cpms.engine import Floats, Norm, Problem, Refinement, Round
from cpms.engines._cpu_core import Core, core
from cpms.engines._cpu_refinement import CpuRefinement
from cpms.engines._cpu_topological import Acyclic, acyclic
from cpms.format import FloatFormat


class CpuPeeled(Refinement):
    """A core prepared for sweeps, if there is one; the whole graph once sweeps are to go over all of it.

    Parameters
    ----------
    problem : Problem
    found : Acyclic or Core
        Its passes.
    """

    def __init__(self, problem: Problem, found: Acyclic | Core) -> None:
        self.problem, self.damping = problem, problem.damping
        self._found = found
        if isinstance(found, Core):
            count = found.graph.nodes
            of_core = Problem(found.graph, problem.damping, np.full(count, 1.0 / count))
            self._of_core = CpuRefinement(of_core, degree=found.degree, kept=found.kept)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of what passes read beside the graph, and of matrices, that of the whole too once it was swept."""
        matrices = (self.__dict__.get(name) for name in ("_of_core", "_whole"))
        arrays = (array for array in vars(self._found).values() if isinstance(array, np.ndarray))
        return sum(part.nbytes for part in (*arrays, *matrices) if part is not None)

    def solution(self, iterate: Callable[[Refinement], None]) -> Floats | None:
        """Return x; None where what is dangling goes elsewhere than the core's passes take it."""
        found = self._found
        if isinstance(found, Acyclic):
            return found.solution()
        if not Core.solves(self.problem):
            return None
        y, right, scale = found.begin()
        if scale == 0.0:
            return found.end(y, scale, right)
        right /= scale
        self._of_core.aim(right)
        # What begins where no teleport leads fades by no more than the damping a sweep.
        self._of_core.start(right)
        self._of_core.extrapolates = self.extrapolates
        iterate(self._of_core)
        return found.end(y, scale, self._of_core.read())

    def aim(self, teleport: Floats) -> bool:
        """Go on with another teleport distribution, shape (nodes,)."""
        self.problem = replace(self.problem, teleport=teleport)
        self._found = replace(self._found, problem=self.problem)
        if "_whole" in self.__dict__:
            self._whole.aim(teleport)
        return True

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values."""
        self._whole.start(values)

    def read(self) -> Floats:
        """Return x of the whole graph, in its numbering."""
        return self._whole.read()

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Do one round over the whole graph."""
        return self._whole.round(storage, gain=gain, tol=tol, norm=norm, most_low=most_low)

    def rounds(
        self, storage: FloatFormat | None, *, gain: float, trust: float, tol: float, norm: Norm, most: int
    ) -> list[Round]:
        """Do rounds over the whole graph."""
        self._whole.extrapolates = self.extrapolates
        return self._whole.rounds(storage, gain=gain, trust=trust, tol=tol, norm=norm, most=most)

    @cached_property
    def _whole(self) -> CpuRefinement:
        return CpuRefinement(self.problem)


def prepared(problem: Problem) -> CpuPeeled | CpuRefinement:
    """Return a problem prepared for passes where these do, or leave a core that is enough smaller; else for sweeps."""
    found = acyclic(problem) or core(problem)
    return CpuPeeled(problem, found) if found else CpuRefinement(problem)
