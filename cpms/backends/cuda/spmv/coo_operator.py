"""Composed sweeps on edges in COO (coordinate format), on native floats: the baselines of `cpms.engines.coo`.

A sweep is a sparse product, the sum of dangling mass, the epilogue and the norms of the change, a kernel or two each,
which a CUDA graph replays. It reads 8 bytes an edge besides the value, and writes and reads a sum a node more than a
fused sweep does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import codec, launch_norms
from cpms.backends.cuda.arrays.launch_norms import Reduction, reduction_blocks
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels import streaming, template
from cpms.backends.cuda.runtime.cuda_graphs import CudaGraphs
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.backends.cuda.spmv.coo import Product
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format, element_type
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.storage.device import on_device


@dataclass(frozen=True)
class SweepKernels:
    """The kernels of a sweep.

    Parameters
    ----------
    product : type
        A product of `cpms.backends.cuda.spmv.coo`.
    dangling, distance : str
        Kernels of the sums over nodes: dangling mass, and norms of the change.
    two_streams : bool
        Whether product and dangling mass run concurrently.
    """

    product: type[Product]
    dangling: str
    distance: str
    two_streams: bool

    def variants(self, real: str) -> list[template.Variant]:
        """Return the kernel variants of sweeps on vectors of a type."""
        kernels = (*self.product.kernels, self.dangling, self.distance, "coo_epilogue")
        return [streaming.native_variant(kernel, real) for kernel in kernels]


@dataclass(frozen=True, eq=False)
class Vector:
    """A device array of float64 or float32 with zeros after the nodes."""

    values: Any


@dataclass(frozen=True, eq=False)
class CooOperator(Operator[Vector]):
    """The operator on edges in device memory; vectors are native floats.

    Parameters
    ----------
    problem : Problem
    storage : Format
    kernels : SweepKernels
    matrix : Product
    dangling_nodes : device array of uint32
    sink, teleport : device arrays of float64, shape (1,) or (nodes,)
    found : device array of float64, shape (5,)
        Dangling mass; L1 norm of the change, its sum of squares, mass, largest change.
    workspaces : pair of Reduction
        Of dangling mass and distance, which two streams may compute at once.
    pool : VectorPool
    cuda_graphs : CudaGraphs
    """

    problem: Problem
    storage: Format
    kernels: SweepKernels
    matrix: Product
    dangling_nodes: Any
    sink: Any
    teleport: Any
    found: Any
    workspaces: tuple[Reduction, Reduction]
    pool: VectorPool[Vector]
    cuda_graphs: CudaGraphs = field(default_factory=CudaGraphs)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.matrix.nbytes

    def load(self, values: Floats) -> Vector:
        """Return float64 values, from host or device memory, as a vector."""
        vector = self.empty()
        given = codec.as_device_array(values) if on_device(values) else current().arrays.asarray(values)
        vector.values[: self.problem.graph.nodes] = given
        current().synchronize()
        return vector

    def empty(self) -> Vector:
        """Return a vector with zeros after the nodes."""
        return self.pool.vector()

    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:
        """Launch product and dangling mass, epilogue, and norms; then wait for their five sums."""
        return self.queue(x, out, level, step, "l1")()

    def queue(self, x: Vector, out: Vector, level: Level, step: int, norm: Norm) -> Callable[[], Sweep]:  # noqa: ARG002
        """Launch a sweep and the copy of its sums to the host; the sums have all norms."""
        self.cuda_graphs.run((x.values, out.values), (), lambda: self.launch(x, out))
        return launch_norms.fetch_sweep_async(self.found)

    def launch(self, x: Vector, out: Vector) -> None:
        """Queue one sweep's kernels without waiting."""
        backend = current()
        concurrent = self.kernels.two_streams and self.dangling_nodes.size > 0
        with backend.second_stream() if concurrent else nullcontext():
            self._sum_dangling(x.values)
        self.matrix.multiply(x.values)
        if concurrent:
            backend.join_streams()
        self._apply_epilogue(out.values)
        self._compute_norms(out.values, x.values)

    def stages(self, x: Vector, out: Vector) -> dict[str, Callable[[], None]]:
        """Return a launch of each stage of a sweep alone, in their order, and one of the whole sweep.

        A graph without dangling nodes lacks the stage ``dangling``.
        """
        dangling = {"dangling": partial(self._sum_dangling, x.values)} if self.dangling_nodes.size else {}
        return {
            "product": partial(self.matrix.multiply, x.values),
            **dangling,
            "update": partial(self._apply_epilogue, out.values),
            "distance": partial(self._compute_norms, out.values, x.values),
            "sweep": partial(self.launch, x, out),
        }

    def multiply(self, x: Vector, out: Vector, *, read: int, write: int, step: int) -> None:  # noqa: ARG002
        """Queue the product alone, into the operator's own memory."""
        self.matrix.multiply(x.values)

    def scale(self, x: Vector, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply the vector by a factor."""
        x.values[:] *= factor

    def to_float64(self, x: Vector, out: Vector) -> tuple[CooOperator, Vector, Vector]:
        """Build the float64 matrix, unless this one is in float64."""
        if self.storage == FP64:
            return self, x, out
        self.cuda_graphs.clear()
        converted = prepared(self.problem, FP64, self.kernels)
        return converted, converted.load(self.read_device(x, 0)), converted.empty()

    def read(self, x: Vector, segments: int) -> Floats:
        """Return the vector in main memory."""
        return current().to_host(self.read_device(x, segments))

    def read_device(self, x: Vector, segments: int) -> Any:  # noqa: ARG002
        """Return the vector as a float64 device array, shape (nodes,)."""
        return x.values[: self.problem.graph.nodes].astype(np.float64)

    def _sum_dangling(self, x: Any) -> None:
        count, workspace = self.dangling_nodes.size, self.workspaces[0]
        if count:
            arguments = (x, self.dangling_nodes, np.uint32(count), workspace.partials, workspace.counter, self.found)
            self.matrix.edges.run(self.kernels.dangling, reduction_blocks(count), arguments)

    def _apply_epilogue(self, out: Any) -> None:
        arguments = (
            *(self.matrix.edges.sums, self.found),
            *(self.sink, np.uint32(self.sink.size > 1), self.teleport, np.uint32(self.teleport.size > 1)),
            *(np.float64(self.problem.damping), np.uint32(self.problem.graph.nodes), out),
        )
        self.matrix.edges.run("coo_epilogue", reduction_blocks(self.problem.graph.nodes), arguments)

    def _compute_norms(self, fresh: Any, old: Any) -> None:
        nodes, workspace = self.problem.graph.nodes, self.workspaces[1]
        arguments = (fresh, old, np.uint32(nodes), workspace.partials, workspace.counter, self.found[1:])
        self.matrix.edges.run(self.kernels.distance, reduction_blocks(nodes), arguments)


def prepared(problem: Problem, storage: Format, kernels: SweepKernels) -> CooOperator:
    """Return an operator on native floats in ``storage``, a format of `element_type`."""
    real, graph, arrays = str(element_type(storage)), problem.graph, current().arrays
    current().compile(kernels.variants(real))

    def vector() -> Vector:
        with current().memory_for(f"a vector of {graph.nodes:,} nodes", storage.nbytes(graph.nodes)):
            return Vector(arrays.zeros(vector_length(graph.nodes), real))

    with current().memory_for(f"{graph.name} in layout 'coo'", device_bytes(problem, storage)):
        made = CooOperator(
            problem=problem,
            storage=storage,
            kernels=kernels,
            matrix=kernels.product.of(graph, real),
            dangling_nodes=arrays.asarray(graph.dangling_nodes.astype(np.uint32)),
            sink=arrays.asarray(problem.sink_or_scalar),
            teleport=arrays.asarray(problem.teleport_or_scalar),
            found=arrays.zeros(5, np.float64),
            workspaces=(Reduction.make(), Reduction.make()),
            pool=VectorPool(vector),
        )
    made.cuda_graphs.prepare(made.pool.pair(), attrgetter("values"), (), made.launch)
    return made


def device_bytes(problem: Problem, storage: Format) -> int:
    """Return about how many bytes of device memory a solve needs, temporary arrays of the upload included."""
    graph = problem.graph
    return (12 + 2 * storage.bytes_read()) * graph.edges + (20 + 3 * storage.bytes_read()) * graph.nodes
