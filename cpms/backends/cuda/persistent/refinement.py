"""Method ``refine``, many rounds a launch; see ``pagerank/persistent_refine.cu``.

Low sweeps of a graph beyond the device's cache write z alone, and x gets what they sent every eight sweeps, by a
combination or as it is: 3 bytes a node of 16-bit sweeps in place of 11. On an H100 that made sweeps of web graphs 4 to
13 and of meshes 20 to 28 % shorter.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.arrays.codec import doubles
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels import persistent, template
from cpms.backends.cuda.persistent.device_graph import DEFAULT, Arrangement, ResidentGraph
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.device_clock import seconds_since
from cpms.backends.cuda.spmv import padded_csr
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import Asked, Refinement, Round
from cpms.formats.formats import E5M2, FP32, FloatFormat
from cpms.formats.quantization import WIDE_EXPONENT_BITS, headroom
from cpms.precision.anderson import SLOTS, slots_for
from cpms.precision.inner_stopping import low_limit, reach_and_noise
from cpms.problems.pagerank import Problem
from cpms.storage.device import on_device

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
"""In the order in which kernels number them."""
_EACH = 6
MOST = 512
"""Sweeps in a launch; a round that needs more goes on in the next."""
_LOW_SWEEP, _ROUGH_SWEEP = -1.0, -2.0
"""As in ``pagerank/sweep_log.cuh``."""
_CARRIED_SLOTS = 17
"""As in ``pagerank/error_feedback.cuh``, for formats of up to 16 bits."""
_CARRIED_GAIN = 1e-13
"""What float64 leaves of the residual where nothing else is rounded."""
_FEWEST_ROUGH = 3
"""Sweeps that must be left for the first one to be rough."""
_NULL = np.uint64(0)
_NO_GUESS = _NULL, np.float64(0.0), np.float64(0.0)
_LOOKED_AT, _UNIFORM = 1024, 1e-9
"""Values of a first x, and how far from those of the uniform one they may be to be taken for that."""


class Left(NamedTuple):
    """What a launch over a graph leaves: shares, in one of two arrays, which its report tells; all on the device."""

    begun: Any
    other: Any
    report: Any

    @classmethod
    def all_in(cls, shares: Any) -> Left:
        """Return where they are without a launch."""
        return cls(shares, shares, _NULL)


class CudaRefinement(Refinement):
    """x as shares and c, in device memory.

    Parameters
    ----------
    graph : ResidentGraph

    Attributes
    ----------
    follow : callable, optional
        Launches at once what is to follow the last launch of a solve, which each might be.
    """

    follow: Callable[[Left], None] | None = None

    def __init__(self, graph: ResidentGraph) -> None:
        arrays, length = current().arrays, vector_length(graph.nodes)
        self._graph, self.damping = graph, graph.damping
        self.nbytes = self._graph.nbytes
        self._shares, self._fresh, self._change = (arrays.zeros(length, np.float64) for _ in range(3))
        self._given: dict[tuple[FloatFormat, bool], _Given] = {}
        self._report = room_for_report()
        self._c: Any = _NULL
        self._has_c = self._is_rough = self._slow = False

    @classmethod
    def of(
        cls,
        problem: Problem,
        arrangement: Arrangement = DEFAULT,
        *,
        rows: padded_csr.Rows | None = None,
        fades_fast: bool = False,
    ) -> CudaRefinement:
        """Arrange the graph of a problem, which has no weights; see `ResidentGraph.of`."""
        return cls(ResidentGraph.of(problem, arrangement, rows=rows, fades_fast=fades_fast))

    def expect(self, storage: FloatFormat | None) -> None:
        """Compile, and make room for the residual."""
        carries = self._may_carry(storage)
        current().compile([self._variant(storage or FP32, carries=carries), *template.SHARES])
        self._given_for(storage or FP32, carries=carries)

    @property
    def refines_in(self) -> FloatFormat | None:
        """8 bits where nodes keep what rounding loses: no sweep is more for it."""
        return E5M2 if self._may_carry(E5M2) else None

    @property
    def graph(self) -> ResidentGraph:
        """The problem's graph on the device."""
        return self._graph

    def start(self, values: Floats, *, rough: bool | None = None) -> None:
        """Begin at values of either memory, or at another guess where they are ``rough``, as uniform ones are."""
        self._graph.shares(values, self._shares)
        self._has_c = self._slow = False
        self._is_rough = _is_uniform(values) if rough is None else rough

    def start_evenly(self, nodes: int) -> None:
        """Begin at the uniform distribution, which is made on the device."""
        self.start(current().arrays.full(nodes, 1.0 / nodes, np.float64), rough=True)

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Launch one round."""
        return self._refine(storage, Asked(gain, 0.0, tol, norm, most_low + 1), extrapolate=False)[0]

    def rounds(
        self, storage: FloatFormat | None, *, gain: float, trust: float, tol: float, norm: Norm, most: int
    ) -> list[Round]:
        """Launch once and read what was found."""
        asked = Asked(gain, trust, tol, norm, most)
        if storage and self.carries and self.adapts and self._may_carry(storage):
            found = self._carry(storage, asked)
            self._slow = bool(found[-1].low) and sum(len(made.seconds) for made in found) < min(most, MOST)
            return found
        return self._refine(storage, asked, extrapolate=self.extrapolates)

    def _refine(self, storage: FloatFormat | None, asked: Asked, *, extrapolate: bool) -> list[Round]:
        stored_in = storage or next((given for given, _ in self._given), FP32)
        given = self._given_for(stored_in, carries=False)
        planned_so = planned(asked, self.damping, lows=storage is not None)
        vectors = slots_for(stored_in) if extrapolate else 2
        found = self._launched(given, (*planned_so, *given.storing), vectors)
        self._has_c = self.adds_up(stored_in) and bool(found[-1].low)
        return found

    def _carry(self, storage: FloatFormat, asked: Asked) -> list[Round]:
        """Launch once where nodes keep what rounding loses, which then has nothing to do with how far a round goes."""
        given = self._given_for(storage, carries=True)
        guesses = self._is_rough and asked.norm == "l1" and asked.tol > 0.0 and asked.most >= _FEWEST_ROUGH
        planned_so = planned(asked._replace(gain=_CARRIED_GAIN), self.damping, lows=True)
        guess = given.guess if guesses else _NO_GUESS
        found = self._launched(given, (*planned_so, *given.storing, *guess), given.vectors)
        self._has_c = False
        return found

    def _launched(self, given: _Given, asked: tuple[Any, ...], vectors: int) -> list[Round]:
        arguments = (
            *given.graph,
            *asked,
            *(self._shares, self._fresh, self._change, self._c, np.uint32(self._has_c)),
            *(given.z, np.uint64(given.z.nbytes // given.vectors), np.uint32(vectors)),
            *(*self._graph.barrier, self._report),
        )
        self._graph.launch(given.variant, arguments)
        noted = current().note(self._report)
        if self.follow:
            self.follow(Left(self._shares, self._fresh, self._report))
        found = list(_as_rounds(noted()))
        if sum(not made.rough for made in found) % 2:
            self._shares, self._fresh = self._fresh, self._shares
        self._is_rough = False
        return found

    def read(self) -> Floats:
        """Return x, in main memory."""
        return current().to_host(self.read_device())

    def read_device(self) -> Any:
        """Return x, on the device."""
        return self._graph.values(self._shares)

    def adds_up(self, storage: FloatFormat) -> bool:
        """Return whether low sweeps add up what they find, or z tell; see ``pagerank/persistent_refine.cu``."""
        return self._way(storage) == persistent.OVER_CACHED or slots_for(storage) != SLOTS

    def _way(self, storage: FloatFormat) -> persistent.Way:
        way = self._graph.ways.way
        return persistent.OVER_SOURCES if way.in_bins and not persistent.is_binned(storage) else way

    def _may_carry(self, storage: FloatFormat | None) -> bool:
        """Return whether rounds in a format may keep what rounding loses, as far as is known."""
        if storage is None or self._graph.starts is None or self._slow:
            return False
        return self._way(storage) in persistent.CARRYING and slots_for(storage) == SLOTS

    def _variant(self, storage: FloatFormat, *, carries: bool) -> template.Variant:
        graph, of_kind = self._graph, persistent.carry if carries else persistent.refine
        partial, way = graph.kept is not None, self._way(storage)
        return of_kind(storage, graph.edges.shape, personal=graph.personal, partial=partial, way=way)

    def _given_for(self, storage: FloatFormat, *, carries: bool) -> _Given:
        """Return what is the same for all launches of a format; what lies behind the nodes in its room is zero."""
        key = storage, carries
        if key not in self._given:
            if self._c is _NULL and self.adds_up(storage):
                self._c = current().arrays.zeros(vector_length(self._graph.nodes), np.float32)
            graph, other = self._graph, self._given.get((storage, not carries))
            vectors = _CARRIED_SLOTS if self._may_carry(storage) and storage.width <= 16 else slots_for(storage)
            size = vectors * storage.nbytes(vector_length(graph.nodes))
            with current().memory_for(f"the residual, {vectors} times in {storage.name},", size):
                z = other.z if other else current().arrays.zeros(size, np.uint8)
            self._given[key] = _Given(
                variant=self._variant(storage, carries=carries),
                graph=(
                    *graph.over(self._way(storage)),
                    *graph.arguments,
                    _NULL if graph.kept is None else graph.kept,
                    *graph.counted(self._way(storage)),
                ),
                storing=stored(storage, storage.seed),
                z=z,
                vectors=other.vectors if other else vectors,
                guess=graph.guess if carries else _NO_GUESS,
            )
        return self._given[key]


class _Given(NamedTuple):
    """Of launches of a format: the kernel, what it takes of the graph and of how z is stored, room for z, a first x."""

    variant: template.Variant
    graph: tuple[Any, ...]
    storing: tuple[Any, ...]
    z: Any
    vectors: int
    guess: tuple[Any, ...]


def planned(asked: Asked, damping: float, *, lows: bool) -> tuple[Any, ...]:
    """Return what a kernel takes of a plan, in its order; see ``pagerank/refine_request.cuh``."""
    numbers, most_low = _planned(asked.gain, asked.tol, asked.trust, damping)
    counts = NORMS.index(asked.norm), min(asked.most, MOST), most_low if lows else 0
    return *numbers, *map(np.uint32, counts)


@functools.lru_cache(maxsize=64)
def _planned(gain: float, tol: float, trust: float, damping: float) -> tuple[tuple[np.float64, ...], int]:
    numbers = gain, tol, trust, *reach_and_noise(gain, tol, damping)
    return tuple(map(np.float64, numbers)), low_limit(gain, damping)


def stored(storage: FloatFormat, seed: int) -> tuple[np.uint32, np.int32, np.uint64]:
    """Return what a kernel takes of how it stores z, in its order."""
    scaled = storage.exponent_bits != WIDE_EXPONENT_BITS
    return np.uint32(scaled), np.int32(storage.bias - headroom(storage)), np.uint64(seed)


def room_for_report() -> Any:
    """Return where a kernel of many sweeps writes what it found; see ``pagerank/sweep_log.cuh``."""
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
    cuts = [place for place, square in enumerate(squares) if square != _LOW_SWEEP]
    for first, last in itertools.pairwise([*cuts, len(l1)]):
        rough = squares[first] == _ROUGH_SWEEP
        size = l1[first]
        yield Round(
            found=Sweep(size, size, size, 1.0)
            if rough
            else Sweep(size, math.sqrt(squares[first]), linf[first], mass[first]),
            low=l1[first + 1 : last],
            sums=sums[first:last],
            seconds=[ended - began_s for ended in ended_s[first:last]],
            rough=rough,
        )
        began_s = ended_s[last - 1]


def _is_uniform(values: Any) -> bool:
    """Return whether a first x is the uniform distribution, by some of its values."""
    some = values[:: -(-len(values) // _LOOKED_AT)]
    some = current().to_host(doubles(some)) if on_device(some) else some
    return bool((abs(some * len(values) - 1.0) < _UNIFORM).all())


def needed_bytes(problem: Problem) -> int:
    """Return about how many bytes of device memory resident kernels need, that of arranging included."""
    graph = problem.graph
    return 12 * (graph.edges + graph.nodes) + 82 * graph.nodes


def too_large(problem: Problem, engine: str) -> str | None:
    """Return a sentence if a graph does not fit in device memory or in 32-bit counts."""
    graph, advice = problem.graph, "use a smaller graph, or engine cpu"
    return memory_limits.refusal(engine, graph, needed_bytes(problem), what=graph.name, advice=advice)
