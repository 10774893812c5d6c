"""Power iteration with a format that has a codec of its own: products by tiles of decoded values.

A sweep decodes the whole vector, multiplies with values that are decoded tile by tile into a core's cache, and encodes
the new vector. It costs one read of the entries in the format's bytes, and some passes over vectors of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cpms.backends.cpu.product import CpuProduct
from cpms.base.types import Floats
from cpms.contracts.operator import Operator, Sweep
from cpms.contracts.product_request import ProductRequest
from cpms.formats.formats import Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse import transition_values
from cpms.sparse.transition import edge_matrix
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import SegmentedArray, distribution_vector


@dataclass(frozen=True, eq=False)
class CodecOperator(Operator[SegmentedArray]):
    """A matrix in main memory, in the order of its edges; in the pattern layout vectors hold x / ``divisor``."""

    problem: Problem
    storage: Format
    product: CpuProduct
    divisor: Floats
    in_float64: Callable[[], Operator[SegmentedArray]]
    """A function that prepares the same problem in float64."""

    @classmethod
    def of(
        cls, problem: Problem, storage: Format, layout: str, in_float64: Callable[[], Operator[SegmentedArray]]
    ) -> CodecOperator:
        """Store the matrix in a format of the protocol."""
        graph, without_values = problem.graph, layout == "pattern"
        values = None if without_values else edge_values(graph)
        matrix = edge_matrix(graph, values)
        request = ProductRequest(None if without_values else storage, "csr" if without_values else layout)
        divisor = transition_values.divisor(graph).astype(np.float64) if without_values else np.ones(graph.nodes)
        return cls(problem, storage, CpuProduct.of(matrix, request), divisor, in_float64)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.product.nbytes

    def load(self, values: Floats) -> SegmentedArray:
        """Return float64 values as a vector."""
        vector = self.empty()
        vector.write(values / self.divisor)
        return vector

    def empty(self) -> SegmentedArray:
        """Return a vector of zeros."""
        return distribution_vector(self.problem.graph.nodes, self.storage)

    def sweep(self, x: SegmentedArray, out: SegmentedArray, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Decode, multiply, add teleport and dangling mass, encode, and take norms of what was encoded."""
        problem, total = self.problem, np.empty(self.problem.graph.nodes)
        old = x.decode(level.read)
        self.product.apply(old, total, read_matrix=None if self.product.values is None else level.read)
        dangling = float(old[problem.graph.dangling_nodes].sum())
        new = problem.damping * (total + dangling * problem.sink_or_scalar)
        new += (1.0 - problem.damping) * problem.teleport_or_scalar
        out.write(new / self.divisor)
        stored = out.decode(level.write)
        change = np.abs(stored - old) * self.divisor
        norms = float(change.sum()), float(np.sqrt((change**2).sum())), float(change.max(initial=0.0))
        return Sweep(*norms, float((stored * self.divisor).sum()))

    def scale(self, x: SegmentedArray, factor: float, segments: int) -> None:
        """Multiply the vector by a factor, and round it again."""
        x.write(x.decode(segments or None) * factor)

    def to_float64(
        self,
        x: SegmentedArray,
        out: SegmentedArray,  # noqa: ARG002
    ) -> tuple[Operator[SegmentedArray], SegmentedArray, SegmentedArray]:
        """Prepare the matrix again, and convert the vector."""
        converted = self.in_float64()
        return converted, converted.load(self.read(x, 0)), converted.empty()

    def read(self, x: SegmentedArray, segments: int) -> Floats:
        """Return the vector as float64."""
        return x.decode(segments or None) * self.divisor
