"""Method ``refine``, many rounds a launch; see ``refine.cu``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cpms.cuda import arrange, room, variants
from cpms.cuda.backend import current
from cpms.cuda.clock import seconds_since
from cpms.cuda.resident import DEFAULT, Arrangement, ResidentGraph
from cpms.cuda.vectors import vector_length
from cpms.engine import Asked, Floats, Norm, Problem, Refinement, Round, Sweep
from cpms.extrapolation import slots_for
from cpms.format import FP32, FloatFormat
from cpms.low_until import low_limit, reach_and_noise
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
        self._graph, self.damping = graph, graph.damping
        self.nbytes = self._graph.nbytes
        self._shares, self._fresh, self._change = (arrays.zeros(length, np.float64) for _ in range(3))
        self._c = arrays.zeros(length, np.float32)
        self._given: dict[FloatFormat, _Given] = {}
        self._report = room_for_report()
        self._has_c = False

    @classmethod
    def of(
        cls, problem: Problem, arrangement: Arrangement = DEFAULT, *, rows: arrange.Rows | None = None
    ) -> CudaRefinement:
        """Arrange the graph of a problem, which has no weights; its ``rows`` may be on the device already."""
        return cls(ResidentGraph.of(problem, arrangement, rows=rows))

    def expect(self, storage: FloatFormat | None) -> None:
        """Compile, and make room for the residual."""
        current().compile([self._variant(storage or FP32), *variants.SHARES])
        self._given_for(storage or FP32)

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
        return self._rounds(storage, Asked(gain, 0.0, tol, norm, most_low + 1), extrapolate=False)[0]

    def rounds(
        self, storage: FloatFormat | None, *, gain: float, trust: float, tol: float, norm: Norm, most: int
    ) -> list[Round]:
        """Launch once and read what was found."""
        return self._rounds(storage, Asked(gain, trust, tol, norm, most), extrapolate=self.extrapolates)

    def _rounds(self, storage: FloatFormat | None, asked: Asked, *, extrapolate: bool) -> list[Round]:
        given = self._given_for(storage or next(iter(self._given), FP32))
        arguments = (
            *given.graph,
            *planned(asked, self.damping, lows=storage is not None),
            *given.storing,
            *(self._shares, self._fresh, self._change, self._c, np.uint32(self._has_c)),
            *(given.z, np.uint64(given.z.nbytes // given.vectors), np.uint32(given.vectors if extrapolate else 2)),
            *(*self._graph.barrier, self._report),
        )
        self._graph.launch(given.variant, arguments)
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

    def _way(self, storage: FloatFormat) -> variants.Way:
        way = self._graph.ways.way
        return variants.OVER_SOURCES if way.in_bins and not variants.is_binned(storage) else way

    def _variant(self, storage: FloatFormat) -> variants.Variant:
        graph, way = self._graph, self._way(storage)
        return variants.refine(
            storage, graph.edges.shape, personal=graph.personal, partial=graph.kept is not None, way=way
        )

    def _given_for(self, storage: FloatFormat) -> _Given:
        """Return what is the same for all launches of a format; what lies behind the nodes in its room is zero."""
        if storage not in self._given:
            graph, vectors = self._graph, slots_for(storage)
            size = vectors * storage.nbytes(vector_length(graph.nodes))
            with current().memory_for(f"the residual, {vectors} times in {storage.name},", size):
                z = current().arrays.zeros(size, np.uint8)
            self._given[storage] = _Given(
                variant=self._variant(storage),
                graph=(
                    *graph.over(self._way(storage)),
                    *graph.arguments,
                    np.uint64(0) if graph.kept is None else graph.kept,
                    *graph.counted(self._way(storage)),
                ),
                storing=stored(storage, storage.seed),
                z=z,
                vectors=vectors,
            )
        return self._given[storage]


class _Given(NamedTuple):
    """Of launches of a format: the kernel, what it takes of the graph and of how z is stored, and room for some z."""

    variant: variants.Variant
    graph: tuple[Any, ...]
    storing: tuple[Any, ...]
    z: Any
    vectors: int


def planned(asked: Asked, damping: float, *, lows: bool) -> tuple[Any, ...]:
    """Return what a kernel takes of a plan, in its order; see ``plan.cuh``."""
    numbers = asked.gain, asked.tol, asked.trust, *reach_and_noise(asked.gain, asked.tol, damping)
    counts = NORMS.index(asked.norm), min(asked.most, MOST), low_limit(asked.gain, damping) if lows else 0
    return *map(np.float64, numbers), *map(np.uint32, counts)


def stored(storage: FloatFormat, seed: int) -> tuple[np.uint32, np.int32, np.uint64]:
    """Return what a kernel takes of how it stores z, in its order."""
    scaled = storage.exponent_bits != WIDE_EXPONENT_BITS
    return np.uint32(scaled), np.int32(storage.bias - headroom(storage)), np.uint64(seed)


def room_for_report() -> Any:
    """Return where a kernel of many sweeps writes what it found; see ``plan.cuh``."""
    return current().arrays.zeros(2 + _EACH * MOST, np.float64)


def reported(report: Any) -> list[Round]:
    """Wait for a kernel, and return the rounds that it did."""
    return list(_as_rounds(current().note(report)()))


def _as_rounds(noted: Floats) -> Iterator[Round]:
    """Cut what a launch reported into rounds, at full sweeps, in lists: arrays of so few numbers take longer."""
    count, launched_ns = noted[:2].tolist()
    numbers = noted[2 : 2 + _EACH * int(count)].tolist()
    l1, squares, mass, sums, linf, ended_ns = (numbers[place::_EACH] for place in range(_EACH))
    ended_s, began_s = seconds_since(launched_ns, ended_ns), 0.0
    cuts = [place for place, square in enumerate(squares) if square >= 0.0]
    for first, last in itertools.pairwise([*cuts, len(l1)]):
        yield Round(
            found=Sweep(l1[first], math.sqrt(squares[first]), linf[first], mass[first]),
            low=l1[first + 1 : last],
            sums=sums[first:last],
            seconds=[ended - began_s for ended in ended_s[first:last]],
        )
        began_s = ended_s[last - 1]


def needed_bytes(problem: Problem) -> int:
    """Return about how many bytes of device memory resident kernels need, that of arranging included."""
    graph = problem.graph
    return 12 * (graph.edges + graph.nodes) + 82 * graph.nodes


def too_large(problem: Problem, engine: str) -> str | None:
    """Return a sentence if a graph does not fit in device memory or in 32-bit counts."""
    graph, advice = problem.graph, "use a smaller graph, or engine cpu"
    return room.refusal(engine, graph, needed_bytes(problem), what=graph.name, advice=advice)
