"""Engine ``serial``: one thread, plain loops over rows; speedups are relative to its time.

It corrects the algorithm of Agrawal, Shendre and Goka, which adds omega v to the product y = damping P x.
Printed is omega = ||x_k+1|| - ||x_k||, which has the wrong sign, and x_k+1 on both sides of the
product. With omega = ||x_k||_1 - ||y||_1, at least 0, teleport and the mass of dangling nodes are
added at once: mass is conserved, and no list of dangling nodes is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms.base.jit import compiled
from cpms.base.types import Floats
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse import transition_values
from cpms.sparse.csr import unsigned_indptr, unsigned_sources
from cpms.sparse.transition_values import edge_values

_BLOCK = 1024
"""Rows summed on their own, since a running sum over a long vector would lose more than a solve may."""


@dataclass(frozen=True, eq=False)
class SerialOperator(Operator[Floats]):
    """P by rows; vectors hold x / ``divisor`` in the pattern layout, which has no ``values``; in csr that is empty.

    Examples
    --------
    >>> from cpms.graph.graph import Graph
    >>> operator = ENGINE.prepare(Problem(Graph.from_edges([0, 1], [1, 2])), FP64, "csr")
    >>> out = operator.empty()
    >>> _ = operator.sweep(np.full(3, 1 / 3), out, Level(1, 1), 0)
    >>> (out * 60).round(9).tolist()
    [8.666666667, 25.666666667, 25.666666667]
    """

    problem: Problem
    storage: Format
    indptr: npt.NDArray[Any]
    sources: npt.NDArray[Any]
    values: Floats
    divisor: npt.NDArray[np.uint32]
    takes_problems: ClassVar[bool] = True

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.indptr.nbytes + self.sources.nbytes + self.values.nbytes + self.divisor.nbytes

    def load(self, values: Floats) -> Floats:
        """Return the stored values."""
        return values / self.divisor if len(self.divisor) else values.copy()

    def empty(self) -> Floats:
        """Return a vector."""
        return np.empty(self.problem.graph.nodes)

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        """Write rows ``low`` to ``high`` of damping P x, as they are stored, into ``out``."""
        _multiply(self.indptr, self.sources, self.values, self.divisor, x, self.problem.damping, out, low, high)

    def sweep(self, x: Floats, out: Floats, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Multiply, and give back the mass that this lost."""
        problem = self.problem
        self.multiply(x, out, 0, len(out))
        mass = _mass(x, self.divisor)
        omega = mass - _mass(out, self.divisor)
        rest = (1.0 - problem.damping) * mass
        # Where dangling mass goes where teleport does, this adds omega v.
        sink, teleport = problem.sink_or_scalar, problem.teleport_or_scalar
        return Sweep(*_add(out, x, self.divisor, max(omega - rest, 0.0), sink, rest, teleport))

    def scale(self, x: Floats, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply in place."""
        x *= factor

    def read(self, x: Floats, segments: int) -> Floats:  # noqa: ARG002
        """Return the vector."""
        return x * self.divisor if len(self.divisor) else x


class SerialEngine(Engine):
    """Compiled loops of one thread, without any blocking or sorting of rows."""

    name = "serial"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "pattern")
    stores: tuple[str, ...] = ("fp64",)
    mass_roundoff: ClassVar[float] = 2.0**-51
    repeatable = True

    def prepare(self, problem: Problem, storage: Format, layout: str) -> SerialOperator:
        """Compute the values, or the divisor of vectors."""
        self.require_supported(problem, storage, layout)
        graph, stored = problem.graph, layout == "csr"
        values = edge_values(graph) if stored else np.empty(0)
        divisor = np.empty(0, np.uint32) if stored else transition_values.divisor(graph)
        return SerialOperator(problem, FP64, unsigned_indptr(graph), unsigned_sources(graph), values, divisor)


ENGINE = SerialEngine()


@compiled(error_model="numpy")
def _multiply(indptr, sources, values, divisor, x, damping, out, low, high):  # type: ignore[no-untyped-def]
    for row in range(low, high):
        total = 0.0
        if len(divisor):
            for k in range(indptr[row], indptr[row + 1]):
                total += x[sources[k]]
            out[row] = damping * total / divisor[row]
        else:
            for k in range(indptr[row], indptr[row + 1]):
                total += values[k] * x[sources[k]]
            out[row] = damping * total


@compiled()
def _mass(x, divisor):  # type: ignore[no-untyped-def]
    total = 0.0
    for begin in range(0, len(x), _BLOCK):
        part = 0.0
        for row in range(begin, min(begin + _BLOCK, len(x))):
            part += x[row] * divisor[row] if len(divisor) else x[row]
        total += part
    return total


@compiled(error_model="numpy")
def _add(out, x, divisor, dangling, sink, rest, teleport):  # type: ignore[no-untyped-def]
    l1 = squares = linf = mass = 0.0
    for begin in range(0, len(x), _BLOCK):
        part_l1 = part_squares = part_mass = 0.0
        for row in range(begin, min(begin + _BLOCK, len(x))):
            factor = np.float64(divisor[row]) if len(divisor) else 1.0
            added = dangling * sink[row * (len(sink) > 1)] + rest * teleport[row * (len(teleport) > 1)]
            out[row] += added / factor
            change = abs(out[row] - x[row]) * factor
            part_l1 += change
            part_squares += change * change
            part_mass += out[row] * factor
            linf = max(linf, change)
        l1 += part_l1
        squares += part_squares
        mass += part_mass
    return l1, np.sqrt(squares), linf, mass
