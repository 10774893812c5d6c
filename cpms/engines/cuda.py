"""Engine ``cuda``: sweeps composed of several CUDA kernels, as in the CPMS paper.

Rows are balanced over warps by edges, or have one thread each. Captured CUDA graphs replay the launches of a sweep.
Method ``refine`` and batches have kernels of their own in `cpms.backends.cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

from cpms.backends.cuda.arrays import codec, launch_norms, vectors
from cpms.backends.cuda.batch import power
from cpms.backends.cuda.batch.power import CudaBatch
from cpms.backends.cuda.batch.refinement import CudaRefinementBatch
from cpms.backends.cuda.device_engine import DeviceEngine
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.reduction import reduced_refinement
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.cuda_graphs import CudaGraphs
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.backends.cuda.spmv import reordering as reorderings
from cpms.backends.cuda.spmv.launch_spmv import Epilogue
from cpms.backends.cuda.spmv.matrices import BalancedCsr, Ell, Matrix, ThreadCsr, device_bytes
from cpms.backends.cuda.spmv.operator_data import OperatorData
from cpms.backends.cuda.spmv.padded_csr import out_degree
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.base.types import Floats, Norm
from cpms.contracts.batch import Batch, RefinementBatch
from cpms.contracts.operator import Operator, Sweep
from cpms.contracts.own_codecs import TakesCodecs
from cpms.contracts.refinement import Refinement
from cpms.engines import composed
from cpms.formats.formats import FP64, FloatFormat, Format
from cpms.formats.quantization import step_seed
from cpms.graph.graph import Graph
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem
from cpms.storage.array import SegmentedArray
from cpms.storage.device import on_device

_TO_FLOAT64 = (0, 0)
"""Key of the CUDA graphs of the conversion; those of sweeps have segments read and written."""


@dataclass(frozen=True, eq=False)
class CudaOperator(Operator[SegmentedArray]):
    """A matrix in device memory; vectors are device arrays in the storage format."""

    problem: Problem
    storage: Format
    kernel: str
    matrix: Matrix
    work: OperatorData
    pool: VectorPool[SegmentedArray]
    cuda_graphs: CudaGraphs = field(default_factory=CudaGraphs)
    converted: CudaOperator | None = None
    """The operator that `to_float64` of segments returns."""

    @classmethod
    def of(cls, problem: Problem, storage: Format, kernel: str, matrix: Matrix, work: OperatorData) -> CudaOperator:
        """Return an operator with vectors, and CUDA graphs of the sweeps at each level that controllers use."""
        nodes, converted = problem.graph.nodes, None
        pool = VectorPool(lambda: _new_vector(nodes, storage))
        own = pool.pair()
        if storage.exact and storage != FP64:
            converted = cls(problem, FP64, kernel, matrix, work, VectorPool(lambda: _new_vector(nodes, FP64)))
            x, out = (SegmentedArray(vector.memory, vector.length, FP64) for vector in own)
            converted._capture((x, out))
        made = cls(problem, storage, kernel, matrix, work, pool, converted=converted)
        made._capture(own)
        return made

    def _capture(self, pair: tuple[SegmentedArray, SegmentedArray]) -> None:
        if _differs_by_step(self.storage):
            return
        for read, write in streaming.levels(self.storage):
            launch = partial(self.launch, read=read, write=write, step=0)
            self.cuda_graphs.prepare(pair, attrgetter("memory"), (read, write), launch)
        if self.converted is not None:
            self.cuda_graphs.prepare(pair, attrgetter("memory"), _TO_FLOAT64, self._to_float64)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.matrix.nbytes + self.work.nbytes

    def load(self, values: Floats) -> SegmentedArray:
        """Return float64 values, of either memory, as a vector."""
        given = codec.as_device_array(values) if on_device(values) else current().arrays.asarray(values)
        vector = self.empty()
        vectors.write(vector, self.work.to_stored(given))
        current().synchronize()
        return vector

    def empty(self) -> SegmentedArray:
        """Return a vector with zeros behind the nodes."""
        return self.pool.vector()

    def sweep(self, x: SegmentedArray, out: SegmentedArray, level: Level, step: int) -> Sweep:
        """Launch dangling mass, product with update, and norms; then wait for five numbers."""
        return self.queue(x, out, level, step, "l1")()

    def queue(self, x: SegmentedArray, out: SegmentedArray, level: Level, step: int, norm: Norm) -> Callable[[], Sweep]:  # noqa: ARG002
        """Launch a sweep and the copy of its norms to the host."""
        read, write = self._checked(level)
        launch = partial(self.launch, x, out, read=read, write=write, step=step)
        if _differs_by_step(self.storage):
            launch()
        else:
            self.cuda_graphs.run((x.memory, out.memory), (read, write), launch)
        return launch_norms.fetch_sweep_async(self.work.found)

    def launch(self, x: SegmentedArray, out: SegmentedArray, *, read: int, write: int, step: int) -> None:
        """Queue one sweep's kernels and wait for none."""
        work = self.work
        if work.dangling_nodes.size:
            launch_norms.selected_sum(x, work.dangling_nodes, read=read, workspace=work.workspace, result=work.found)
        self.multiply(x, out, read=read, write=write, step=step)
        launch_norms.difference(
            out, x, work.divisor, write=write, read=read, workspace=work.workspace, result=work.found[1:]
        )

    def multiply(self, x: SegmentedArray, out: SegmentedArray, *, read: int, write: int, step: int) -> None:
        """Enqueue the product and the update alone, with the last dangling mass."""
        self.matrix.multiply(x, out, self._epilogue(x, step), read=read, write=write)

    def scale(self, x: SegmentedArray, factor: float, segments: int) -> None:
        """Multiply the vector by a factor."""
        launch_norms.scale(x, factor, segments=segments or self.storage.segments)

    def to_float64(self, x: SegmentedArray, out: SegmentedArray) -> tuple[CudaOperator, SegmentedArray, SegmentedArray]:
        """Convert to float64: segments within the memory of both vectors, packed floats into new memory."""
        if self.storage.exact:
            if self.converted is None:
                return self, x, out
            self.cuda_graphs.run((x.memory, out.memory), _TO_FLOAT64, partial(self._to_float64, x, out))
            y, other = (SegmentedArray(vector.memory, vector.length, FP64) for vector in (out, x))
            return self.converted, y, other
        self.cuda_graphs.clear()
        matrix = self.matrix.to_float64(self.problem.graph)
        made = CudaOperator.of(self.problem, FP64, self.kernel, matrix, self.work)
        vector = made.empty()
        vectors.write(vector, vectors.read(x, self.problem.graph.nodes, None))
        return made, vector, made.empty()

    def _to_float64(self, x: SegmentedArray, out: SegmentedArray) -> None:
        vectors.to_float64(x, out, self.problem.graph.nodes)

    def read(self, x: SegmentedArray, segments: int) -> Floats:
        """Return the vector in main memory."""
        return current().to_host(self.read_device(x, segments))

    def read_device(self, x: SegmentedArray, segments: int) -> Any:
        """Return the vector as a float64 device array, shape (nodes,)."""
        return self.work.to_real(vectors.read(x, self.problem.graph.nodes, segments or None))

    def _epilogue(self, x: SegmentedArray, step: int) -> Epilogue:
        damping, work, values = self.problem.damping, self.work, self.matrix.values
        to_real = 2.0**-x.exponent
        return Epilogue(
            row_factor=damping * to_real * 2.0 ** -(0 if values is None else values.exponent),
            dangling_factor=damping * to_real,
            teleport_factor=1.0 - damping,
            to_stored=2.0**x.exponent,
            dangling=work.found,
            sink=work.sink,
            teleport=work.teleport,
            divisor=work.divisor,
            seed=_seed(self.storage, step),
        )

    def _checked(self, level: Level) -> tuple[int, int]:
        if level == FLOAT64:
            return 1, 1
        return self.storage.checked_read(level.read), self.storage.checked_read(level.write)


