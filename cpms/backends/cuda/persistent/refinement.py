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

from cpms.backends.cuda.arrays.codec import as_float64
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels import persistent, template
from cpms.backends.cuda.persistent.device_graph import DEFAULT, Arrangement, ResidentGraph
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.device_clock import seconds_since
from cpms.backends.cuda.spmv import padded_csr
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import E5M2, FP32, FloatFormat
from cpms.formats.quantization import WIDE_EXPONENT_BITS, headroom
from cpms.precision.anderson import SLOTS, slots_for
from cpms.precision.inner_stopping import inner_coefficients, inner_max_iterations
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
        self._has_c = self._is_rounded = self._slow = False

    @classmethod
    def of(
        cls,
        problem: Problem,
        arrangement: Arrangement = DEFAULT,
        *,
        rows: padded_csr.Rows | None = None,
        converges_fast: bool = False,
    ) -> CudaRefinement:
        """Arrange the graph of a problem, which has no weights; see `ResidentGraph.of`."""
        return cls(ResidentGraph.of(problem, arrangement, rows=rows, converges_fast=converges_fast))

    def warm_up(self, storage: FloatFormat | None) -> None:
        """Compile, and make room for the residual."""
        error_feedback = self._may_carry(storage)
        current().compile([self._variant(storage or FP32, error_feedback=error_feedback), *template.CONTRIBUTIONS])
        self._given_for(storage or FP32, error_feedback=error_feedback)

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """8 bits where nodes keep what rounding loses: no sweep is more for it."""
        return E5M2 if self._may_carry(E5M2) else None

    @property
    def graph(self) -> ResidentGraph:
        """The problem's graph on the device."""
        return self._graph

    def start(self, values: Floats, *, from_rounded: bool | None = None) -> None:
        """Begin at values of either memory, or at another guess where they are ``from_rounded``, as uniform ones are."""
        self._graph.shares(values, self._shares)
        self._has_c = self._slow = False
        self._is_rounded = _is_uniform(values) if from_rounded is None else from_rounded

    def start_uniform(self, nodes: int) -> None:
        """Begin at the uniform distribution, which is made on the device."""
        self.start(current().arrays.full(nodes, 1.0 / nodes, np.float64), from_rounded=True)

    def round(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, most_low: int
    ) -> OuterStep:
        """Launch one round."""
        return self._refine(storage, OuterRequest(inner_reduction, 0.0, tol, norm, most_low + 1), extrapolate=False)[0]

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
        """Launch once and read what was found."""
        asked = OuterRequest(inner_reduction, noise_tolerance, tol, norm, most)
        if storage and self.error_feedback and self.adaptive and self._may_carry(storage):
            found = self._carry(storage, asked)
            self._slow = bool(found[-1].low) and sum(len(made.seconds) for made in found) < min(most, MOST)
            return found
        return self._refine(storage, asked, extrapolate=self.anderson)

    def _refine(self, storage: FloatFormat | None, asked: OuterRequest, *, extrapolate: bool) -> list[OuterStep]:
        stored_in = storage or next((given for given, _ in self._given), FP32)
        given = self._given_for(stored_in, error_feedback=False)
        planned_so = planned(asked, self.damping, lows=storage is not None)
        vectors = slots_for(stored_in) if extrapolate else 2
        found = self._launched(given, (*planned_so, *given.storing), vectors)
        self._has_c = self.adds_up(stored_in) and bool(found[-1].low)
        return found

    def _carry(self, storage: FloatFormat, asked: OuterRequest) -> list[OuterStep]:
        """Launch once where nodes keep what rounding loses, which then has nothing to do with how far a round goes."""
        given = self._given_for(storage, error_feedback=True)
        guesses = self._is_rounded and asked.norm == "l1" and asked.tol > 0.0 and asked.most >= _FEWEST_ROUGH
        planned_so = planned(asked._replace(inner_reduction=_CARRIED_GAIN), self.damping, lows=True)
        guess = given.guess if guesses else _NO_GUESS
        found = self._launched(given, (*planned_so, *given.storing, *guess), given.vectors)
        self._has_c = False
        return found

    def _launched(self, given: _Given, asked: tuple[Any, ...], vectors: int) -> list[OuterStep]:
        arguments = (
            *given.graph,
            *asked,
            *(self._shares, self._fresh, self._change, self._c, np.uint32(self._has_c)),
            *(given.z, np.uint64(given.z.nbytes // given.vectors), np.uint32(vectors)),
            *(*self._graph.barrier, self._report),
        )
        self._graph.launch(given.variant, arguments)
        noted = current().fetch_async(self._report)
        if self.follow:
            self.follow(Left(self._shares, self._fresh, self._report))
        found = list(_as_rounds(noted()))
        if sum(not made.from_rounded for made in found) % 2:
            self._shares, self._fresh = self._fresh, self._shares
        self._is_rounded = False
        return found

    def read(self) -> Floats:
        """Return x, in main memory."""
        return current().to_host(self.read_device())

    def read_device(self) -> Any:
        """Return x, on the device."""
        return self._graph.values(self._shares)

    def adds_up(self, storage: FloatFormat) -> bool:
        """Return whether low sweeps add up what they find, or z tell; see ``pagerank/persistent_refine.cu``."""
        return self._way(storage) == persistent.IN_CACHE_GATHER or slots_for(storage) != SLOTS

    def _way(self, storage: FloatFormat) -> persistent.Strategy:
        way = self._graph.ways.way
        return persistent.DIRECT_GATHER if way.stages_values and not persistent.fits_shared_memory(storage) else way

    def _may_carry(self, storage: FloatFormat | None) -> bool:
        """Return whether rounds in a format may keep what rounding loses, as far as is known."""
        if storage is None or self._graph.starts is None or self._slow:
            return False
        return self._way(storage) in persistent.ERROR_FEEDBACK_STRATEGIES and slots_for(storage) == SLOTS

    def _variant(self, storage: FloatFormat, *, error_feedback: bool) -> template.Variant:
        graph, of_kind = self._graph, persistent.error_feedback if error_feedback else persistent.persistent_refine
        partial, way = graph.kept is not None, self._way(storage)
        return of_kind(storage, graph.edges.shape, personal=graph.personal, core=partial, strategy=way)

    def _given_for(self, storage: FloatFormat, *, error_feedback: bool) -> _Given:
        """Return what is the same for all launches of a format; what lies behind the nodes in its room is zero."""
        key = storage, error_feedback
        if key not in self._given:
            if self._c is _NULL and self.adds_up(storage):
                self._c = current().arrays.zeros(vector_length(self._graph.nodes), np.float32)
            graph, other = self._graph, self._given.get((storage, not error_feedback))
            vectors = _CARRIED_SLOTS if self._may_carry(storage) and storage.width <= 16 else slots_for(storage)
            size = vectors * storage.nbytes(vector_length(graph.nodes))
            with current().memory_for(f"the residual, {vectors} times in {storage.name},", size):
                z = other.z if other else current().arrays.zeros(size, np.uint8)
            self._given[key] = _Given(
                variant=self._variant(storage, error_feedback=error_feedback),
                graph=(
                    *graph.over(self._way(storage)),
                    *graph.arguments,
                    _NULL if graph.kept is None else graph.kept,
                    *graph.counted(self._way(storage)),
                ),
                storing=stored(storage, storage.seed),
                z=z,
                vectors=other.vectors if other else vectors,
                guess=graph.guess if error_feedback else _NO_GUESS,
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


def planned(asked: OuterRequest, damping: float, *, lows: bool) -> tuple[Any, ...]:
    """Return what a kernel takes of a plan, in its order; see ``pagerank/refine_request.cuh``."""
    numbers, most_low = _planned(asked.inner_reduction, asked.tol, asked.noise_tolerance, damping)
    counts = NORMS.index(asked.norm), min(asked.most, MOST), most_low if lows else 0
    return *numbers, *map(np.uint32, counts)


@functools.lru_cache(maxsize=64)
def _planned(
    inner_reduction: float, tol: float, noise_tolerance: float, damping: float
) -> tuple[tuple[np.float64, ...], int]:
    numbers = inner_reduction, tol, noise_tolerance, *inner_coefficients(inner_reduction, tol, damping)
    return tuple(map(np.float64, numbers)), inner_max_iterations(inner_reduction, damping)


def stored(storage: FloatFormat, seed: int) -> tuple[np.uint32, np.int32, np.uint64]:
    """Return what a kernel takes of how it stores z, in its order."""
    scaled = storage.exponent_bits != WIDE_EXPONENT_BITS
    return np.uint32(scaled), np.int32(storage.bias - headroom(storage)), np.uint64(seed)


def room_for_report() -> Any:
    """Return where a kernel of many sweeps writes what it found; see ``pagerank/sweep_log.cuh``."""
    return current().arrays.zeros(2 + _EACH * MOST, np.float64)


def reported(report: Any) -> list[OuterStep]:
    """Wait for a kernel, and return the rounds that it did."""
    return list(_as_rounds(current().fetch_async(report)()))


def _as_rounds(noted: Floats) -> Iterator[OuterStep]:
    """Cut what a launch reported into rounds, at full sweeps, in lists: arrays of so few numbers take longer."""
    count, launched_ns = noted[:2].tolist()
    numbers = noted[2 : 2 + _EACH * int(count)].tolist()
    l1, squares, mass, sums, linf, ended_ns = (numbers[place::_EACH] for place in range(_EACH))
    ended_s, began_s = seconds_since(launched_ns, ended_ns), 0.0
    cuts = [place for place, square in enumerate(squares) if square != _LOW_SWEEP]
    for first, last in itertools.pairwise([*cuts, len(l1)]):
        from_rounded = squares[first] == _ROUGH_SWEEP
        size = l1[first]
        yield OuterStep(
            found=Sweep(size, size, size, 1.0)
            if from_rounded
            else Sweep(size, math.sqrt(squares[first]), linf[first], mass[first]),
            low=l1[first + 1 : last],
            sums=sums[first:last],
            seconds=[ended - began_s for ended in ended_s[first:last]],
            from_rounded=from_rounded,
        )
        began_s = ended_s[last - 1]


def _is_uniform(values: Any) -> bool:
    """Return whether a first x is the uniform distribution, by some of its values."""
    some = values[:: -(-len(values) // _LOOKED_AT)]
    some = current().to_host(as_float64(some)) if on_device(some) else some
    return bool((abs(some * len(values) - 1.0) < _UNIFORM).all())


def needed_bytes(problem: Problem) -> int:
    """Return about how many bytes of device memory resident kernels need, that of arranging included."""
    graph = problem.graph
    return 12 * (graph.edges + graph.nodes) + 82 * graph.nodes


def too_large(problem: Problem, engine: str) -> str | None:
    """Return a sentence if a graph does not fit in device memory or in 32-bit counts."""
    graph, advice = problem.graph, "use a smaller graph, or engine cpu"
    return memory_limits.refusal(engine, graph, needed_bytes(problem), what=graph.name, advice=advice)
