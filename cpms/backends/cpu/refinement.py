"""Method ``refine`` on the processor's threads: one pass a sweep, bitwise the same for any thread count."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cpu import refine_loops as kernels
from cpms.backends.cpu.load_balance import row_pieces
from cpms.backends.cpu.node_loops import scatter
from cpms.base import threads, work_clock
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import FP16, FP32, FloatFormat
from cpms.formats.quantization import step_seed
from cpms.precision.anderson import PRODUCTS, slots_for
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.problems.pagerank import Problem
from cpms.sparse import jagged
from cpms.sparse.jagged import BLOCK_ROWS
from cpms.storage.segment_layout import ROUNDING_MODES

_ROW_COST = 4
"""What a row costs beside its entries, in entries."""
_PIECE_COST = 5_000
"""Entries and rows that a piece of the matrix holds at least: far more than what a barrier costs."""
_MOST_PIECES = 64
_LANE_COST = 60_000
"""Entries and rows for which one more thread pays: lanes wait for each other, also for one that does not run."""
_MOST_SWEEPS = 10_000
"""Sweeps of one call at most: what its report has room for."""
_NODES_OF_FEW_BITS = 1 << 17
"""Nodes for which 16 bits pay: a core's own cache is half full of their values of 32."""
_NORMS: dict[Norm, int] = {"l1": 0, "l2": 1, "linf": 2}
_CALL_COST = 500_000_000
"""Entries and rows after whose sweeps a call into compiled code ends with its round: so that Ctrl-C is heard."""


