"""Engine ``cpu``: fused sweeps in compiled loops on all threads of the processor.

A sweep gathers over in-edges (pull) in parts of equal work. The parts do not depend on the number of threads, so
results are bitwise the same for any number. Method ``refine`` solves trimmed nodes by substitution. Of refinement,
batches and products only what a solve uses is loaded: each takes up to 0.1 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms.backends.cpu import sweep_loops
from cpms.backends.cpu.load_balance import row_ranges
from cpms.base import host_memory, threads
from cpms.base.types import Floats
from cpms.contracts.batch import Batch, RefinementBatch
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.contracts.own_codecs import TakesCodecs
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import (
    DOUBLE_BITS,
    DOUBLE_HEAD_BITS,
    FP32,
    FP64,
    CompiledFormat,
    FloatFormat,
    Format,
    SegmentFormat,
)
from cpms.formats.quantization import step_seed
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem
from cpms.solvers.sequential_queries import SequentialQueries
from cpms.sparse import ell, sliced, transition_values
from cpms.sparse.sliced import BLOCK_ROWS
from cpms.storage.array import SegmentedArray, convert_inplace, distribution_vector
from cpms.storage.segment_layout import ROUNDING_MODES
from cpms.storage.segment_views import segment_units

_LAYOUT_CODES = {"csr": 0, "ell": 1, "pattern": 2}
_PART_COST = 400_000
"""Least number of edges and rows of a part."""
_MOST_PARTS = 32
_NO_VALUES = np.zeros(0, np.uint8)
_NO_INDPTR = np.zeros(1, np.uint32)
_NO_ORDER = np.zeros(0, np.uint16)
_NO_DIVISOR = np.zeros(1, np.uint32)


@dataclass(frozen=True, eq=False)
class CpuOperator(Operator[SegmentedArray]):
    """A matrix in main memory and its rows in parts of equal work.

    In the pattern layout vectors hold x / ``divisor`` (see `cpms.sparse.transition_values`).
    """

    problem: Problem
    storage: CompiledFormat
    layout: str
    matrix: sliced.Sliced | ell.Ell
    divisor: npt.NDArray[np.uint32] | None
    parts: list[tuple[int, int]]
    takes_problems: ClassVar[bool] = True

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.matrix.nbytes + (0 if self.divisor is None else self.divisor.nbytes)

    def load(self, values: Floats) -> SegmentedArray:
        """Return float64 values as a vector."""
        vector = self.empty()
        vector.write(values if self.divisor is None else values / self.divisor)
        return vector

    def empty(self) -> SegmentedArray:
        """Return a vector of zeros; entries of a distribution fit without a scale of their own."""
        return distribution_vector(self.problem.graph.nodes, self.storage)

    def sweep(self, x: SegmentedArray, out: SegmentedArray, level: Level, step: int) -> Sweep:
        """Gather, scale, add teleport and dangling mass, round, write and take norms in one pass."""
        read, write = (1, 1) if level == FLOAT64 else (level.read, level.write)
        problem, to_real = self.problem, 2.0**-x.exponent
        scalars = (
            problem.damping * 2.0**-self._values_exponent * to_real,
            problem.damping * self._dangling_mass(x, read),
            1.0 - problem.damping,
            2.0**x.exponent,
            to_real,
        )
        arguments = (
            *self._arrays(),
            *(x.units, out.units, problem.sink_or_scalar, problem.teleport_or_scalar, scalars),
            *_writing(self.storage, self.storage.checked_read(write), step),
        )
        kernel = sweep_loops.sweep_kernel(_LAYOUT_CODES[self.layout], *_spec(self.storage, read))
        sums = threads.each(lambda part: kernel(*arguments, *part), self.parts)
        l1, l2, linf, mass = np.array(sums).T
        return Sweep(float(l1.sum()), float(np.sqrt(l2.sum())), float(linf.max()), float(mass.sum()))

    def scale(self, x: SegmentedArray, factor: float, segments: int) -> None:
        """Multiply the vector by a factor."""
        x.write(x.decode(segments or None) * factor, segments=segments or None)

    def to_float64(self, x: SegmentedArray, out: SegmentedArray) -> tuple[CpuOperator, SegmentedArray, SegmentedArray]:
        """Convert to float64: in place for segments, into new memory for packed floats."""
        matrix = self.matrix.to_float64(self.problem.graph)
        converted = CpuOperator(self.problem, FP64, self.layout, matrix, self.divisor, self.parts)
        if not self.storage.exact:
            return converted, convert_inplace(x.decode(), FP64), converted.empty()
        restored, scratch = (convert_inplace(vector.restore_inplace(), FP64) for vector in (x, out))
        return converted, restored, scratch

    @property
    def survives_conversion(self) -> bool:
        """Whether values are none, or packed floats, which are computed anew in float64."""
        return self.matrix.values is None or not self.storage.exact

    def read(self, x: SegmentedArray, segments: int) -> Floats:
        """Return the vector as float64."""
        values = x.decode(segments or None)
        return values if self.divisor is None else values * self.divisor

    @property
    def _values_exponent(self) -> int:
        return 0 if self.matrix.values is None else self.matrix.values.exponent

    def _arrays(self) -> tuple[Any, ...]:
        """Return the arrays of the matrix for a kernel; arrays that the layout lacks are empty."""
        matrix = self.matrix
        divisor = _NO_DIVISOR if self.divisor is None else self.divisor
        values = _NO_VALUES if matrix.values is None else matrix.values.units
        if isinstance(matrix, ell.Ell):
            return _NO_INDPTR, _NO_ORDER, matrix.sources, values, (matrix.rows, matrix.width), divisor
        return matrix.indptr, matrix.order, matrix.sources, values, (len(matrix.order), 0), divisor

    def _dangling_mass(self, x: SegmentedArray, read: int) -> float:
        selected = self.problem.graph.dangling_nodes
        kernel = sweep_loops.selected_sum_kernel(*_spec(self.storage, read))
        parts = threads.ranges(len(selected), at_least=_PART_COST, parts=_MOST_PARTS)
        sums = threads.each(lambda part: kernel(x.units, selected, len(x), *part), parts)
        return float(np.sum(sums)) * 2.0**-x.exponent


class CpuEngine(Engine):
    """Numba kernels on threads."""

    name = "cpu"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "ell", "pattern")
    methods: tuple[str, ...] = ("power", "refine")
    works_with_weights: tuple[str, ...] = ("power", "refine", "batch")
    takes_codecs: ClassVar[TakesCodecs] = "numba"
    residual_codecs: ClassVar[TakesCodecs] = "numba"
    # In a core's own cache, turning 16 bits into numbers costs more than reading 32.
    default_residual_format: FloatFormat = FP32
    repeatable = True

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not; ELL also when its padding does not fit in memory."""
        reason = super().unsupported(problem, storage, layout)
        if reason is None and layout == "ell":
            return ell.refusal(problem.graph, storage, host_memory.free_bytes())
        return reason

    def prepare(self, problem: Problem, storage: Format, layout: str) -> Operator[SegmentedArray]:
        """Build the layout and cut its rows into pieces of equal work."""
        self.require_supported(problem, storage, layout)
        graph = problem.graph
        if not isinstance(storage, SegmentFormat | FloatFormat):
            from cpms.backends.cpu.codec_operator import CodecOperator

            return CodecOperator.of(problem, storage, layout, lambda: self.prepare(problem, FP64, layout))
        if layout == "ell":
            padded = ell.build(graph, storage)
            parts = _row_parts(np.arange(graph.nodes + 1) * padded.width)
            return CpuOperator(problem, storage, layout, padded, None, parts)
        without_values = layout == "pattern"
        divisor = transition_values.divisor(graph) if without_values else None
        matrix = sliced.build(graph, None if without_values else storage)
        return CpuOperator(problem, storage, layout, matrix, divisor, _row_parts(graph.indptr))

    def refinement(self, problem: Problem) -> Refinement:
        """Build the pattern of the core, and split its rows into parts of equal work; store weights where they are."""
        if problem.graph.weights is not None:
            return _composed().refinement(problem)
        from cpms.backends.cpu.reduced_refinement import prepared

        return prepared(problem)

    def refinement_from_start(self, problem: Problem) -> Refinement:
        """Build the pattern of the whole graph, without trimming it."""
        if problem.graph.weights is not None:
            return _composed().refinement(problem)
        from cpms.backends.cpu.reduced_refinement import prepared_from_start

        return prepared_from_start(problem)

    def codec_refinement(self, problem: Problem) -> Refinement:
        """Store the weights, and compose sweeps of products, which decode any vector before they read it."""
        return _composed().refinement(problem)

    def batch(self, problem: Problem) -> Batch:
        """Keep the rows as they are: each edge gathers a whole cache line, whatever the order of rows."""
        if not problem.needs_products:
            from cpms.backends.cpu.batch import CpuBatch

            return CpuBatch(problem)
        return _composed().batch(problem)

    def refinement_batch(self, problem: Problem) -> RefinementBatch:
        """Prepare the matrix for queries one after the other, or with weights for several that share its reads."""
        if problem.graph.weights is None:
            return SequentialQueries(self.refinement(problem), problem)
        return _composed().refinement_batch(problem)


