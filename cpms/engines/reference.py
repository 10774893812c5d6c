"""Engine ``reference``: sweeps in plain NumPy over the list of edges, in every storage format.

Tests compare each fast engine with it. It is slow on purpose: every line of the method is one line of code.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from cpms.base.types import Floats, Norm
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.contracts.own_codecs import TakesCodecs, has_own_codec
from cpms.contracts.refinement import OuterStep, Refinement
from cpms.formats.formats import FP64, FloatFormat, Format, SegmentFormat
from cpms.formats.quantization import codec_scale, shared_scale
from cpms.precision.controllers import FLOAT64, Level
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance
from cpms.problems.pagerank import Problem
from cpms.sparse.transition import weights_and_divisor
from cpms.storage.array import distribution_vector, encode


@dataclass(frozen=True, eq=False)
class ReferenceOperator(Operator[Floats]):
    """Edges as two index lists; a vector is a float64 array whose unread bits are cleared at each use."""

    problem: Problem
    storage: Format
    layout: str
    takes_problems: ClassVar[bool] = True

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the edge lists and values."""
        return 24 * self.problem.graph.edges

    @property
    def divisor(self) -> Floats:
        """Divisor of x before it is stored: the out-degree in the pattern layout."""
        graph = self.problem.graph
        if self.layout == "pattern":
            return np.maximum(graph.out_degree, 1).astype(np.float64)
        return np.ones(graph.nodes)

    def load(self, values: Floats) -> Floats:
        """Return the values, divided as the layout asks and rounded to the format."""
        return self._round(values / self.divisor, None)

    def empty(self) -> Floats:
        """Return a vector of NaN."""
        return np.full(self.problem.graph.nodes, np.nan)

    def sweep(self, x: Floats, out: Floats, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Apply the operator with one weighted count over the edges."""
        problem, graph = self.problem, self.problem.graph
        read, write = (None, None) if level == FLOAT64 else (level.read, level.write)
        old = self._cut(x, read)
        products = self._edge_values(read) * old[graph.sources]
        total = np.bincount(graph.targets, weights=products, minlength=graph.nodes)
        dangling = old[graph.out_degree == 0].sum()
        new = problem.damping * (total + dangling * problem.sink_or_scalar)
        new += (1 - problem.damping) * problem.teleport_or_scalar
        out[:] = self._round(new / self.divisor, write)
        change = np.abs((out - old) * self.divisor)
        mass = float((out * self.divisor).sum())
        return Sweep(float(change.sum()), float(np.sqrt((change**2).sum())), float(change.max()), mass)

    def scale(self, x: Floats, factor: float, segments: int) -> None:
        """Multiply and round again."""
        x[:] = self._round(self._cut(x, segments or None) * factor, segments or None)

    def to_float64(self, x: Floats, out: Floats) -> tuple[ReferenceOperator, Floats, Floats]:
        """Keep the values, change the format."""
        return ReferenceOperator(self.problem, FP64, self.layout), x, out

    @property
    def survives_conversion(self) -> bool:
        """Whether `to_float64` keeps the matrix: it makes another."""
        return True

    def read(self, x: Floats, segments: int) -> Floats:
        """Return the vector, multiplied back as the layout asks."""
        return self._cut(x, segments or None) * self.divisor

    def _edge_values(self, read: int | None) -> Floats:
        graph = self.problem.graph
        if self.layout == "pattern":
            return np.ones(graph.edges)
        weights = np.ones(graph.edges) if graph.weights is None else graph.weights
        values = 1.0 / graph.out_weight[graph.sources] * weights
        if has_own_codec(self.storage):
            return encode(values, self.storage).decode(read)
        if isinstance(self.storage, FloatFormat) and self.storage.scaled and len(values):
            scale = 2.0 ** (self.storage.bias - int(np.frexp(values.max())[1]))
            return round_to_float(values * scale, self.storage) / scale
        return self._cut(self._round_fully(values), read)

    def _round_fully(self, values: Floats) -> Floats:
        return round_to_float(values, self.storage) if isinstance(self.storage, FloatFormat) else values

    def _cut(self, values: Floats, read: int | None) -> Floats:
        if has_own_codec(self.storage):
            return self._round(values, read)
        return values if isinstance(self.storage, FloatFormat) else keep_bits(values, self.storage.bits(read))

    def _round(self, values: Floats, write: int | None) -> Floats:
        if not isinstance(self.storage, FloatFormat | SegmentFormat):
            stored = distribution_vector(len(values), self.storage)
            stored.write(values)
            return stored.decode(write)
        if isinstance(self.storage, FloatFormat):
            scale = 2.0 ** (self.storage.bias - 1) if self.storage.scaled else 1.0
            return round_to_float(values * scale, self.storage) / scale
        bits = self.storage.bits(write)
        if self.storage.rounding == "nearest" and bits >= 12:
            fraction, exponent = np.frexp(values)
            rounded: Floats = np.ldexp(np.rint(np.ldexp(fraction, bits - 11)), exponent + 11 - bits)
            return rounded
        return keep_bits(values, bits)


class ReferenceRefinement(Refinement):
    """Method ``refine`` on the list of edges, in float64 but for the rounding of Q.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> from cpms.graph.graph import Graph
    >>> refinement = ENGINE.refinement(Problem(Graph.from_edges([0, 1, 2], [1, 2, 0])))
    >>> refinement.start(np.array([1.0, 0.0, 0.0]))
    >>> found = refinement.outer_step(FP16, inner_reduction=0.5, tol=1e-9, norm="l1", max_inner=9)
    >>> len(found.inner_l1), round(found.inner_l1[-1] / found.found.l1, 4)
    (5, 0.4437)
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.damping = problem, problem.damping
        self.nbytes = 16 * problem.graph.edges
        matrix, self._degree = weights_and_divisor(problem.graph)
        self._weights = matrix.given_values()
        self._x = self._c = np.zeros(problem.graph.nodes)

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values."""
        self._x, self._c = values.copy(), np.zeros(len(values))

    def readable(self, storage: Format | None) -> Format | None:
        """Return the format itself."""
        return storage

    def outer_step(
        self, storage: Format | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Do an outer step of `cpms.solvers.refine`, line by line."""
        began = time.perf_counter()
        damping, w, v = self.problem.damping, self.problem.sink_or_scalar, self.problem.teleport_or_scalar
        x = np.maximum(self._x + self._c, 0.0)
        x /= x.sum()
        contributions = self._contributions(x)
        y = damping * (self._gathered(contributions) + x[self._degree == 0].sum() * w) + (1 - damping) * v
        r = y - x
        self._x, self._c = y, np.zeros(len(y))
        found = Sweep(float(np.abs(r).sum()), float(np.sqrt((r**2).sum())), float(np.abs(r).max()), float(y.sum()))
        inner_l1: list[float] = []
        sums, seconds = [float(r.sum())], [time.perf_counter() - began]
        if storage is None or not tol <= found.of(norm) < np.inf:
            return OuterStep(found, inner_l1, sums, seconds)
        until, most = (
            inner_tolerance(inner_reduction, tol, damping, found.l1, found.of(norm)),
            inner_max_iterations(inner_reduction, damping),
        )
        size, largest = found.l1, self._largest(r)
        while size > until and len(inner_l1) < min(max_inner, most):
            z = self._quantised(r, storage, largest)
            lost = (r - self._degree * z).sum()
            largest = self._largest(r)
            r = damping * (self._gathered(z) + lost * w)
            self._c += r
            size = float(np.abs(r).sum())
            inner_l1.append(size)
            sums.append(float(r.sum()))
            seconds.append(time.perf_counter() - began)
        return OuterStep(found, inner_l1, sums, seconds)

    def read(self) -> Floats:
        """Return x."""
        return self._x.copy()

    def _gathered(self, contributions: Floats) -> Floats:
        graph = self.problem.graph
        return np.bincount(
            graph.targets, weights=self._weights * contributions[graph.sources], minlength=graph.nodes
        ).astype(np.float64)

    def _contributions(self, r: Floats) -> Floats:
        return np.where(self._degree > 0, r / np.where(self._degree > 0, self._degree, 1.0), 0.0)

    def _largest(self, r: Floats) -> float:
        return float(np.abs(self._contributions(r)).max())

    def _quantised(self, r: Floats, storage: Format, largest: float) -> Floats:
        if not isinstance(storage, FloatFormat):
            exponent = codec_scale(storage, self._largest(r))
            return np.ldexp(encode(np.ldexp(self._contributions(r), exponent), storage).decode(1), -exponent)
        scale = 2.0 ** shared_scale(storage, largest)
        fitting = np.clip(self._contributions(r) * scale, -storage.max_finite, storage.max_finite)
        return round_to_float(fitting, storage) / scale


class ReferenceEngine(Engine):
    """NumPy alone, one thread, no layout of its own."""

    name = "reference"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "ell", "pattern", "coo")
    methods: tuple[str, ...] = ("power", "refine")
    works_with_weights: tuple[str, ...] = ("power", "refine")
    takes_codecs: ClassVar[TakesCodecs] = "numpy"
    residual_codecs: ClassVar[TakesCodecs] = "numpy"
    repeatable = True

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not, also for stochastic rounding, which has no plain counterpart here."""
        if isinstance(storage, FloatFormat) and storage.rounding == "stochastic":
            return "engine reference does not round stochastically; use cpu"
        return super().unsupported(problem, storage, layout)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> ReferenceOperator:
        """Do nothing ahead of time."""
        self.require_supported(problem, storage, layout)
        return ReferenceOperator(problem, storage, layout)

    def refinement(self, problem: Problem) -> ReferenceRefinement:
        """Do nothing ahead of time."""
        return ReferenceRefinement(problem)


ENGINE = ReferenceEngine()


def keep_bits(values: Floats, bits: int) -> Floats:
    """Return the values with all but their first ``bits`` bits cleared."""
    mask = np.uint64(2**64 - 2 ** (64 - bits))
    kept: npt.NDArray[np.uint64] = values.view(np.uint64) & mask
    return kept.view(np.float64)


def round_to_float(values: Floats, storage: FloatFormat) -> Floats:
    """Return finite values rounded to a packed float, as float64."""
    _, exponent = np.frexp(values)
    step = np.ldexp(1.0, np.maximum(exponent - 1, 1 - storage.bias) - storage.mantissa_bits)
    rounder = np.rint if storage.rounding == "nearest" else np.trunc
    rounded: Floats = rounder(values / step) * step
    over = np.inf if storage.rounding == "nearest" else storage.max_finite
    return np.where(np.abs(rounded) > storage.max_finite, np.copysign(over, rounded), rounded)
