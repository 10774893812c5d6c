"""Method ``refine``, many rounds a launch; see ``refine.cu``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from cpms.cuda import room, variants
from cpms.cuda.backend import current
from cpms.cuda.bins import NO_BINS
from cpms.cuda.resident import DEFAULT, Arrangement, ResidentGraph
from cpms.cuda.vectors import vector_length
from cpms.engine import Floats, Norm, Problem, Refinement, Round, Sweep
from cpms.format import FP32, FloatFormat
from cpms.quantising import WIDE_EXPONENT_BITS, headroom

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
"""In the order in which kernels number them."""
_EACH = 6
MOST = 512
"""Sweeps in a launch; a round that needs more goes on in the next."""


class CudaRefinement(Refinement):
    """x as shares and c, in device memory.

    Parameters
    ----------
    graph : ResidentGraph
    """

    def __init__(self, graph: ResidentGraph) -> None:
        arrays, length = current().arrays, vector_length(graph.nodes)
        self._graph = graph
        self.nbytes = self._graph.nbytes
        self._shares, self._fresh, self._change = (arrays.zeros(length, np.float64) for _ in range(3))
        self._c = arrays.zeros(length, np.float32)
        self._rooms: dict[FloatFormat, tuple[Any, ...]] = {}
        self._report = room_for_report()
        self._has_c = False

    @classmethod
    def of(cls, problem: Problem, arrangement: Arrangement = DEFAULT) -> CudaRefinement:
        """Arrange the graph of a problem, which has no weights."""
        return cls(ResidentGraph.of(problem, arrangement))

    def expect(self, storage: FloatFormat | None) -> None:
        """Compile."""
        current().compile([self._variant(storage or FP32), *variants.SHARES])

    @property
    def graph(self) -> ResidentGraph:
        """The problem's graph on the device."""
        return self._graph

    @property
    def shares(self) -> Any:
        """X as shares, zeros behind them."""
        return self._shares

    def start(self, values: Floats) -> None:
        """Begin at values of either memory."""
        self._graph.shares(values, self._shares)
        self._has_c = False

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Launch one round."""
        return self.rounds(storage, gain=gain, trust=0.0, tol=tol, norm=norm, most=most_low + 1)[0]

    def rounds(
        self, storage: FloatFormat | None, *, gain: float, trust: float, tol: float, norm: Norm, most: int
    ) -> list[Round]:
        """Launch once and read what was found."""
        kept = storage or next(iter(self._rooms), FP32)
        arguments = (
            *self._graph.arguments,
            np.uint64(0) if self._graph.kept is None else self._graph.kept,
            *(self._graph.bins.arguments if self._graph.bins else NO_BINS),
            *planned(gain=gain, trust=trust, tol=tol, norm=norm, most=most, lows=storage is not None),
            *stored(kept, kept.seed),
            *(self._shares, self._fresh, self._change, self._c, np.uint32(self._has_c)),
            *(*self._room(kept), *self._graph.barrier, self._report),
        )
        self._graph.launch(self._variant(kept), arguments)
        found = reported(self._report)
        if len(found) % 2:
            self._shares, self._fresh = self._fresh, self._shares
        self._has_c = bool(found[-1].low)
        return found

    def read(self) -> Floats:
        """Return x, in main memory."""
        return current().to_host(self.read_device())

    def read_device(self) -> Any:
        """Return x, on the device."""
        return self._graph.values(self._shares)

    def _variant(self, storage: FloatFormat) -> variants.Variant:
        graph = self._graph
        binned, partial = graph.bins is not None and variants.is_binned(storage), graph.kept is not None
        return variants.refine(storage, graph.edges.shape, personal=graph.personal, partial=partial, binned=binned)

    def _room(self, storage: FloatFormat) -> tuple[Any, ...]:
        """Return room for z in a format, kept for solves to come; what lies behind the nodes is zero."""
        if storage not in self._rooms:
            arrays, length = current().arrays, vector_length(self._graph.nodes)
            self._rooms[storage] = tuple(arrays.zeros(storage.nbytes(length), np.uint8) for _ in range(2))
        return self._rooms[storage]


def planned(*, gain: float, trust: float, tol: float, norm: Norm, most: int, lows: bool) -> tuple[Any, ...]:
    """Return what a kernel takes of a plan, in its order; see ``plan.cuh``."""
    numbers = np.float64(gain), np.float64(tol), np.float64(trust)
    return *numbers, np.uint32(NORMS.index(norm)), np.uint32(min(most, MOST)), np.uint32(lows)


def stored(storage: FloatFormat, seed: int) -> tuple[np.uint32, np.int32, np.uint64]:
    """Return what a kernel takes of how it stores z, in its order."""
    scaled = storage.exponent_bits != WIDE_EXPONENT_BITS
    return np.uint32(scaled), np.int32(storage.bias - headroom(storage)), np.uint64(seed)


def room_for_report() -> Any:
    """Return where a kernel of many sweeps writes what it found; see ``plan.cuh``."""
    return current().arrays.zeros(2 + _EACH * MOST, np.float64)


def reported(report: Any) -> list[Round]:
    """Wait for a kernel, and return the rounds that it did."""
    noted = current().note(report)()
    count, began_ns = noted[:2].tolist()
    rows = noted[2:][: _EACH * int(count)].reshape(-1, _EACH)
    return list(_as_rounds(rows.T.tolist(), began_ns))


def _as_rounds(columns: list[list[float]], began_ns: float) -> Iterator[Round]:
    """Cut what a launch reported into rounds, at full sweeps."""
    l1, squares, mass, sums, linf, ended_ns = columns
    cuts = [*(place for place, found in enumerate(squares) if found >= 0.0), len(l1)]
    for first, last in itertools.pairwise(cuts):
        yield Round(
            found=Sweep(l1[first], squares[first] ** 0.5, linf[first], mass[first]),
            low=l1[first + 1 : last],
            sums=sums[first:last],
            seconds=[(ended - began_ns) * 1e-9 for ended in ended_ns[first:last]],
        )
        began_ns = ended_ns[last - 1]


def needed_bytes(problem: Problem) -> int:
    """Return about how many bytes of device memory resident kernels need, that of arranging included."""
    graph = problem.graph
    return 12 * (graph.edges + graph.nodes) + 64 * graph.nodes


def too_large(problem: Problem, engine: str) -> str | None:
    """Return a sentence if a graph does not fit in device memory or in 32-bit counts."""
    graph, advice = problem.graph, "use a smaller graph, or engine cpu"
    return room.refusal(engine, graph, needed_bytes(problem), what=graph.name, advice=advice)
