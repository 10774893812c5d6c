"""Engine ``scipy``: one float64 CSR product of SciPy an iteration, all other steps in NumPy.

It is the baseline of common Python code. It runs on one thread and reads vectors several times a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cpms.base.types import Floats
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse.transition_values import edge_values


@dataclass(frozen=True, eq=False)
class ScipyOperator(Operator[Floats]):
    """P as a SciPy CSR array, and scratch vectors made once."""

    problem: Problem
    storage: Format
    matrix: Any
    change: Floats
    takes_problems: ClassVar[bool] = True

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return int(self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes)

    def load(self, values: Floats) -> Floats:
        """Return a copy."""
        return values.copy()

    def empty(self) -> Floats:
        """Return a vector."""
        return np.empty(self.problem.graph.nodes)

    def sweep(self, x: Floats, out: Floats, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Multiply, then finish the vector in place."""
        problem, change = self.problem, self.change
        np.multiply(self.matrix @ x, problem.damping, out=out)
        dangling = problem.damping * x[problem.graph.dangling_nodes].sum()
        out += dangling * problem.sink_or_scalar + (1.0 - problem.damping) * problem.teleport_or_scalar
        np.abs(np.subtract(out, x, out=change), out=change)
        return Sweep(
            float(change.sum()), float(np.sqrt(np.square(change).sum())), float(change.max()), float(out.sum())
        )

    def scale(self, x: Floats, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply in place."""
        x *= factor

    def read(self, x: Floats, segments: int) -> Floats:  # noqa: ARG002
        """Return the vector."""
        return x


class ScipyEngine(Engine):
    """The baseline without this package."""

    name = "scipy"
    layouts: ClassVar[tuple[str, ...]] = ("csr",)
    stores: tuple[str, ...] = ("fp64",)
    repeatable = True

    def prepare(self, problem: Problem, storage: Format, layout: str) -> ScipyOperator:
        """Build the CSR array."""
        import scipy.sparse

        self.require_supported(problem, storage, layout)
        graph = problem.graph
        indptr = graph.indptr.astype(graph.sources.dtype) if graph.edges < 2**31 else graph.indptr
        shape = (graph.nodes, graph.nodes)
        matrix = scipy.sparse.csr_array((edge_values(graph), graph.sources, indptr), shape=shape)
        return ScipyOperator(problem, FP64, matrix, np.empty(graph.nodes))


ENGINE = ScipyEngine()