class CudaEngine(DeviceEngine):
    """Composed CUDA kernels.

    Parameters
    ----------
    name : str
    methods : tuple of str
    thread_rows : bool or None
        One thread a row, as in the CPMS paper, rather than equal shares of edges for each warp; None: the faster one.
    """

    layouts: ClassVar[tuple[str, ...]] = ("csr", "ell", "pattern")
    works_with_weights: tuple[str, ...] = ("power", "refine", "batch")
    repeatable = True
    takes_codecs: ClassVar[TakesCodecs] = "cuda"

    def __init__(
        self, name: str = "cuda", methods: tuple[str, ...] = ("power", "refine"), *, thread_rows: bool | None = None
    ) -> None:
        self.name, self.methods, self.thread_rows = name, methods, thread_rows

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: a layout, 32-bit counts, or device memory."""
        graph = problem.graph
        reason = super().unsupported(problem, storage, layout)
        if reason is not None:
            return reason
        advice = "use csr" if layout == "ell" else "use a smaller graph, the pattern layout, or engine cpu"
        what = f"{graph.name} in layout {layout!r}"
        return memory_limits.refusal(self.name, graph, device_bytes(graph, storage, layout), what=what, advice=advice)

    def kernel(self, graph: Graph, layout: str) -> str:
        """Return the kernel that multiplies a graph in a layout."""
        if layout == "ell":
            return "spmv_ell"
        threads = ThreadCsr.is_faster(graph) if self.thread_rows is None else self.thread_rows
        return "spmv_csr_thread" if threads else "spmv_csr_balanced"

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CudaOperator:
        """Compile the kernels for the levels of the paper's precision rule, and build the matrix on the device."""
        self.require_supported(problem, storage, layout)
        kernel = self.kernel(problem.graph, layout)
        current().compile(streaming.composed_sweeps(kernel, storage, pattern=layout == "pattern"))
        needed_bytes = device_bytes(problem.graph, storage, layout)
        with current().memory_for(f"{problem.graph.name} in layout {layout!r}", needed_bytes):
            reordering = None
            if kernel == "spmv_csr_balanced":
                reordering = reorderings.chosen(problem.graph, out_degree(problem.graph))
            matrix = _build(kernel, problem.graph, None if layout == "pattern" else storage, reordering)
            work = OperatorData.of(problem, pattern=layout == "pattern", reordering=reordering)
            return CudaOperator.of(problem, storage, kernel, matrix, work)

    def batch(self, problem: Problem) -> Batch:
        """Arrange the graph for queries that share its edges."""
        if problem.needs_products:
            return composed.CUDA.batch(problem)
        return power.prepared(CudaBatch, problem, self.name, power.POWER_BYTES)

    def refinement_batch(self, problem: Problem) -> RefinementBatch:
        """Arrange the graph for queries that share its edges, by method ``refine``."""
        if problem.needs_products:
            return composed.CUDA.refinement_batch(problem)
        return power.prepared(CudaRefinementBatch, problem, self.name, power.REFINE_BYTES)

    def refinement(self, problem: Problem) -> Refinement:
        """Prepare the graph for persistent kernels, and with weights for products."""
        if problem.graph.weights is not None:
            return composed.CUDA.refinement(problem)
        return reduced_refinement.prepared(problem, self.name, self.solves)


ENGINES = (
    CudaEngine(),
    CudaEngine("cuda_thread_rows", ("power",), thread_rows=True),
    CudaEngine("cuda_balanced_rows", ("power",), thread_rows=False),
)


def _build(kernel: str, graph: Graph, storage: Format | None, reordering: Reordering | None) -> Matrix:
    if kernel == "spmv_csr_thread":
        return ThreadCsr.build(graph, storage)
    if kernel == "spmv_csr_balanced":
        return BalancedCsr.build(graph, storage, reordering=reordering)
    assert storage is not None  # noqa: S101  # ELL stores values.
    return Ell.build(graph, storage)


def _new_vector(nodes: int, storage: Format) -> SegmentedArray:
    with current().memory_for(f"a vector of {nodes:,} nodes", storage.nbytes(nodes)):
        return vectors.zeros(nodes, storage)


def _differs_by_step(storage: Format) -> bool:
    return isinstance(storage, FloatFormat) and storage.rounding == "stochastic"


def _seed(storage: Format, step: int) -> int:
    seed = storage.seed if isinstance(storage, FloatFormat) else 0
    return step_seed(seed, step)
