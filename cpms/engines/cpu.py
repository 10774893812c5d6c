"""Fused sweeps in compiled loops on the processor's threads; bitwise the same for any thread count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms import threads
from cpms.engine import Engine, Floats, Operator, Problem, Sweep
from cpms.engines import _cpu_kernels
from cpms.engines._cpu_kernels import BLOCK_ROWS
from cpms.errors import UnsupportedError
from cpms.format import DOUBLE_BITS, DOUBLE_HEAD_BITS, FP64, FloatFormat, Format
from cpms.graph import Graph
from cpms.precision import FLOAT64, Level
from cpms.segmented import ROUNDING_MODES, SegmentedArray, convert_inplace
from cpms.sparse import csr, ell, pattern

Matrix = csr.Csr | ell.Ell | pattern.Pattern
_LAYOUT_CODES = {"csr": 0, "ell": 1, "pattern": 2}
_PART_COST = 400_000
"""Edges and rows that one piece of work holds at least."""
_MOST_PARTS = 32
_SHORT_ROWS = 8
"""Mean row length up to which sorting rows by length pays (measured: web graphs gain, R-MAT of mean 16 loses)."""
_NO_VALUES = np.zeros(0, np.uint8)
_NO_ORDER = np.zeros(0, np.uint16)
_NO_INTS = np.zeros(1, np.uint32)


@dataclass(frozen=True, eq=False)
class CpuOperator(Operator[SegmentedArray]):
    """A matrix in main memory and the cuts of its rows into pieces of equal work."""

    problem: Problem
    storage: Format
    layout: str
    matrix: Matrix
    order: npt.NDArray[np.uint16]
    parts: list[tuple[int, int]]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the matrix."""
        return self.matrix.nbytes

    def load(self, values: Floats) -> SegmentedArray:
        """Return float64 values as a vector."""
        vector = self.empty()
        vector.write(values / self.matrix.divisor if isinstance(self.matrix, pattern.Pattern) else values)
        return vector

    def empty(self) -> SegmentedArray:
        """Return a vector of zeros; entries of a distribution fit without a scale of their own."""
        nodes = self.problem.graph.nodes
        scaled = isinstance(self.storage, FloatFormat) and self.storage.scaled
        exponent = self.storage.bias - 1 if isinstance(self.storage, FloatFormat) and scaled else 0
        return SegmentedArray(np.zeros(self.storage.nbytes(nodes), np.uint8), nodes, self.storage, exponent)

    def sweep(self, x: SegmentedArray, out: SegmentedArray, level: Level, step: int) -> Sweep:
        """Gather, scale, add teleport and dangling mass, round, write and take norms in one pass."""
        read, write = self._checked(level)
        problem, matrix = self.problem, self.matrix
        values_exponent = 0 if isinstance(matrix, pattern.Pattern) else matrix.values.exponent
        to_real = 2.0**-x.exponent
        scalars = (
            problem.damping * 2.0**-values_exponent * to_real,
            problem.damping * self._dangling_mass(x, read),
            1.0 - problem.damping,
            2.0**x.exponent,
            to_real,
        )
        kernel = _cpu_kernels.sweep_kernel(_LAYOUT_CODES[self.layout], *_spec(self.storage, read))
        fixed = (
            *_arrays(matrix, self.order),
            x.units,
            out.units,
            problem.sink_or_scalar,
            problem.teleport_or_scalar,
            scalars,
        )
        rounding = (_runs(self.storage), write, *_cut(self.storage, write), _seed(self.storage, step))
        sums = threads.each(lambda part: kernel(*fixed, *rounding, *part), self.parts)
        l1, l2, linf, mass = np.array(sums).T
        return Sweep(float(l1.sum()), float(np.sqrt(l2.sum())), float(linf.max()), float(mass.sum()))

    def scale(self, x: SegmentedArray, factor: float, segments: int) -> None:
        """Multiply the vector by a factor."""
        x.write(x.decode(segments or None) * factor, segments=segments or None)

    def to_float64(self, x: SegmentedArray, out: SegmentedArray) -> tuple[CpuOperator, SegmentedArray, SegmentedArray]:
        """Convert to float64: in place for segments, into new memory for packed floats."""
        matrix = self.matrix
        if not isinstance(matrix, pattern.Pattern):
            matrix = matrix.to_float64(self.problem.graph)
        converted = CpuOperator(self.problem, FP64, self.layout, matrix, self.order, self.parts)
        if self.storage.exact:
            return converted, *(convert_inplace(v.restore_inplace(), FP64) for v in (x, out))  # type: ignore[return-value]
        return converted, convert_inplace(x.decode(), FP64), converted.empty()

    def read(self, x: SegmentedArray, segments: int) -> Floats:
        """Return the vector as float64."""
        values = x.decode(segments or None)
        return values * self.matrix.divisor if isinstance(self.matrix, pattern.Pattern) else values

    def _checked(self, level: Level) -> tuple[int, int]:
        if level == FLOAT64:
            return 1, 1
        return self.storage.checked_read(level.read), self.storage.checked_read(level.write)

    def _dangling_mass(self, x: SegmentedArray, read: int) -> float:
        selected = self.problem.graph.dangling_nodes
        kernel = _cpu_kernels.selected_sum_kernel(*_spec(self.storage, read))
        cuts = threads.stretches(len(selected), at_least=_PART_COST, parts=_MOST_PARTS)
        sums = threads.each(lambda part: kernel(x.units, selected, len(x), *part), cuts)
        return float(np.sum(sums)) * 2.0**-x.exponent


