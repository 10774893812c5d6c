"""PageRank's sweep composed of the operations of a linear operator: one code for every backend that multiplies.

A sweep x' = damping (P x + s w) + (1 - damping) v is a product with P, a rank-one update by the mass s on dangling
nodes, and teleport (Langville and Meyer, Deeper inside PageRank, 2004). The CPMS paper composes its sweeps in this way.
The product adds both distributions and sums x' in its own pass; the norms of the change cost further passes over
vectors. Fused sweeps save these. `cpms.contracts.operator.Operator` is the contract of both, so their difference can be
measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cpms.base.types import Floats
from cpms.contracts.linear_operator import Epilogue, LinearOperator
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format, element_type
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem


class Distributions:
    """The teleport distribution v and the sink w of a problem, in the memory of an operator."""

    def __init__(self, operator: LinearOperator, problem: Problem) -> None:
        self._operator, self._damping = operator, problem.damping
        self.teleport = self._spread(problem.teleport_or_scalar)
        follows = problem.dangling_follows_teleport
        self.sink = self.teleport if follows else self._spread(problem.sink_or_scalar)

    def _spread(self, values: Floats) -> Any:
        return self._operator.to_memory(np.broadcast_to(values, self._operator.shape[:1]))

    def added(self, dangling_mass: float) -> tuple[Any, float]:
        """Return a vector and a factor whose product is damping s w + (1 - damping) v."""
        to_sink, to_teleport = self._damping * dangling_mass, 1.0 - self._damping
        if self.sink is self.teleport:
            return self.teleport, to_sink + to_teleport
        both = zeros(self._operator)
        self._operator.combine([self.teleport, self.sink], [to_teleport, to_sink], both)
        return both, 1.0


def zeros(operator: LinearOperator, dtype: Any = np.float64) -> Any:
    """Return a plain vector of zeros in the memory of an operator."""
    made = operator.empty(operator.shape[:1], dtype)
    made.fill(0.0)
    return made


def dangling_indicator(operator: LinearOperator, problem: Problem) -> Any | None:
    """Return a vector of 1 for each dangling node and 0 for the others; None if there are none."""
    dangling = problem.graph.dangling_nodes
    if not len(dangling):
        return None
    indicator = np.zeros(problem.graph.nodes)
    indicator[dangling] = 1.0
    return operator.to_memory(indicator)


@dataclass(frozen=True, eq=False)
class ComposedOperator(Operator[Any]):
    """A transition matrix as a linear operator, and the sweep by its operations.

    Vectors of float64 and float32 are plain arrays; others are stored in the format.

    Parameters
    ----------
    problem : Problem
    storage : Format
        Format of vectors and of the matrix's values.
    prepare : function of a Format
        Stores the transition matrix in that format.
    product : LinearOperator
        The matrix in ``storage``.
    """

    problem: Problem
    storage: Format
    prepare: Callable[[Format], LinearOperator]
    product: LinearOperator

    @classmethod
    def of(cls, problem: Problem, storage: Format, prepare: Callable[[Format], LinearOperator]) -> ComposedOperator:
        """Store the matrix."""
        return cls(problem, storage, prepare, prepare(storage))

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.product.nbytes

    def load(self, values: Floats) -> Any:
        """Return float64 values, of either memory, as a vector."""
        vector = self.empty()
        self.product.combine([self.product.to_memory(values)], [1.0], vector)
        return vector

    def empty(self) -> Any:
        """Return a vector of zeros; entries of a distribution fit without a scale of their own."""
        dtype = element_type(self.storage)
        if dtype is not None:
            return zeros(self.product, dtype)
        vector = self.product.convert(self._ones, self.storage)
        self.product.scale(vector, 0.0)
        return vector

    def sweep(self, x: Any, out: Any, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Do the product and the rank-one update in one pass over ``out``, and the norms in passes of their own."""
        product, (read, write) = self.product, (None, None) if level == FLOAT64 else (level.read, level.write)
        of_x, of_out = (None, None) if self._plain else (read, write)
        mass = 0.0 if self._dangling is None else float(product.dots([x], self._dangling, [of_x])[0])
        add, factor = self._distributions.added(mass)
        epilogue = Epilogue(add, factor, dot=self._ones)
        reads: dict[str, Any] = {"read_matrix": read, "read_x": of_x, "write": of_out}
        total = product.apply(x, out, alpha=self.problem.damping, epilogue=epilogue, **reads)
        assert total is not None  # noqa: S101  # The epilogue asks for it.
        change = product.convert(out, None, of_out)
        return Sweep(*product.update_and_norms(change, -1.0, product.convert(x, None, of_x)), total)

    def scale(self, x: Any, factor: float, segments: int) -> None:
        """Multiply the vector by a factor."""
        self.product.scale(x, factor, None if self._plain else segments or None)

    def to_float64(self, x: Any, out: Any) -> tuple[ComposedOperator, Any, Any]:
        """Store the matrix and both vectors anew."""
        if self.storage == FP64:
            return self, x, out
        converted = self.of(self.problem, FP64, self.prepare)
        return converted, self.product.convert(x, None), converted.empty()

    def read(self, x: Any, segments: int) -> Floats:
        """Return the vector in main memory."""
        return self.product.to_host(self._read(x, segments))

    def read_device(self, x: Any, segments: int) -> Any | None:
        """Return the vector as a float64 device array; None where vectors lie in main memory."""
        return self._read(x, segments) if self.product.memory == "device" else None

    def _read(self, x: Any, segments: int) -> Any:
        return self.product.convert(x, None, None if self._plain else segments or None)

    @property
    def _plain(self) -> bool:
        return element_type(self.storage) is not None

    @cached_property
    def _ones(self) -> Any:
        return self.product.to_memory(np.ones(self.problem.graph.nodes))

    @cached_property
    def _dangling(self) -> Any | None:
        return dangling_indicator(self.product, self.problem)

    @cached_property
    def _distributions(self) -> Distributions:
        return Distributions(self.product, self.problem)
