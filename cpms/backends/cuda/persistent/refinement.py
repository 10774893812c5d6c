"""Method ``refine`` in one persistent launch: mixed-precision iterative refinement with inner Richardson sweeps.

An outer step computes the residual in float64; inner sweeps solve for the correction in a few bits, with alternating
Anderson acceleration (Pratapa, Suryanarayana and Pask, 2016) or error feedback. The kernel decides itself when steps
end, so a launch runs many of them without the host. Inner sweeps of graphs beyond the device's cache write the
quantised residual alone, and x is updated every eight sweeps: a 16-bit sweep moves 3 bytes a node in place of 11. See
``pagerank/persistent_refine.cu``.
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
from cpms.backends.cuda.kernels import persistent, structs, template
from cpms.backends.cuda.persistent.device_graph import DEFAULT, Arrangement, PersistentGraph
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.device_clock import seconds_since
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import E5M2, FP32, FloatFormat
from cpms.formats.quantization import headroom
from cpms.formats.segments import DOUBLE_EXPONENT_BITS
from cpms.precision.anderson import HISTORY_VECTORS, history_vectors
from cpms.precision.inner_stopping import inner_coefficients, inner_max_iterations
from cpms.problems.pagerank import Problem
from cpms.storage.device import on_device

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
"""Norms, in the order in which kernels number them."""
_RECORD_WORDS = 6
MAX_SWEEPS = 512
"""Sweeps in a launch; an outer step that needs more continues in the next launch."""
_INNER_MARK, _ROUNDED_START_MARK = -1.0, -2.0
"""Squares in a record that mark an inner sweep, and the residual of a rounded start; see ``pagerank/sweep_log.cuh``."""
_FEEDBACK_HISTORY = 17
"""Vectors of history for formats of up to 16 bits; as ``max_deferred`` of ``pagerank/deferred_update.cuh``."""
_FEEDBACK_REDUCTION = 1e-13
"""Reduction of the residual at which inner sweeps end under error feedback: float64 rounding is the only limit
there.
"""
_MIN_ROUNDED_SWEEPS = 3
"""Sweeps that must remain for the first one to use a rounded start."""
NO_ROUNDED_START = pack(structs.ROUNDED_START)
_SAMPLED, _UNIFORM = 1024, 1e-9
"""Number of sampled values of an initial guess, and their largest distance from a uniform one."""


class FinalContributions(NamedTuple):
    """The final contributions of a launch, in one of two arrays as its report says; all on the device."""

    first: Any
    other: Any
    report: Any | None

    @classmethod
    def without_launch(cls, contributions: Any) -> FinalContributions:
        """Return contributions that no launch has computed."""
        return cls(contributions, contributions, None)


class CudaRefinement(Refinement):
    """x as contributions, and the correction, in device memory.

    Parameters
    ----------
    graph : PersistentGraph

    Attributes
    ----------
    graph : PersistentGraph
        The problem's graph on the device.
    follow : callable, optional
        Launches the work that follows the last launch of a solve; called after every launch, since each may be the
        last.
    """

    follow: Callable[[FinalContributions], None] | None = None

    def __init__(self, graph: PersistentGraph) -> None:
        self.graph, self.damping = graph, graph.damping
        self.nbytes = graph.nbytes
        self._contributions, self._next = self._iterates()
        self._residual = current().arrays.zeros(vector_length(graph.nodes), np.float64)
        self._launches: dict[tuple[FloatFormat, bool], Launch] = {}
        self._report = report_buffer()
        self._correction: Any | None = None
        self._has_correction = self._is_rounded = self._converges_slowly = False

    @classmethod
    def of(
        cls,
        problem: Problem,
        arrangement: Arrangement = DEFAULT,
        *,
        rows: padded_csr.Rows | None = None,
        converges_fast: bool = False,
    ) -> CudaRefinement:
        """Arrange the graph of a problem without weights; see `PersistentGraph.of`."""
        return cls(PersistentGraph.of(problem, arrangement, rows=rows, converges_fast=converges_fast))

    def warm_up(self, storage: FloatFormat | None) -> None:
        """Compile the kernels, and allocate the residual's history."""
        error_feedback = self._may_feed_back(storage)
        current().compile([self._variant(storage or FP32, error_feedback=error_feedback), *template.CONTRIBUTIONS])
        self._launch_for(storage or FP32, error_feedback=error_feedback)

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """8 bits where nodes keep their rounding errors, since this costs no additional sweep there."""
        return E5M2 if self.error_feedback and self._may_feed_back(E5M2) else None

    def start(self, values: Floats, *, from_rounded: bool | None = None) -> None:
        """Begin at values in host or device memory.

        ``from_rounded`` allows a rounded start; by default it is allowed for uniform values.
        """
        self.graph.contributions(values, self._contributions)
        self._has_correction = self._converges_slowly = False
        self._is_rounded = is_uniform(values) if from_rounded is None else from_rounded

    def start_uniform(self, nodes: int) -> None:  # noqa: ARG002
        """Begin at the uniform distribution, built on the device."""
        self.start(self.graph.uniform(), from_rounded=True)

    def outer_step(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Launch one outer step."""
        return self._refine(storage, OuterRequest(inner_reduction, 0.0, tol, norm, max_inner + 1), anderson=False)[0]

    def outer_steps(self, storage: FloatFormat | None, request: OuterRequest) -> list[OuterStep]:
        """Launch once and read the outer steps."""
        if storage and self.error_feedback and self.adaptive and self._may_feed_back(storage):
            found = self._refine_with_feedback(storage, request)
            self._converges_slowly = bool(found[-1].inner_l1) and sum(len(step.seconds) for step in found) < min(
                request.most, MAX_SWEEPS
            )
            return found
        return self._refine(storage, request, anderson=self.anderson)

    def _iterates(self) -> tuple[Any, Any]:
        """Return zeros for the contributions of x and of its successor."""
        length = vector_length(self.graph.nodes)
        return current().arrays.zeros(length, np.float64), current().arrays.zeros(length, np.float64)

    def _exchanged(self, sent: Any) -> tuple[Struct, ...]:  # noqa: ARG002
        """Return the kernel arguments of an exchange between devices; one device has none."""
        return ()

    def _rounded_start(self) -> Struct:
        """Return the kernel argument of a rounded start."""
        return self.graph.rounded_start

    def _seed(self, storage: FloatFormat) -> int:
        """Return the seed of stochastic rounding."""
        return storage.seed

    def _zero_history(self, storage: FloatFormat, vectors: int) -> Any:
        """Return zeros for so many vectors in a format."""
        nbytes = vectors * storage.nbytes(vector_length(self.graph.nodes))
        with current().memory_for(f"the residual, {vectors} times in {storage.name},", nbytes):
            return current().arrays.zeros(nbytes, np.uint8)

    def _refine(self, storage: FloatFormat | None, request: OuterRequest, *, anderson: bool) -> list[OuterStep]:
        stored_format = storage or next((launch for launch, _ in self._launches), FP32)
        launch = self._launch_for(stored_format, error_feedback=False)
        requested = request_argument(request, self.damping, launch.quantiser, has_inner=storage is not None)
        vectors = history_vectors(stored_format) if anderson else 2
        found = self._launch(launch, requested, NO_ROUNDED_START, vectors)
        self._has_correction = self.accumulates(stored_format) and bool(found[-1].inner_l1)
        return found

    def _refine_with_feedback(self, storage: FloatFormat, request: OuterRequest) -> list[OuterStep]:
        """Launch once with error feedback; the extent of an outer step then does not depend on rounding."""
        launch = self._launch_for(storage, error_feedback=True)
        starts_rounded = (
            self._is_rounded and request.norm == "l1" and request.tol > 0.0 and request.most >= _MIN_ROUNDED_SWEEPS
        )
        further = request._replace(inner_reduction=_FEEDBACK_REDUCTION)
        requested = request_argument(further, self.damping, launch.quantiser, has_inner=True)
        rounded_start = launch.rounded_start if starts_rounded else NO_ROUNDED_START
        found = self._launch(launch, requested, rounded_start, launch.vectors)
        self._has_correction = False
        return found

    def _launch(self, launch: Launch, request: Struct, start: Struct, vectors: int) -> list[OuterStep]:
        iterated = pack(
            structs.REFINE_VECTORS,
            contributions=self._contributions,
            next_contributions=self._next,
            residual=self._residual,
            correction=self._correction,
            has_correction=self._has_correction,
            history=launch.history(vectors),
        )
        arguments = *launch.graph, request, start, iterated, *self.graph.barrier, self._report
        self.graph.launch(launch.variant, (*arguments, *self._exchanged(launch.sent)))
        numbers = current().fetch_async(self._report)
        if self.follow:
            self.follow(FinalContributions(self._contributions, self._next, self._report))
        found = list(_outer_steps(numbers()))
        if sum(not step.from_rounded for step in found) % 2:
            self._contributions, self._next = self._next, self._contributions
        self._is_rounded = False
        return found

    def read(self) -> Floats:
        """Return x in host memory."""
        return current().to_host(self.read_device())

    def read_device(self) -> Any:
        """Return x on the device."""
        return self.graph.values(self._contributions)

    def accumulates(self, storage: FloatFormat) -> bool:
        """Return whether inner sweeps accumulate the correction, or defer it; see ``pagerank/persistent_refine.cu``."""
        return self._strategy(storage) == persistent.IN_CACHE_GATHER or history_vectors(storage) != HISTORY_VECTORS

    def _strategy(self, storage: FloatFormat) -> persistent.Strategy:
        strategy = self.graph.strategy_data.strategy
        return (
            persistent.DIRECT_GATHER
            if strategy.stages_values and not persistent.fits_shared_memory(storage)
            else strategy
        )

    def _may_feed_back(self, storage: FloatFormat | None) -> bool:
        """Return whether outer steps in a format can use error feedback, by present knowledge."""
        if storage is None or self.graph.row_begins is None or self._converges_slowly:
            return False
        return (
            self._strategy(storage) in persistent.ERROR_FEEDBACK_STRATEGIES
            and history_vectors(storage) == HISTORY_VECTORS
        )

    def _variant(self, storage: FloatFormat, *, error_feedback: bool) -> template.Variant:
        graph, kernel_of = self.graph, persistent.error_feedback if error_feedback else persistent.persistent_refine
        is_core, strategy = graph.internal_degree is not None, self._strategy(storage)
        return kernel_of(storage, graph.edges.shape, personal=graph.personal, core=is_core, strategy=strategy)

    def _launch_for(self, storage: FloatFormat, *, error_feedback: bool) -> Launch:
        """Return the launch data of a format, built once; the history is zero past the nodes."""
        key = storage, error_feedback
        if key not in self._launches:
            if self._correction is None and self.accumulates(storage):
                self._correction = current().arrays.zeros(vector_length(self.graph.nodes), np.float32)
            graph, other = self.graph, self._launches.get((storage, not error_feedback))
            vectors = (
                _FEEDBACK_HISTORY if self._may_feed_back(storage) and storage.width <= 16 else history_vectors(storage)
            )
            sent = other.sent if other else self._zero_history(storage, vectors)
            self._launches[key] = Launch(
                variant=self._variant(storage, error_feedback=error_feedback),
                graph=graph.arguments(self._strategy(storage)),
                quantiser=quantiser_argument(storage, self._seed(storage)),
                sent=sent,
                vectors=other.vectors if other else vectors,
                rounded_start=self._rounded_start() if error_feedback else NO_ROUNDED_START,
            )
        return self._launches[key]


class Launch(NamedTuple):
    """Launch data of a format: the kernel, its arguments, the history of sent residuals, a rounded start."""

    variant: template.Variant
    graph: tuple[Any, ...]
    quantiser: Struct
    sent: Any
    vectors: int
    rounded_start: Struct

    def history(self, vectors: int) -> Struct:
        """Return the kernel argument of the history, of which a launch uses so many vectors."""
        each = self.sent.nbytes // self.vectors
        return pack(structs.SENT_HISTORY, stored=self.sent, bytes=each, vectors=vectors)


def request_argument(request: OuterRequest, damping: float, quantiser: Struct, *, has_inner: bool) -> Struct:
    """Return the kernel argument of a request; see ``pagerank/refine_request.cuh``."""
    reach, noise, max_inner = _inner_stopping(request.inner_reduction, request.tol, damping)
    return pack(
        structs.REFINE_REQUEST,
        inner_reduction=request.inner_reduction,
        tolerance=request.tol,
        noise_tolerance=request.noise_tolerance,
        inner_reach=reach,
        inner_noise=noise,
        norm=NORMS.index(request.norm),
        max_sweeps=min(request.most, MAX_SWEEPS),
        max_inner_sweeps=max_inner if has_inner else 0,
        settings=quantiser,
    )


@functools.lru_cache(maxsize=64)
def _inner_stopping(inner_reduction: float, tol: float, damping: float) -> tuple[float, float, int]:
    coefficients = inner_coefficients(inner_reduction, tol, damping)
    return *coefficients, inner_max_iterations(inner_reduction, damping)


def quantiser_argument(storage: FloatFormat, seed: int) -> Struct:
    """Return the kernel argument of the quantiser."""
    scaled = storage.exponent_bits != DOUBLE_EXPONENT_BITS
    return pack(structs.QUANTISER_SETTINGS, scaled=scaled, top=storage.bias - headroom(storage), seed=seed)


def report_buffer() -> Any:
    """Return the output buffer of a kernel of many sweeps; see ``pagerank/sweep_log.cuh``."""
    return current().arrays.zeros(2 + _RECORD_WORDS * MAX_SWEEPS, np.float64)


def sweep_records(report: Floats) -> tuple[float, list[list[float]]]:
    """Return when a launch began, in ns, and of its sweeps ||r||_1, squares, mass, sum of r, ||r||_inf and the end.

    Uses lists, because arrays of so few numbers are slower.
    """
    count, launched_ns = report[:2].tolist()
    numbers = report[2 : 2 + _RECORD_WORDS * int(count)].tolist()
    return launched_ns, [numbers[place::_RECORD_WORDS] for place in range(_RECORD_WORDS)]


def _outer_steps(report: Floats) -> Iterator[OuterStep]:
    """Split a launch's report into outer steps, at residual sweeps."""
    launched_ns, (l1, squares, mass, sums, linf, ended_ns) = sweep_records(report)
    ended_s, began_s = seconds_since(launched_ns, ended_ns), 0.0
    bounds = [place for place, square in enumerate(squares) if square != _INNER_MARK]
    for first, last in itertools.pairwise([*bounds, len(l1)]):
        from_rounded = squares[first] == _ROUNDED_START_MARK
        norm_l1 = l1[first]
        yield OuterStep(
            found=Sweep(norm_l1, norm_l1, norm_l1, 1.0)
            if from_rounded
            else Sweep(norm_l1, math.sqrt(squares[first]), linf[first], mass[first]),
            inner_l1=l1[first + 1 : last],
            sums=sums[first:last],
            seconds=[ended - began_s for ended in ended_s[first:last]],
            from_rounded=from_rounded,
        )
        began_s = ended_s[last - 1]


def is_uniform(values: Any) -> bool:
    """Return whether an initial guess is the uniform distribution, by some of its values."""
    some = values[:: -(-len(values) // _SAMPLED)]
    some = current().to_host(as_float64(some)) if on_device(some) else some
    return bool((abs(some * len(values) - 1.0) < _UNIFORM).all())


def needed_bytes(problem: Problem) -> int:
    """Return about how many bytes of device memory persistent kernels need, the construction of the layout included."""
    graph = problem.graph
    return 12 * (graph.edges + graph.nodes) + 82 * graph.nodes


def too_large(problem: Problem, engine: str) -> str | None:
    """Return a sentence if a graph exceeds device memory or 32-bit counts."""
    graph, advice = problem.graph, "use a smaller graph, or engine cpu"
    return memory_limits.refusal(engine, graph, needed_bytes(problem), what=graph.name, advice=advice)