class CpuEngine(Engine):
    """Numba kernels on threads."""

    name: ClassVar[str] = "cpu"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "ell", "pattern")
    repeatable: ClassVar[bool] = True

    def missing(self) -> str | None:
        """Nothing: Numba comes with the package."""
        return None

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not; ELL also when its padding does not fit in memory."""
        reason = super().unsupported(problem, storage, layout)
        if reason is None and layout == "ell":
            return ell.refusal(problem.graph, storage, ell.free_memory())
        return reason

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CpuOperator:
        """Build the layout and cut its rows into pieces of equal work."""
        reason = self.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)
        matrix: Matrix
        if layout == "csr":
            matrix = csr.build(problem.graph, storage)
        elif layout == "ell":
            matrix = ell.build(problem.graph, storage)
        else:
            matrix = pattern.build(problem.graph)
        if isinstance(matrix, ell.Ell):
            return CpuOperator(problem, storage, layout, matrix, _NO_ORDER, _even_parts(matrix))
        return CpuOperator(problem, storage, layout, matrix, _row_order(problem.graph), _balanced_parts(problem.graph))


ENGINE = CpuEngine()


def _row_order(graph: Graph) -> npt.NDArray[np.uint16]:
    """Return the places of rows within their block in which they are summed: by length where rows are short."""
    if graph.edges <= _SHORT_ROWS * graph.nodes:
        order: npt.NDArray[np.uint16] = _cpu_kernels.rows_by_length(graph.indptr)
        return order
    return (np.arange(graph.nodes) % BLOCK_ROWS).astype(np.uint16)


def _even_parts(matrix: ell.Ell) -> list[tuple[int, int]]:
    blocks = -(-matrix.rows // BLOCK_ROWS)
    cuts = threads.stretches(blocks, at_least=1 + _PART_COST // (BLOCK_ROWS * (matrix.width + 4)), parts=_MOST_PARTS)
    return [(low * BLOCK_ROWS, min(high * BLOCK_ROWS, matrix.rows)) for low, high in cuts]


def _balanced_parts(graph: Graph) -> list[tuple[int, int]]:
    """Cut rows, at block bounds, so that each piece has about as many edges plus four times its rows as any other."""
    bounds = np.append(np.arange(0, graph.nodes, BLOCK_ROWS), graph.nodes)
    cost = graph.indptr[bounds] + 4 * bounds
    count = int(np.clip(cost[-1] // _PART_COST, 1, _MOST_PARTS))
    chosen = np.unique(np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)))
    return list(zip(bounds[chosen[:-1]].tolist(), bounds[chosen[1:]].tolist(), strict=True))


def _spec(storage: Format, read: int) -> tuple[tuple[int, int, int, int], tuple[int, ...]]:
    if isinstance(storage, FloatFormat):
        return (0, storage.exponent_bits, storage.mantissa_bits, ROUNDING_MODES[storage.rounding]), (1,)
    units = DOUBLE_BITS // storage.unit
    pieces = tuple(width // storage.unit for width in storage.widths)
    return (1, read, storage.block or 0, units), pieces


def _runs(storage: Format) -> npt.NDArray[np.int64]:
    return np.array(_spec(storage, 1)[1], np.int64)


def _cut(storage: Format, write: int) -> tuple[int, np.uint64]:
    """Return how many low bits to round away (0 to cut them) and the mask of those that stay."""
    if isinstance(storage, FloatFormat):
        return 0, np.uint64(0)
    dropped = DOUBLE_BITS - storage.bits(write)
    mask = np.uint64((2**DOUBLE_BITS - 1) >> dropped << dropped)
    rounds = storage.rounding == "nearest" and storage.bits(write) >= DOUBLE_HEAD_BITS
    return (dropped if rounds else 0), mask


def _seed(storage: Format, step: int) -> np.uint64:
    seed = storage.seed if isinstance(storage, FloatFormat) else 0
    return np.uint64((seed * 0x9E3779B97F4A7C15 + step * 0xD1B54A32D192ED03) % 2**64)


def _arrays(matrix: Matrix, order: npt.NDArray[np.uint16]) -> tuple[Any, ...]:
    """Return what a kernel reads of a matrix, with stand-ins for what its layout lacks."""
    if isinstance(matrix, pattern.Pattern):
        return matrix.indptr, order, matrix.sources, _NO_VALUES, (len(matrix.divisor), 0), matrix.divisor
    if isinstance(matrix, ell.Ell):
        return _NO_INTS, order, matrix.sources, matrix.values.units, (matrix.rows, matrix.width), _NO_INTS
    return matrix.indptr, order, matrix.sources, matrix.values.units, (len(matrix.indptr) - 1, 0), _NO_INTS
