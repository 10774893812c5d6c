"""Method ``refine`` on the processor's threads: one pass a sweep, bitwise the same for any thread count."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms import threads
from cpms.engine import Floats, Norm, Problem, Refinement, Round, Sweep
from cpms.engines import _cpu_refine_kernels as kernels
from cpms.format import FloatFormat
from cpms.quantising import shared_scale
from cpms.segmented import ROUNDING_MODES
from cpms.sparse import sliced

_C_TYPE = np.float32
_SEED_STEP = 0xD1B54A32D192ED03


class CpuRefinement(Refinement):
    """A pattern matrix in main memory, cut into pieces of rows, and the vectors of a refinement.

    ``c`` is kept in float32: what it loses is found by the next full sweep, like what Q loses.
    """

    def __init__(self, problem: Problem, parts: list[tuple[int, int]]) -> None:
        graph = problem.graph
        self.problem = problem
        self._matrix = sliced.build(graph, None)
        self._degree = graph.out_degree.astype(np.uint32)
        self._bounds = np.array([low for low, _ in parts] + [graph.nodes])
        self._x, self._share, self._r = np.zeros(graph.nodes), np.empty(graph.nodes), np.empty(graph.nodes)
        self._c = np.zeros(graph.nodes, _C_TYPE)
        self._z: dict[int, list[npt.NDArray[Any]]] = {}
        self._sweeps = 0
        self.nbytes = self._matrix.nbytes + self._degree.nbytes

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values."""
        self._x[:] = values
        self._c[:] = 0.0
        self._sweeps = 0

    def read(self) -> Floats:
        """Return a copy of x."""
        return self._x.copy()

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Correct, sweep in full, quantise, and sweep on in few bits."""
        began = time.perf_counter()
        found, total, largest = self._full()
        low: list[float] = []
        sums, seconds = [total], [time.perf_counter() - began]
        if storage is None or not tol <= found.of(norm) < np.inf:
            return Round(found, low, sums, seconds)
        until = max(gain * found.l1, 0.5 * tol * found.l1 / found.of(norm))
        size, damping = found.l1, self.problem.damping
        spec = (storage.exponent_bits, storage.mantissa_bits, ROUNDING_MODES[storage.rounding])
        kernel = kernels.low_kernel(*spec)
        z, out = self._stored(storage.width)
        scale = shared_scale(storage, largest)
        arrays = (*self._arrays(), self._degree)
        if most_low:
            lost = float(
                self._each(kernels.quantise_kernel(*spec), 1, self._r, self._degree, z, scale, self._seed(storage))[
                    0
                ].sum()
            )
        while size > until and len(low) < most_low:
            following = shared_scale(storage, largest)
            columns = self._each(
                kernel, kernels.LOW_COLUMNS,
                *arrays, z, out, self._c, self.problem.sink_or_scalar, damping * 2.0**-scale, damping * lost, following,
                self._seed(storage),
            )  # fmt: skip
            size, total, lost = (float(column.sum()) for column in columns[:3])
            largest, scale = float(columns[3].max()), following
            z, out = out, z
            low.append(size)
            sums.append(total)
            seconds.append(time.perf_counter() - began)
        return Round(found, low, sums, seconds)

    def _full(self) -> tuple[Sweep, float, float]:
        """Correct x by c and sweep in float64; return norms and mass, the sum of r, and the largest |r| / degree."""
        corrected = self._each(kernels.correct, 2, self._x, self._c, self._degree, self._share)
        mass, dangling = (float(column.sum()) for column in corrected)
        problem = self.problem
        scalars = (problem.damping / mass, problem.damping * dangling / mass, 1.0 - problem.damping, 1.0 / mass)
        vectors = (self._degree, self._share, self._x, self._c, self._r)
        sources = (problem.sink_or_scalar, problem.teleport_or_scalar)
        columns = self._each(kernels.full, kernels.FULL_COLUMNS, *self._arrays(), *vectors, *sources, scalars)
        l1, squares, _, total_mass, total, _ = (float(column.sum()) for column in columns)
        found = Sweep(l1, float(np.sqrt(squares)), float(columns[2].max()), total_mass)
        return found, total, float(columns[5].max())

    def _each(self, kernel: Callable[..., None], columns: int, *arguments: Any) -> npt.NDArray[np.float64]:
        """Run a kernel over all pieces, in threads, and return its sums, shape (columns, pieces)."""
        pieces = len(self._bounds) - 1
        sums = np.empty((pieces, columns))
        cuts = threads.stretches(pieces, at_least=1, parts=4 * threads.available())
        threads.each(lambda cut: kernel(*arguments, self._bounds, *cut, sums), cuts)
        return sums.T

    def _arrays(self) -> tuple[Any, ...]:
        return self._matrix.indptr, self._matrix.order, self._matrix.sources

    def _stored(self, width: int) -> list[npt.NDArray[Any]]:
        """Return two vectors of unsigned integers of so many bits, made once."""
        if width not in self._z:
            self._z = {width: [np.zeros(self.problem.graph.nodes, f"uint{width}") for _ in range(2)]}
        return self._z[width]

    def _seed(self, storage: FloatFormat) -> np.uint64:
        self._sweeps += 1
        return np.uint64((storage.seed * 0x9E3779B97F4A7C15 + self._sweeps * _SEED_STEP) % 2**64)
