"""Mixed-precision iterative refinement composed of the operations of a linear operator, also for graphs with weights.

The equations are those of `cpms.solvers.refine` with P = A diag(1/d). A has the weights, exact in few bits or in
segments, and d is the divisor of each node (`cpms.sparse.transition.weights_and_divisor`). A residual sweep reads all
of A. An inner sweep reads its leading bits, and the residual in few bits:

    z = Q(r / d)
    y = damping A z;  r = y + (damping sum(r) - sum(y)) w;  c = c + r

The factor of w is the mass that edges did not distribute: that of dangling nodes, and that lost by the rounding of Q
and of A. With it, a sweep multiplies the sum of r by the damping for any Q and A, which the fast convergence needs. An
inner sweep costs one product and six passes over vectors. Several iterates may share each read of A, in a product with
a block of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpms.base import work_clock
from cpms.base.types import Floats, Norm
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterStep, Refinement
from cpms.formats.formats import FloatFormat, Format, element_type
from cpms.formats.quantization import codec_scale
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance
from cpms.problems.pagerank import Problem
from cpms.solvers.composed_power import Distributions, dangling_indicator, zeros

_WIDE_EXPONENT_BITS = 8
"""Least number of exponent bits with which a format can hold every residual; narrower formats are scaled."""


@dataclass(eq=False)
class Iterate:
    """Vectors of one solve, x, its residual r, the correction c and the factor of the next product; and their sums."""

    distributions: Distributions
    x: Any
    r: Any
    c: Any
    contribution: Any
    dangling_mass: float
    sum_of_r: float = 0.0


class ComposedSweeps:
    """A graph as a linear operator, and sweeps over one iterate or several.

    Parameters
    ----------
    operator : LinearOperator
        A.
    divisor : ndarray of float64, shape (nodes,)
        d, 0 for dangling nodes.
    problem : Problem
        Its teleport distribution is not used.
    inner_read : int or None
        Segments of A that inner sweeps read; all for None.
    """

    def __init__(self, operator: LinearOperator, divisor: Floats, problem: Problem, inner_read: int | None) -> None:
        self.operator, self.problem, self._inner_read = operator, problem, inner_read
        reciprocal = np.divide(1.0, divisor, out=np.zeros(len(divisor)), where=divisor > 0.0)
        self._reciprocal = operator.to_memory(reciprocal)
        indicators = operator.to_memory(np.ones(len(divisor))), dangling_indicator(operator, problem)
        self._indicators = [indicator for indicator in indicators if indicator is not None]
        self.nbytes = operator.nbytes + 8 * len(divisor)

    def iterate(self, problem: Problem, first: Floats) -> Iterate:
        """Return the vectors of a solve that begins at ``first``."""
        operator = self.operator
        r, c, contribution = (zeros(operator) for _ in range(3))
        x = operator.to_memory(first)
        return Iterate(Distributions(operator, problem), x, r, c, contribution, self._masses(x)[1])

    def correct(self, iterate: Iterate) -> None:
        """Add the correction: x = max(x + c, 0), scaled to mass 1."""
        x = iterate.x
        self.operator.combine([iterate.c], [1.0], x)
        x.clip(0.0, None, out=x)
        total, dangling = self._masses(x)
        self.operator.scale(x, 1.0 / total)
        iterate.dangling_mass = dangling / total
        iterate.c.fill(0.0)

    def sweep(self, iterates: Sequence[Iterate]) -> list[Sweep]:
        """Do r = G(x) - x and x = G(x) in float64; return the norms of each r and the mass of each x."""
        operator, found = self.operator, []
        for each in iterates:
            operator.multiply(each.x, self._reciprocal, each.contribution)
        for each, y in zip(
            iterates, self._products([each.contribution for each in iterates], None, np.float64), strict=True
        ):
            add, factor = each.distributions.added(each.dangling_mass)
            operator.combine([add], [factor], y)
            each.r = operator.convert(y, None)
            total, each.dangling_mass = self._masses(y)
            found.append(Sweep(*operator.update_and_norms(each.r, -1.0, each.x), total))
            each.x = y
        return found

    def begin_inner_sweeps(self, iterate: Iterate) -> None:
        """Add up the residual, whose sum inner sweeps keep."""
        iterate.sum_of_r = self._sum(iterate.r)

    def inner_sweep(self, iterates: Sequence[Iterate], storages: Sequence[Format]) -> list[float]:
        """Do one inner sweep of each iterate, whose residual is read in its format; return the new L1 norms."""
        sent = [self._quantised(each, storage) for each, storage in zip(iterates, storages, strict=True)]
        norms, damping = [], self.problem.damping
        for each, y in zip(iterates, self._products(sent, self._inner_read, np.float32), strict=True):
            each.sum_of_r *= damping
            norms.append(self.operator.update_and_norm(y, each.sum_of_r - self._sum(y), each.distributions.sink, "l1"))
            self.operator.combine([y], [1.0], each.c)
            each.r = y
        return norms

    def _quantised(self, iterate: Iterate, storage: Format) -> Any:
        """Return Q(r / d), scaled by a power of two where the format is narrow; float32 as a plain array.

        For a format with a codec of its own, return the values that a read of its first level gives.
        """
        if not isinstance(storage, FloatFormat):
            return self._in_codec(iterate, storage)
        dtype = element_type(storage)
        into = iterate.contribution if dtype is None else self.operator.empty(self.operator.shape[:1], dtype)
        self.operator.multiply(iterate.r, self._reciprocal, into)
        if dtype is not None:
            return into
        narrow = storage.exponent_bits < _WIDE_EXPONENT_BITS and not storage.scaled
        return self.operator.convert(
            into, replace(storage, name=f"{storage.name}-scaled", scaled=True) if narrow else storage
        )

    def _in_codec(self, iterate: Iterate, storage: Format) -> Any:
        """Return Q(r / d) for a format with a codec of its own, decoded, as products on processors read it."""
        operator, z = self.operator, iterate.contribution
        operator.multiply(iterate.r, self._reciprocal, z)
        exponent = codec_scale(storage, float(max(z.max(), -z.min())))
        operator.scale(z, 2.0**exponent)
        stored = operator.convert(operator.convert(z, storage), None, 1)
        operator.scale(stored, 2.0**-exponent)
        return stored

    def _products(self, vectors: Sequence[Any], read: int | None, dtype: Any) -> list[Any]:
        """Return damping A z for each of the vectors; several share one read of A, as a block of ``dtype``.

        Float32 holds z, or rounds it once more; the sum of the product accounts for that rounding error.
        """
        operator, (rows, columns) = self.operator, self.operator.shape
        damping, count = self.problem.damping, len(vectors)
        if count == 1:
            out = operator.empty((rows,), np.float64)
            operator.apply(vectors[0], out, alpha=damping, read_matrix=read)
            return [out]
        block = operator.empty((columns, count), dtype)
        outs = operator.empty((rows, count), np.float64)
        for j, vector in enumerate(vectors):
            block[:, j] = vector if hasattr(vector, "dtype") else operator.convert(vector, None)
        operator.apply(block, outs, alpha=damping, read_matrix=read)
        return [outs[:, j].copy() for j in range(count)]

    def _sum(self, x: Any) -> float:
        return float(self.operator.dots(self._indicators[:1], x)[0])

    def _masses(self, x: Any) -> tuple[float, float]:
        """Return the mass of all nodes and of dangling ones, in one pass over x."""
        total, *dangling = self.operator.to_host(self.operator.dots(self._indicators, x)).tolist()
        return total, dangling[0] if dangling else 0.0


class ComposedRefinement(Refinement):
    """Method ``refine`` of one problem, on any operator."""

    def __init__(self, sweeps: ComposedSweeps, problem: Problem) -> None:
        self.problem, self.damping, self.nbytes = problem, problem.damping, sweeps.nbytes
        self._sweeps = sweeps
        self._iterate: Iterate | None = None

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values."""
        self._iterate = self._sweeps.iterate(self.problem, values)

    def readable(self, storage: Format | None) -> Format | None:
        """Return the format itself."""
        return storage

    def set_teleport(self, teleport: Floats | None) -> bool:
        """Replace the teleport distribution, shape (nodes,); None is the uniform one."""
        self.problem = replace(self.problem, teleport=teleport)
        if self._iterate is not None:
            self._iterate.distributions = Distributions(self._sweeps.operator, self.problem)
        return True

    def outer_step(
        self, storage: Format | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Do one outer step."""
        began, sweeps, iterate = work_clock.now(), self._sweeps, self._started
        sweeps.correct(iterate)
        [found] = sweeps.sweep([iterate])
        sweeps.begin_inner_sweeps(iterate)
        inner_l1: list[float] = []
        sums, seconds = [iterate.sum_of_r], [work_clock.now() - began]
        if storage is None or not tol <= found.of(norm) < np.inf:
            return OuterStep(found, inner_l1, sums, seconds)
        until = inner_tolerance(inner_reduction, tol, self.damping, found.l1, found.of(norm))
        most, size = min(max_inner, inner_max_iterations(inner_reduction, self.damping)), found.l1
        while size > until and len(inner_l1) < most:
            [size] = sweeps.inner_sweep([iterate], [storage])
            inner_l1.append(size)
            sums.append(iterate.sum_of_r)
            seconds.append(work_clock.now() - began)
        return OuterStep(found, inner_l1, sums, seconds)

    def read(self) -> Floats:
        """Return x in main memory."""
        operator = self._sweeps.operator
        return operator.to_host(operator.convert(self._started.x, None))

    def read_device(self) -> Any | None:
        """Return x on the device; None if it is in main memory."""
        operator = self._sweeps.operator
        return operator.convert(self._started.x, None) if operator.memory == "device" else None

    @property
    def _started(self) -> Iterate:
        assert self._iterate is not None  # noqa: S101  # Solvers start before they sweep.
        return self._iterate
