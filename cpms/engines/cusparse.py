"""cuSPARSE's product with cuBLAS's sums and updates: what Agrawal, Shendre and Goka compose; the baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cpms.cuda import segmented
from cpms.cuda.backend import current
from cpms.cuda.compile import missing
from cpms.cuda.libraries import Blas, CsrProduct, DenseVector, padded
from cpms.engine import Engine, Floats, Operator, Problem, Sweep
from cpms.errors import UnsupportedError
from cpms.format import FP64, FloatFormat, Format
from cpms.precision import Level
from cpms.sparse.edge_values import edge_values


@dataclass(eq=False)
class Vector:
    """Values on the device; their sum over all nodes and over dangling ones, in host memory."""

    dense: DenseVector
    mass: float = 0.0
    dangling: float = 0.0


class LazySweep(Sweep):
    """A sweep whose L2 and largest change are worked out when they are asked for, before the next sweep."""

    rest: Callable[[str], float]

    def __iter__(self) -> Iterator[float]:
        """Iterate as a tuple does, over the four numbers."""
        return iter((self.l1, self.l2, self.linf, self.mass))

    @cached_property
    def l2(self) -> float:  # type: ignore[override]
        """Euclidean norm of the change."""
        return self.rest("l2")

    @cached_property
    def linf(self) -> float:  # type: ignore[override]
        """Largest change."""
        return self.rest("linf")


@dataclass(frozen=True, eq=False)
class CusparseOperator(Operator[Vector]):
    """P in CSR for cuSPARSE, and what the updates need: teleport, sink, indicator of dangling nodes.

    The dangling mass of the next sweep comes with the norm of this one, so that each sweep waits once.
    """

    problem: Problem
    storage: Format
    product: CsrProduct
    blas: Blas
    teleport: Any
    sink: Any | None
    indicator: Any | None
    change: Any
    found: Any

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix, cuSPARSE's buffer included."""
        return self.product.nbytes

    def load(self, values: Floats) -> Vector:
        """Return float64 values, of either memory, as a vector."""
        nodes, vector = self.problem.graph.nodes, self.empty()
        given = segmented.adopted(values) if segmented.is_device_array(values) else current().arrays.asarray(values)
        vector.dense.values[:nodes] = given
        return self._measured(vector)

    def empty(self) -> Vector:
        """Return a vector of zeros."""
        nodes = self.problem.graph.nodes
        with current().memory_for(f"a vector of {nodes:,} nodes", 8 * nodes):
            values = current().arrays.zeros(padded(nodes), self.change.dtype)
        return Vector(DenseVector(values, nodes))

    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Multiply, add teleport and dangling mass, take the norm of the change."""
        damping = self.problem.damping
        self.launch(x, out)
        l1, dangling, mass = current().fetch(self.found)
        out.dangling = dangling
        # Columns of P and the distributions sum to 1, in float64 to the last bits.
        out.mass = damping * x.mass + 1.0 - damping if self.storage.exact else mass
        lazy = LazySweep(l1, np.nan, np.nan, out.mass)
        lazy.rest = self._rest
        return lazy

    def launch(self, x: Vector, out: Vector) -> None:
        """Queue one sweep's calls and wait for none."""
        damping, blas = self.problem.damping, self.blas
        x_values, out_values = x.dense.values, out.dense.values
        self.product.multiply(x.dense, out.dense)
        if self.sink is None:
            blas.add(1.0 - damping + damping * x.dangling, self.teleport, out_values)
        else:
            blas.add(1.0 - damping, self.teleport, out_values)
            blas.add(damping * x.dangling, self.sink, out_values)
        blas.subtract(out_values, x_values, self.change)
        blas.abs_sum(self.change, self.found)
        self._measure(out)

    def scale(self, x: Vector, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply the vector by a factor."""
        self.blas.scale(factor, x.dense.values)
        x.mass *= factor
        x.dangling *= factor

    def to_float64(self, x: Vector, out: Vector) -> tuple[CusparseOperator, Vector, Vector]:
        """Build the float64 matrix; plain float64 stays as it is."""
        if self.storage.exact:
            return self, x, out
        converted = prepared(self.problem, FP64)
        return converted, converted.load(x.dense.values[: self.problem.graph.nodes]), converted.empty()

    def read(self, x: Vector, segments: int) -> Floats:
        """Return the vector in main memory."""
        return current().to_host(self.read_device(x, segments)).astype(np.float64, copy=False)

    def read_device(self, x: Vector, segments: int) -> Any:  # noqa: ARG002
        """Return the vector as a device array, shape (nodes,)."""
        return x.dense.values[: self.problem.graph.nodes]

    def _measure(self, x: Vector) -> None:
        if self.indicator is not None:
            self.blas.dot(x.dense.values, self.indicator, self.found[1:])
        if not self.storage.exact:
            self.blas.abs_sum(x.dense.values, self.found[2:])

    def _measured(self, x: Vector) -> Vector:
        self._measure(x)
        self.blas.abs_sum(x.dense.values, self.found[2:])
        _, x.dangling, x.mass = current().fetch(self.found)
        return x

    def _rest(self, norm: str) -> float:
        if norm == "l2":
            self.blas.norm(self.change, self.found)
            return current().fetch(self.found[:1])[0]
        place = current().arrays.zeros(1, np.int32)
        self.blas.largest(self.change, place)
        index = int(current().to_host(place)[0]) - 1
        return abs(float(current().to_host(self.change[index : index + 1])[0]))


class CusparseEngine(Engine):
    """cuSPARSE and cuBLAS, in float64 or float32."""

    name: ClassVar[str] = "cusparse"
    layouts: ClassVar[tuple[str, ...]] = ("csr",)
    repeatable: ClassVar[bool] = False
    """Which algorithm is fastest may differ from run to run, and cuSPARSE's first adds in any order."""

    def missing(self) -> str | None:
        """Return what is missing: CuPy or a device."""
        return missing()

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: formats other than fp64 and fp32, indices of more than 31 bits, memory."""
        graph = problem.graph
        reason = super().unsupported(problem, storage, layout)
        if reason is not None:
            return reason
        if _element_type(storage) is None:
            return f"engine cusparse stores fp64 and fp32, not {storage.name}; use engine cuda"
        if graph.edges >= 2**31 or graph.nodes >= 2**31:
            return f"engine cusparse counts nodes and edges below 2^31; {graph.name} has {graph.edges:,} edges"
        needed, free = 16 * graph.edges + 64 * graph.nodes, current().free_bytes()
        if needed > free:
            return (
                f"engine cusparse needs about {needed:,} bytes of device memory for {graph.name}, but {free:,} are free"
            )
        return None

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CusparseOperator:
        """Upload the matrix and find the fastest way to multiply with it."""
        reason = self.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)
        return prepared(problem, storage)


ENGINE: Engine = CusparseEngine()


def prepared(problem: Problem, storage: Format) -> CusparseOperator:
    """Return an operator of plain floats in ``storage``."""
    arrays, graph, dtype = current().arrays, problem.graph, _element_type(storage)
    length = padded(graph.nodes)

    def vector(values: Floats) -> Any:
        filled = np.zeros(length, dtype)
        filled[: graph.nodes] = values
        return arrays.asarray(filled)

    needed_bytes = 16 * graph.edges + 64 * graph.nodes
    with current().memory_for(f"{graph.name} for cuSPARSE", needed_bytes):
        product = CsrProduct(
            arrays.asarray(graph.indptr.astype(np.int32)),
            arrays.asarray(graph.sources.astype(np.int32, copy=False)),
            arrays.asarray(edge_values(graph).astype(dtype, copy=False)),
            problem.damping,
        )
        one_target = problem.teleport is None or problem.dangling == "teleport"
        dangling = len(graph.dangling_nodes) > 0
        return CusparseOperator(
            problem=problem,
            storage=storage,
            product=product,
            blas=Blas(dtype),
            teleport=vector(problem.teleport_or_scalar),
            sink=None if one_target or not dangling else vector(problem.sink_or_scalar),
            indicator=vector((graph.out_degree == 0).astype(np.float64)) if dangling else None,
            change=arrays.zeros(length, dtype),
            found=arrays.zeros(3, dtype),
        )


def _element_type(storage: Format) -> Any:
    if isinstance(storage, FloatFormat):
        is_single = (storage.exponent_bits, storage.mantissa_bits) == (8, 23) and not storage.scaled
        return np.float32 if is_single and storage.rounding == "nearest" else None
    return np.float64 if storage.segments == 1 else None