class CpuRefinement(Refinement):
    """The pattern in main memory, cut into pieces of rows, and the vectors of a refinement.

    Vectors are numbered as the matrix is (`cpms.sparse.jagged`). ``c`` is kept in float32: what that
    loses is found by the next full sweep, like what Q loses.

    Parameters
    ----------
    problem : Problem
    degree, kept : ndarrays of int64, shape (nodes,), optional
        Out-degrees of a graph of which edges are missing, and of the edges that are there: what would leave by the
        others is lost, like the mass of dangling nodes.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        degree: npt.NDArray[np.int64] | None = None,
        kept: npt.NDArray[np.int64] | None = None,
    ) -> None:
        graph = problem.graph
        self.problem, self.damping = problem, problem.damping
        self._matrix = jagged.build(graph)
        nodes = self._matrix.nodes
        self._kept = (graph.out_degree if kept is None else kept)[nodes].astype(np.uint32)
        self._degree = self._kept if degree is None else degree[nodes].astype(np.uint32)
        self._set_targets()
        self._bounds, self._cost = row_pieces(
            graph.indptr, row_cost=_ROW_COST, least=_PIECE_COST, most=_MOST_PIECES, block=BLOCK_ROWS
        )
        self._sums = np.zeros((5, len(self._bounds) - 1, kernels.COLUMNS))
        self._products = np.zeros((len(self._bounds) - 1, PRODUCTS))
        # Filled, not merely promised to be zero: the memory is there when a solve begins.
        self._x, self._share, self._r = (np.full(graph.nodes, 0.0) for _ in range(3))
        self._c = np.full(graph.nodes, 0.0, np.float32)
        self._z = np.zeros((2, 0), np.int32)
        self._storage = FP32
        self._sweeps = 0
        self.nbytes = self._matrix.nbytes + self._degree.nbytes

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """16 bits where gathers of 32 would leave a core's own cache."""
        return FP16 if len(self._x) >= _NODES_OF_FEW_BITS else None

    def set_teleport(self, teleport: Floats) -> bool:
        """Go on with another teleport distribution, shape (nodes,)."""
        self.problem = replace(self.problem, teleport=teleport)
        self._set_targets()
        return True

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values."""
        np.take(values, self._matrix.nodes, out=self._x, mode="clip")
        self._c[:] = 0.0
        self._sweeps = 0

    def read(self) -> Floats:
        """Return x in the graph's numbering."""
        x = np.empty_like(self._x)
        scatter(self._x, self._matrix.nodes, x)
        return x

    def round(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, most_low: int
    ) -> OuterStep:
        """Do one round."""
        return self._rounds(storage, OuterRequest(inner_reduction, 0.0, tol, norm, most_low + 1), 1, extrapolate=False)[
            0
        ]

    def rounds(
        self,
        storage: FloatFormat | None,
        *,
        inner_reduction: float,
        noise_tolerance: float,
        tol: float,
        norm: Norm,
        most: int,
    ) -> list[OuterStep]:
        """Do rounds in one call into compiled code, until about a second has passed."""
        enough = 1 + _CALL_COST // int(self._cost[-1])
        return self._rounds(
            storage, OuterRequest(inner_reduction, noise_tolerance, tol, norm, most), enough, extrapolate=self.anderson
        )

    def _rounds(
        self, storage: FloatFormat | None, asked: OuterRequest, enough: int, *, extrapolate: bool
    ) -> list[OuterStep]:
        began, most = work_clock.now(), min(asked.most, _MOST_SWEEPS)
        kept = storage or self._storage
        z = self._stored(kept, slots_for(kept) if extrapolate else 2)
        kernel = kernels.rounds_kernel(kept.exponent_bits, kept.mantissa_bits, ROUNDING_MODES[kept.rounding])
        seed = np.uint64(step_seed(kept.seed, self._sweeps))
        matrix, control = self._matrix, np.zeros(1, np.int64)
        report = np.empty((most, kernels.COLUMNS + 1))
        arguments = (
            *(control, matrix.lengths, matrix.starts, matrix.sources, self._degree, self._kept),
            *(self._share, self._x, self._c),
            *(self._r, z, self._sink, self._teleport, self.damping),
            *(storage is not None, asked.inner_reduction, asked.noise_tolerance, asked.tol, _NORMS[asked.norm], most),
            *(inner_max_iterations(asked.inner_reduction, self.damping), enough, seed),
            *(self._bounds, self._sums, self._products, report),
        )
        count = threads.run_lanes(lambda lane, lanes: int(kernel(lane, self._cuts(lanes), *arguments)), self._lanes())[
            0
        ]
        self._sweeps += count
        return list(_as_rounds(report[:count], work_clock.now() - began))

    def _set_targets(self) -> None:
        sink, teleport = self.problem.sink_or_scalar, self.problem.teleport_or_scalar
        self._teleport = self._numbered(teleport)
        self._sink = self._teleport if sink is teleport else self._numbered(sink)

    def _numbered(self, vector: Floats) -> Floats:
        return vector.take(self._matrix.nodes, mode="clip") if len(vector) > 1 else vector

    def _lanes(self) -> int:
        return max(1, min(threads.available(), len(self._bounds) - 1, int(self._cost[-1]) // _LANE_COST))

    def _cuts(self, lanes: int) -> npt.NDArray[np.int64]:
        """Return where each lane's pieces begin, for about the same work in each."""
        inner = np.searchsorted(self._cost, np.linspace(0, self._cost[-1], lanes + 1)[1:-1])
        return np.concatenate([[0], inner, [len(self._bounds) - 1]]).astype(np.int64)

    def _stored(self, storage: FloatFormat, slots: int) -> npt.NDArray[Any]:
        """Return vectors of integers of as many bits, made once."""
        if self._z.shape != (slots, len(self._x)) or self._storage.width != storage.width:
            self._z = np.zeros((slots, len(self._x)), f"int{storage.width}")
        self._storage = storage
        return self._z


def _as_rounds(report: Floats, call_s: float) -> Iterator[OuterStep]:
    """Cut what compiled code reported into rounds, at full sweeps.

    Where the system has no clock for it, all that is known of a sweep is that it ended before the call did.
    """
    ended_s = np.where(np.isnan(report[:, kernels.ENDED]), call_s, report[:, kernels.ENDED])
    cuts = [*np.flatnonzero(~(report[:, kernels.SQUARES] < 0.0)), len(report)]
    for first, last in itertools.pairwise(cuts):
        l1, squares, linf, mass = report[first, : kernels.TOTAL].tolist()
        yield OuterStep(
            found=Sweep(l1, math.sqrt(squares), linf, mass),
            low=report[first + 1 : last, kernels.L1].tolist(),
            sums=report[first:last, kernels.TOTAL].tolist(),
            seconds=(ended_s[first:last] - (ended_s[first - 1] if first else 0.0)).tolist(),
        )