ENGINE = CpuEngine()


def _composed() -> Engine:
    from cpms.engines import composed

    return composed.CPU


def _row_parts(entries_before: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    bounds, _ = row_ranges(entries_before, row_cost=4, least=_PART_COST, most=_MOST_PARTS, block=BLOCK_ROWS)
    return list(pairwise(bounds.tolist()))


def _spec(storage: CompiledFormat, read: int) -> tuple[tuple[int, int, int, int], tuple[int, ...]]:
    """Return the compile-time parameters of `cpms.backends.cpu.sweep_loops.sweep_kernel`."""
    if isinstance(storage, FloatFormat):
        return (0, storage.exponent_bits, storage.mantissa_bits, ROUNDING_MODES[storage.rounding]), (1,)
    return (1, storage.checked_read(read), storage.block or 0, DOUBLE_BITS // storage.unit), segment_units(storage)


def _writing(
    storage: CompiledFormat, write: int, step: int
) -> tuple[npt.NDArray[np.int64], int, int, np.uint64, np.uint64]:
    """Return pieces, segments to write, low bits to round away (0 to cut them), mask of the others, seed."""
    segments = np.array(_spec(storage, 1)[1], np.int64)
    if isinstance(storage, FloatFormat):
        return segments, 1, 0, np.uint64(0), np.uint64(step_seed(storage.seed, step))
    dropped = DOUBLE_BITS - storage.bits(write)
    mask = np.uint64((2**DOUBLE_BITS - 1) >> dropped << dropped)
    rounds = storage.rounding == "nearest" and storage.bits(write) >= DOUBLE_HEAD_BITS
    return segments, write, (dropped if rounds else 0), mask, np.uint64(0)
