"""Engine ``cusparse``: cuSPARSE's product with cuBLAS's sums and updates, after Agrawal, Shendre and Goka.

It is the baseline of vendor libraries. A sweep consists of separate library calls, so vectors are read several
times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from cpms.backends.cuda.arrays import codec, launch_norms
from cpms.backends.cuda.arrays.launch_norms import Reduction
from cpms.backends.cuda.kernels import streaming, template
from cpms.backends.cuda.runtime.compile import missing
from cpms.backends.cuda.runtime.cuda_graphs import CudaGraphs
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.backends.cuda.runtime.vendor_libraries import Blas, DenseVector, SparseProduct, padded
from cpms.base.types import Floats, Norm
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format, element_type
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import SegmentedArray
from cpms.storage.device import on_device


@dataclass(eq=False)
class Vector:
    """Values on the device, and what the next sweep of them needs.

    Parameters
    ----------
    dense : DenseVector
    dangling : device array of float64, shape (1,)
        Mass on dangling nodes.
    factor : device array, shape (1,)
        By which a sweep adds the distribution that this mass goes to.
    mass : float
        Of all nodes, in host memory.
    """

    dense: DenseVector
    dangling: Any
    factor: Any
    mass: float = 0.0


class LazySweep(Sweep):
    """A sweep whose L2 and maximum norm are computed lazily, before the next sweep."""

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
    """P for cuSPARSE, and what the updates need: teleport, sink, indicator of dangling nodes.

    Nothing but the norm is copied to the host: the dangling mass of the next sweep remains on the device, and launches
    that repeat are made one CUDA graph. cuBLAS adds float32 values in float32, which is too inaccurate for a norm to
    stop at. So vectors of float32 are summed by `cpms.backends.cuda.arrays.launch_norms`.
    """

    problem: Problem
    storage: Format
    product: SparseProduct
    blas: Blas
    teleport: Any
    sink: Any | None
    rest: Any
    dangling_nodes: Any
    indicator: Any
    change: Any
    found: Any
    workspace: Reduction
    pool: VectorPool[Vector]
    cuda_graphs: CudaGraphs = field(default_factory=CudaGraphs)
    lists_dangling: ClassVar[bool] = True
    """Whether sweeps need to know which nodes are dangling."""

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix, cuSPARSE's buffer included."""
        return self.product.nbytes

    def load(self, values: Floats) -> Vector:
        """Return float64 values, of either memory, as a vector."""
        nodes, vector = self.problem.graph.nodes, self.empty()
        given = codec.as_device_array(values) if on_device(values) else current().arrays.asarray(values)
        vector.dense.values[:nodes] = given
        self._measure(vector)
        if self.storage.exact:
            self.blas.abs_sum(vector.dense.values, self.found)
        else:
            launch_norms.plain_norm(self._stored(vector), None, read=1, workspace=self.workspace, result=self.found)
        vector.mass = current().fetch(self.found)[0]
        return vector

    def empty(self) -> Vector:
        """Return a vector with zeros behind the nodes."""
        return self.pool.vector()

    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Multiply, add teleport and dangling mass, take the norm of the change."""
        return self._queued(x, out)()

    def queue(self, x: Vector, out: Vector, level: Level, step: int, norm: Norm) -> Callable[[], Sweep] | None:  # noqa: ARG002
        """Launch a sweep and the copy of its L1 norm; the other norms are computed on request."""
        return self._queued(x, out) if norm == "l1" or not self.storage.exact else None

    def make_ready(self, pair: tuple[Vector, Vector]) -> None:
        """Call each library function of a sweep once, since libraries initialise then; capture CUDA graphs."""
        self.launch(*pair)
        self.cuda_graphs.prepare(pair, attrgetter("dense"), (), self.launch)

    def _queued(self, x: Vector, out: Vector) -> Callable[[], Sweep]:
        self.cuda_graphs.run((x.dense, out.dense), (), lambda: self.launch(x, out))
        noted = current().fetch_async(self.found)

        def found() -> Sweep:
            if not self.storage.exact:
                l1, squares, out.mass, linf = noted().tolist()
                return Sweep(l1, squares**0.5, linf, out.mass)
            # Columns of P and the distributions sum to 1, in float64 to the last bits.
            out.mass = self.problem.damping * x.mass + 1.0 - self.problem.damping
            return self._lazy(float(noted()[0]), out.mass)

        return found

    def _lazy(self, l1: float, mass: float) -> LazySweep:
        lazy = LazySweep(l1, np.nan, np.nan, mass)
        lazy.rest = self._rest
        return lazy

    def launch(self, x: Vector, out: Vector) -> None:
        """Queue one sweep's calls and wait for none."""
        blas, x_values, out_values = self.blas, x.dense.values, out.dense.values
        self.product.multiply(x.dense, out.dense)
        if self.sink is not None:
            blas.add(self.rest, self.teleport, out_values)
        blas.add(x.factor, self.teleport if self.sink is None else self.sink, out_values)
        if self.storage.exact:
            blas.subtract(out_values, x_values, self.change)
            blas.abs_sum(self.change, self.found)
        else:
            launch_norms.difference(
                *(self._stored(out), self._stored(x), None),
                write=1,
                read=1,
                workspace=self.workspace,
                result=self.found,
            )
        self._measure(out)

    def scale(self, x: Vector, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply the vector by a factor."""
        self.blas.scale(factor, x.dense.values)
        self._measure(x)
        x.mass *= factor

    def to_float64(self, x: Vector, out: Vector) -> tuple[CusparseOperator, Vector, Vector]:
        """Build the float64 matrix; a float64 operator is returned unchanged."""
        if self.storage.exact:
            return self, x, out
        converted = prepared(self.problem, FP64, self.product.layout)
        return converted, converted.load(x.dense.values[: self.problem.graph.nodes]), converted.empty()

    def read(self, x: Vector, segments: int) -> Floats:
        """Return the vector in main memory."""
        return current().to_host(self.read_device(x, segments))

    def read_device(self, x: Vector, segments: int) -> Any:  # noqa: ARG002
        """Return the vector as a float64 device array, shape (nodes,)."""
        return x.dense.values[: self.problem.graph.nodes].astype(np.float64)

    def _stored(self, x: Vector) -> SegmentedArray:
        values = x.dense.values
        return SegmentedArray(values.view(np.uint8), values.size, self.storage)

    def _measure(self, x: Vector) -> None:
        """Compute a vector's dangling mass and the constant that a sweep adds."""
        if self.dangling_nodes.size == 0:
            return
        if self.storage.exact:
            self.blas.dot(x.dense.values, self.indicator, x.dangling)
        else:
            launch_norms.selected_sum(
                self._stored(x), self.dangling_nodes, read=1, workspace=self.workspace, result=x.dangling
            )
        damping = self.problem.damping
        constant = 1.0 - damping if self.sink is None else 0.0
        arguments = (x.dangling, np.float64(damping), np.float64(constant), x.factor)
        current().run(template.AFFINE[str(self.rest.dtype)], 1, arguments)

    def _rest(self, norm: str) -> float:
        if norm == "l2":
            self.blas.norm(self.change, self.found)
            return current().fetch(self.found)[0]
        place = current().arrays.zeros(1, np.int32)
        self.blas.largest(self.change, place)
        index = int(current().to_host(place)[0]) - 1
        return abs(float(current().to_host(self.change[index : index + 1])[0]))


class CusparseEngine(Engine):
    """cuSPARSE and cuBLAS, in float64 or float32."""

    name = "cusparse"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "coo")
    stores: tuple[str, ...] = ("fp64", "fp32")
    repeatable = False
    """Which algorithm is fastest may differ from run to run, and cuSPARSE's first adds in any order."""
    takes_device_arrays: ClassVar[bool] = True

    def missing(self) -> str | None:
        """Return which requirement is missing: CuPy or a device."""
        return missing()

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not, also by indices of more than 31 bits and memory."""
        graph = problem.graph
        reason = super().unsupported(problem, storage, layout)
        if reason is not None:
            return reason
        if graph.edges >= 2**31 or graph.nodes >= 2**31:
            return f"engine {self.name} counts nodes and edges below 2^31; {graph.name} has {graph.edges:,} edges"
        needed, free = _needed_bytes(problem), current().free_bytes()
        if needed > free:
            has = f"{graph.name}, but {free:,} are free"
            return f"engine {self.name} needs about {needed:,} bytes of device memory for {has}"
        return None

    def sum_roundoff(self, storage: Format) -> float:
        """Return that of float32 where cuSPARSE adds in it."""
        return 0.0 if storage.exact else 2.0**-24

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CusparseOperator:
        """Upload the matrix and find the fastest way to multiply with it."""
        self.require_supported(problem, storage, layout)
        return prepared(problem, storage, layout)


ENGINE: Engine = CusparseEngine()


def prepared(
    problem: Problem, storage: Format, layout: str, kind: type[CusparseOperator] = CusparseOperator
) -> CusparseOperator:
    """Return an operator of plain floats in ``storage``; cuSPARSE takes the matrix in ``layout``."""
    arrays, graph, dtype = current().arrays, problem.graph, element_type(storage)
    length, exact = padded(graph.nodes), storage.exact

    def vector(values: Floats) -> Any:
        filled = np.zeros(length, dtype)
        filled[: graph.nodes] = values
        return arrays.asarray(filled)

    def new_vector() -> Vector:
        with current().memory_for(f"a vector of {graph.nodes:,} nodes", 8 * graph.nodes):
            dense = DenseVector(arrays.zeros(length, dtype), graph.nodes)
        return Vector(dense, arrays.zeros(1, np.float64), rest.copy())

    current().compile([template.AFFINE[str(dtype)], *([] if exact else _sums(storage))])
    with current().memory_for(f"{graph.name} for cuSPARSE", _needed_bytes(problem)):
        product = SparseProduct(
            layout,
            graph.nodes,
            arrays.asarray((graph.targets if layout == "coo" else graph.indptr).astype(np.int32)),
            arrays.asarray(graph.sources.astype(np.int32, copy=False)),
            arrays.asarray(edge_values(graph).astype(dtype, copy=False)),
            problem.damping,
        )
        one_target = problem.dangling_follows_teleport
        dangling_nodes = graph.dangling_nodes if kind.lists_dangling else np.empty(0, np.int64)
        dangling = len(dangling_nodes) > 0
        rest = arrays.full(1, 1.0 - problem.damping, dtype)
        made = kind(
            problem=problem,
            storage=storage,
            product=product,
            blas=Blas(dtype),
            teleport=vector(problem.teleport_or_scalar),
            sink=None if one_target or not dangling else vector(problem.sink_or_scalar),
            rest=rest,
            dangling_nodes=arrays.asarray(dangling_nodes.astype(np.uint32)),
            indicator=vector((graph.out_degree == 0).astype(np.float64)) if dangling and exact else None,
            change=arrays.zeros(length, dtype) if exact else None,
            found=arrays.zeros(1 if exact else 4, np.float64),
            workspace=Reduction.make(),
            pool=VectorPool(new_vector),
        )
    made.make_ready(made.pool.pair())
    return made


def _needed_bytes(problem: Problem) -> int:
    return 20 * problem.graph.edges + 64 * problem.graph.nodes


def _sums(storage: Format) -> list[template.Variant]:
    return [
        streaming.difference(storage, 1, 1, pattern=False),
        streaming.plain_norm(storage, 1, pattern=False),
        streaming.selected_sum(storage, 1),
    ]
