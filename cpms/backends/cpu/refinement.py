"""Mixed-precision iterative refinement on processor threads, with inner Richardson sweeps.

All sweeps of an outer step run in one call into compiled code, where threads wait for each other at barriers. The sums
of fixed ranges of rows are added in their order, so results are bitwise the same for any number of threads. A sweep
costs one read of the pattern, and one gather an edge: of float64 in a residual sweep, of few bits in an inner sweep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cpu import refine_loops as kernels
from cpms.backends.cpu.load_balance import first_ranges, row_ranges
from cpms.backends.cpu.node_loops import scatter
from cpms.backends.cpu.small_graphs import outer_steps as small
from cpms.base import threads, work_clock
from cpms.base.compilation import first_call
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import FP16, FP32, FloatFormat
from cpms.formats.quantization import step_seed
from cpms.precision.anderson import PRODUCTS, history_vectors
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.problems.pagerank import Problem
from cpms.sparse import jagged
from cpms.sparse.jagged import BLOCK_ROWS
from cpms.storage.segment_layout import ROUNDING_MODES

_ROW_COST = 4
"""Cost of a row besides its entries, in entries."""
_RANGE_COST = 5_000
"""Least cost of a range, in entries, for which a sweep over it costs far more than a barrier."""
_MAX_RANGES = 64
_THREAD_COST = 60_000
"""Cost of a sweep, in entries, for each thread: with less, a further thread costs more at barriers than it saves."""
_MOST_SWEEPS = 10_000
"""Most sweeps of a call, which is the length of its report.

After so many sweeps, interpreting the loop of passes has taken about as long as compiling it.
"""
_NODES_OF_FEW_BITS = 1 << 17
"""Least number of nodes for residuals in 16 bits: so many values in 32 bits fill half of a core's own cache."""
_NORMS: dict[Norm, int] = {"l1": 0, "l2": 1, "linf": 2}
_CALL_COST = 500_000_000
"""Cost of sweeps, in entries, after which a call returns at the end of its outer step, so that Ctrl-C takes effect."""


def residual_format(nodes: int) -> FloatFormat | None:
    """Return 16 bits if 32-bit gathers of so many values would exceed a core's own cache, else None."""
    return FP16 if nodes >= _NODES_OF_FEW_BITS else None


