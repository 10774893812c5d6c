"""Engine ``opencl``: the three stages of Jiang's report, two with a work-item an edge, one with a work-item a node.

Layouts name the stages. ``coo`` divides at every edge and adds atomically. ``coo_exchange`` divides once a node, in the
kernel ``exchange``, before it adds atomically, and ``pattern`` before it adds up rows, each in a register. ``csr`` adds
up rows of stored values. Unlike in the report, mass of dangling nodes goes where the problem says, and the ranks
outlive the last ``exchange``. `cpms.backends.opencl.Choice` chooses device, work-group size and cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cpms.backends.opencl import choice
from cpms.backends.opencl import device as devices
from cpms.backends.opencl.program import PART_ROWS, WIDTH, Program, Types, program
from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format, element_type
from cpms.graph.graph import Graph
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse.transition_values import edge_values

_NUMBERS = 5
"""Numbers that the kernels of norms compute: L1, sum of squares, largest, mass, mass on dangling nodes."""
_COO = ("coo", "coo_exchange")
_STAGES = {
    "coo": ("edges_divided", "edges", ("sources", "targets")),
    "coo_exchange": ("edges_contributed", "edges", ("sources", "targets")),
    "pattern": ("rows_contributed", "nodes", ("starts", "sources")),
    "csr": ("rows_valued", "nodes", ("starts", "sources", "values")),
}
"""Kernel of each layout, the unit of a work-item, and the arrays of the matrix that it reads."""

_launched: set[tuple[Any, ...]] = set()
"""Configurations that kernels have run in: device, types, layout, work-group size, nodes and edges."""


@dataclass(frozen=True, eq=False)
class Vector:
    """Values on the device, and the numbers found when they were written."""

    values: Any
    found: Any


@dataclass(frozen=True, eq=False)
class OpenclOperator(Operator[Vector]):
    """Buffers of a graph in a layout; a sweep is `begin`, `add` and `measure`, and one small transfer."""

    problem: Problem
    storage: Format
    layout: str
    work_group: int | None
    program: Program
    matrix: dict[str, Any]
    out_degree: Any
    teleport: Any
    sink: Any
    contribution: Any
    part_sums: Any
    nbytes: int

    def load(self, values: Floats) -> Vector:
        """Return float64 values as a vector."""
        types = self.program.types
        x = Vector(
            self.program.upload(values.astype(types.real_dtype)), self.program.allocate(_NUMBERS, types.sums_dtype)
        )
        self.measure(x, x)
        return x

    def empty(self) -> Vector:
        """Return a vector of unknown values."""
        types = self.program.types
        allocate = self.program.allocate
        return Vector(allocate(self.problem.graph.nodes, types.real_dtype), allocate(_NUMBERS, types.sums_dtype))

    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Initialise the output, add the flow along edges, and compute the norms."""
        self.begin(x, out)
        self.add(x, out)
        self.measure(x, out)
        found = self.program.download(out.found, _NUMBERS, self.program.types.sums_dtype).tolist()
        return Sweep(found[0], found[1] ** 0.5, found[2], found[3])

    def begin(self, x: Vector, out: Vector) -> None:
        """Enqueue the kernel that writes teleport and dangling mass to ``out``; in two layouts also the exchange."""
        steps = [np.uint32(len(each) > 1) for each in (self.problem.teleport_or_scalar, self.problem.sink_or_scalar)]
        spread = (self._nodes, self._sum(self.problem.damping), x.found, self.teleport, steps[0], self.sink, steps[1])
        if self.contribution is None:
            self._run("begin", self._nodes, *spread, out.values)
        else:
            self._run("exchange", self._nodes, *spread, x.values, self.out_degree, self.contribution, out.values)

    def add(self, x: Vector, out: Vector) -> None:
        """Enqueue the layout's own kernel, which adds the flow along edges to ``out``."""
        kernel, items, names = _STAGES[self.layout]
        count = self._nodes if items == "nodes" else self.program.types.index_dtype.type(self.problem.graph.edges)
        scaled = () if self.contribution else (self._sum(self.problem.damping),)
        divided = (self.out_degree,) if self.layout == "coo" else ()
        read = self.contribution or x.values
        self._run(kernel, count, count, *scaled, *(self.matrix[name] for name in names), *divided, read, out.values)

    def measure(self, x: Vector, out: Vector) -> None:
        """Queue the norms of the change from ``x`` to ``out``, and the masses of ``out``."""
        groups = -(-self.problem.graph.nodes // PART_ROWS)
        vectors = (self._nodes, x.values, out.values, self.out_degree, self.part_sums)
        self.program.run("norms_of_parts", groups * WIDTH, WIDTH, *vectors)
        self.program.run("norms_of_graph", WIDTH, WIDTH, np.uint32(groups), self.part_sums, out.found)

    def scale(self, x: Vector, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply in place."""
        self._run("scale", self._nodes, self._nodes, self._sum(factor), x.values)
        self.measure(x, x)

    def to_float64(self, x: Vector, out: Vector) -> tuple[OpenclOperator, Vector, Vector]:
        """Build the float64 matrix; a float64 operator is returned unchanged."""
        if self.storage.exact:
            return self, x, out
        converted = prepared(self.problem, FP64, self.layout, self.program.device, self.work_group)
        return converted, converted.load(self.read(x, 0)), converted.empty()

    def read(self, x: Vector, segments: int) -> Floats:  # noqa: ARG002
        """Return the vector in main memory."""
        values = self.program.download(x.values, self.problem.graph.nodes, self.program.types.real_dtype)
        return np.asarray(values, dtype=np.float64)

    @property
    def _nodes(self) -> Any:
        return np.uint32(self.problem.graph.nodes)

    def _sum(self, value: float) -> Any:
        return self.program.types.sums_dtype.type(value)

    def _run(self, name: str, items: Any, *arguments: Any) -> None:
        self.program.run(name, int(items), self.work_group, *arguments)


class OpenclEngine(Engine):
    """PyOpenCL on any device with a driver, in float64 or float32."""

    name = "opencl"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "pattern", *_COO)
    stores: tuple[str, ...] = ("fp64", "fp32")
    repeatable = False
    """Atomic sums come in any order; in csr and pattern the same bits come every time."""

    def missing(self) -> str | None:
        """Return which requirement is missing: PyOpenCL, the loader, a platform, or the chosen device."""
        return devices.missing(choice.current())

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not, also by the device: no float64 or no 64-bit atomics, its memory, its work-groups."""
        reason = super().unsupported(problem, storage, layout)
        if reason is not None:
            return reason
        graph, real = problem.graph, _real(storage)
        if layout in _COO and graph.weights is not None:
            return f"layout {layout!r} stores no values, but {graph.name} has weights; use csr, or ignore them"
        if graph.nodes >= 2**31:
            return f"engine opencl counts nodes below 2^31; {graph.name} has {graph.nodes:,}"
        return _refused_by(devices.device(choice.current()), problem, real, layout)

    def sum_roundoff(self, storage: Format) -> float:
        """Return that of float32 where rows are added up in it."""
        return 0.0 if storage.exact else 2.0**-24

    def prepare(self, problem: Problem, storage: Format, layout: str) -> OpenclOperator:
        """Compile the kernels at first use, and upload the matrix."""
        self.require_supported(problem, storage, layout)
        chosen = choice.current()
        return prepared(problem, storage, layout, devices.device(chosen), chosen.work_group)


ENGINE: Engine = OpenclEngine()


def prepared(
    problem: Problem, storage: Format, layout: str, device: Any, work_group: int | None, add: str = "add_atomically"
) -> OpenclOperator:
    """Return an operator on a device; kernels of edges use the function ``add`` of ``atomic_add.cl``."""
    graph = problem.graph
    types = _types(graph, storage, device, add)
    made = program(device, types)
    arrays = {"sources": graph.sources.astype(np.uint32, copy=False)}
    if layout in _COO:
        arrays["targets"] = graph.targets.astype(np.uint32, copy=False)
    else:
        arrays["starts"] = graph.indptr.astype(types.index_dtype)
    if layout == "csr":
        arrays["values"] = edge_values(graph).astype(types.real_dtype, copy=False)
    operator = OpenclOperator(
        problem=problem,
        storage=storage,
        layout=layout,
        work_group=work_group,
        program=made,
        matrix={name: made.upload(array) for name, array in arrays.items()},
        out_degree=made.upload(graph.out_degree.astype(np.uint32)),
        teleport=made.upload(problem.teleport_or_scalar.astype(types.sums_dtype)),
        sink=made.upload(problem.sink_or_scalar.astype(types.sums_dtype)),
        contribution=made.allocate(graph.nodes, types.real_dtype) if layout in ("coo_exchange", "pattern") else None,
        part_sums=made.allocate(_NUMBERS * -(-graph.nodes // PART_ROWS), types.sums_dtype),
        nbytes=sum(array.nbytes for array in arrays.values()),
    )
    launched = device, types, layout, work_group, graph.nodes, graph.edges
    if launched not in _launched:
        _launch_once(operator)
        _launched.add(launched)
    return operator


def _launch_once(operator: OpenclOperator) -> None:
    """Launch each kernel: drivers compile it for work-groups of a size when it first runs in them.

    Where they choose the size, they do so by the number of work-items.
    """
    with work_clock.compiling():
        nodes = operator.problem.graph.nodes
        x, out = operator.load(np.full(nodes, 1.0 / nodes)), operator.empty()
        operator.sweep(x, out, Level(1, 1), 0)
        operator.scale(out, 1.0, 1)
        operator.program.queue.finish()


def _types(graph: Graph, storage: Format, device: Any, add: str) -> Types:
    sums = "double" if device.double_fp_config else "float"
    return Types(_real(storage), sums, "uint" if graph.edges < 2**32 else "ulong", add)


def _real(storage: Format) -> str:
    return {"float32": "float", "float64": "double"}[str(element_type(storage))]


def _refused_by(device: Any, problem: Problem, real: str, layout: str) -> str | None:
    """Return a sentence that says why a device cannot hold or run this; None if it can."""
    graph, chosen = problem.graph, choice.current()
    if real == "double" and not device.double_fp_config:
        return f"OpenCL device {device.name} has no float64; use storage fp32"
    if real == "double" and layout in _COO and "cl_khr_int64_base_atomics" not in device.extensions.split():
        return f"OpenCL device {device.name} swaps no 64 bits atomically; use layout pattern, or storage fp32"
    if chosen.work_group is not None and chosen.work_group > device.max_work_group_size:
        return (
            f"OpenCL device {device.name} has work-groups of at most {device.max_work_group_size} work-items, "
            f"not {chosen.work_group}"
        )
    value_bytes = 8 if real == "double" else 4
    largest = max(4 * graph.edges, value_bytes * (graph.edges if layout == "csr" else 0), 8 * (graph.nodes + 1))
    entry_bytes = {"csr": 4 + value_bytes, "pattern": 4}.get(layout, 8)
    in_all = entry_bytes * graph.edges + 64 * graph.nodes
    if largest > device.max_mem_alloc_size or in_all > device.global_mem_size:
        return (
            f"{graph.name} needs buffers of {largest:,} bytes and {in_all:,} in all, but OpenCL device {device.name} "
            f"has {device.max_mem_alloc_size:,} and {device.global_mem_size:,}"
        )
    return None