class CpuRefinement(Refinement):
    """The pattern of the matrix in main memory, in ranges of rows, and the vectors of a refinement.

    Vectors have the row order of the matrix (`cpms.sparse.jagged`). The correction is stored in float32. The next
    residual sweep measures its rounding error, as it measures that of the quantised residual.

    Parameters
    ----------
    problem : Problem
    degree, internal_degree : ndarrays of int64, shape (nodes,), optional
        Out-degrees of a graph from which edges were removed, and the numbers of remaining edges. Mass along removed
        edges is lost, like the mass of dangling nodes.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        degree: npt.NDArray[np.int64] | None = None,
        internal_degree: npt.NDArray[np.int64] | None = None,
    ) -> None:
        graph = problem.graph
        self.problem, self.damping = problem, problem.damping
        self._matrix = jagged.build(graph)
        nodes = self._matrix.nodes
        self._internal_degree = (graph.out_degree if internal_degree is None else internal_degree)[nodes].astype(
            np.uint32
        )
        self._degree = self._internal_degree if degree is None else degree[nodes].astype(np.uint32)
        self._set_targets()
        self._bounds, self._cost = row_ranges(
            graph.indptr, row_cost=_ROW_COST, least=_RANGE_COST, most=_MAX_RANGES, block=BLOCK_ROWS
        )
        self._sums = np.zeros((5, len(self._bounds) - 1, kernels.COLUMNS))
        self._products = np.zeros((len(self._bounds) - 1, PRODUCTS))
        # np.full touches the pages, which np.zeros would leave to the first solve.
        self._x, self._contribution, self._r = (np.full(graph.nodes, 0.0) for _ in range(3))
        self._c = np.full(graph.nodes, 0.0, np.float32)
        self._z = np.zeros((2, 0), np.int32)
        self._storage = FP32
        self._sweeps = 0
        self.nbytes = self._matrix.nbytes + self._degree.nbytes

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """`residual_format` for the number of nodes."""
        return residual_format(len(self._x))

    def set_teleport(self, teleport: Floats | None) -> bool:
        """Replace the teleport distribution, shape (nodes,); None is the uniform one."""
        self.problem = replace(self.problem, teleport=teleport)
        self._set_targets()
        return True

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values, shape (nodes,)."""
        np.take(values, self._matrix.nodes, out=self._x, mode="clip")
        self._c[:] = 0.0
        self._sweeps = 0

    def read(self) -> Floats:
        """Return x in the node order of the graph."""
        x = np.empty_like(self._x)
        scatter(self._x, self._matrix.nodes, x)
        return x

    def outer_step(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Do one outer step."""
        return self._outer_steps_of(
            storage, OuterRequest(inner_reduction, 0.0, tol, norm, max_inner + 1), 1, extrapolate=False
        )[0]

    def outer_steps(self, storage: FloatFormat | None, request: OuterRequest) -> list[OuterStep]:
        """Do outer steps in one call into compiled code, for about a second."""
        enough = 1 + _CALL_COST // int(self._cost[-1])
        return self._outer_steps_of(storage, request, enough, extrapolate=self.anderson)

    def _outer_steps_of(
        self, storage: FloatFormat | None, request: OuterRequest, enough: int, *, extrapolate: bool
    ) -> list[OuterStep]:
        began, most = work_clock.now(), min(request.most, _MOST_SWEEPS)
        stored = storage or self._storage
        z = self._stored(stored, history_vectors(stored) if extrapolate else 2)
        matrix, control = self._matrix, np.zeros(1, np.int64)
        digits = stored.exponent_bits, stored.mantissa_bits
        kind = *digits, stored.width, ROUNDING_MODES[stored.rounding]
        if first_call.spares_loops() and self._sweeps < _MOST_SWEEPS:
            steps, lanes, passes = small.outer_steps, 1, kernels.passes_of(*kind)
        else:
            steps, lanes = kernels.outer_steps, self._lanes()
            passes = kernels.addresses(*kind, 8 * matrix.sources.itemsize)
        seed = np.uint64(step_seed(stored.seed, self._sweeps))
        report = np.empty((most, kernels.COLUMNS + 1))
        arguments = (
            *(control, passes, matrix.lengths, matrix.starts, matrix.sources, self._degree, self._internal_degree),
            *(self._contribution, self._x, self._c, self._r, z.ctypes.data, len(z), self._sink, self._teleport),
            *(stored.exponent_bits, kernels.head_of(*digits)),
            *(
                self.damping,
                storage is not None,
                request.inner_reduction,
                request.noise_tolerance,
                request.tol,
                _NORMS[request.norm],
                most,
            ),
            *(inner_max_iterations(request.inner_reduction, self.damping), enough, seed),
            *(self._bounds, self._sums, self._products, report),
        )

        def lane_steps(lane: int, lanes: int) -> int:
            return int(steps(lane, first_ranges(self._cost, lanes), *arguments, *kernels.workspace()))

        count = threads.run_lanes(lane_steps, lanes)[0]
        self._sweeps += count
        return list(_as_outer_steps(report[:count], work_clock.now() - began))

    def _set_targets(self) -> None:
        sink, teleport = self.problem.sink_or_scalar, self.problem.teleport_or_scalar
        self._teleport = self._numbered(teleport)
        self._sink = self._teleport if sink is teleport else self._numbered(sink)

    def _numbered(self, vector: Floats) -> Floats:
        return vector.take(self._matrix.nodes, mode="clip") if len(vector) > 1 else vector

    def _lanes(self) -> int:
        return max(1, min(threads.available(), len(self._bounds) - 1, int(self._cost[-1]) // _THREAD_COST))

    def _stored(self, storage: FloatFormat, slots: int) -> npt.NDArray[Any]:
        """Return the integer vectors of stored z, allocated once a format."""
        if self._z.shape != (slots, len(self._x)) or self._storage.width != storage.width:
            self._z = np.zeros((slots, len(self._x)), f"int{storage.width}")
        self._storage = storage
        return self._z


def _as_outer_steps(report: Floats, call_s: float) -> Iterator[OuterStep]:
    """Split the report of compiled code into outer steps, each of which begins with a residual sweep.

    On systems without a clock in compiled code, every sweep gets the time of the whole call.
    """
    ended_s = np.where(np.isnan(report[:, kernels.ENDED]), call_s, report[:, kernels.ENDED])
    splits = [*np.flatnonzero(~(report[:, kernels.SQUARES] < 0.0)), len(report)]
    for first, last in itertools.pairwise(splits):
        l1, squares, linf, mass = report[first, : kernels.TOTAL].tolist()
        yield OuterStep(
            found=Sweep(l1, math.sqrt(squares), linf, mass),
            inner_l1=report[first + 1 : last, kernels.L1].tolist(),
            sums=report[first:last, kernels.TOTAL].tolist(),
            seconds=(ended_s[first:last] - (ended_s[first - 1] if first else 0.0)).tolist(),
        )
