"""GMRES(m) whose stored basis follows the residual: early vectors in many bits, late ones in few.

By inexact Krylov theory (Simoncini and Szyld, SIAM J. Sci. Comput. 25, 2003; van den Eshof and Sleijpen, SIAM J. Matrix
Anal. 26, 2004), an error in basis vector j changes the residual by that error times the coefficient y_j, and y_j
shrinks with the residual. Let rho be the residual at which a vector is stored, and t the residual that the cycle is to
reach, both relative to the first residual of the cycle. The vector then needs -log2(t / rho) bits of mantissa. The
cycle aims at the goal, but no further than the widest format below float64 allows, and no further than `_PROGRESS`
times the reduction of the cycle before.

Orthogonalisation is classical Gram-Schmidt against the vectors *as stored*, so that the Arnoldi relation holds for the
numbers that later iterations read. Where a part of a stored vector can be read alone, later iterations read fewer of
its bits (`cpms.solvers.linear.stored_basis`). Rounding changes the length of a vector, so its projection is divided by
its squared 2-norm. A second pass follows where the first one cancelled most of the new vector (Daniel, Gragg, Kaufman
and Stewart, Math. Comp. 30, 1976). Each cycle begins with b - A x in float64. An iteration costs one product and reads
the basis twice, or four times with the second pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.base.types import Floats
from cpms.contracts.arnoldi import NO_LONGER, ArnoldiCycle, ArnoldiStep, ArnoldiSteps, StoredAs
from cpms.contracts.linear_solve import SolveStatus, SolveTask, bits_of
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import DOUBLE_BITS, FloatFormat, SegmentFormat
from cpms.solvers.linear.stored_basis import StoredBasis

RESTART = 100
"""Most basis vectors of a cycle, unless a caller gives another number."""
_PROGRESS = 1e-5
"""Least reduction that a cycle aims at, over the reduction of the cycle before; the first one may aim at the goal."""
_NEAR = 0.9
"""Residual at which a cycle ends, over the goal."""
_STALLED = 0.999
"""Residual after a cycle over the one before it, above which the cycle made no progress."""
_DOUBLE_DIGITS = 53
"""Binary digits of float64."""


def choice(formats: tuple[VectorFormat | None, ...], digits: int) -> StoredAs:
    """Return the storage of fewest bits that keeps this many binary digits: a format, and how many segments of it.

    Where none of the formats keeps enough, it is float64.

    Examples
    --------
    >>> from cpms.formats.block_float import BFP16, BFP32
    >>> from cpms.formats.formats import CPMS4
    >>> choice((CPMS4,), 19)[1:], choice((BFP16, BFP32), 20)[1:], choice((BFP16,), 40)
    ((2, 32), (None, 32), StoredAs(storage=None, segments=None, bits=64))
    """
    for storage in formats:
        if isinstance(storage, SegmentFormat):
            lost = 0 if storage.rounding == "nearest" else 1
            for segments in range(1, storage.segments):
                if storage.mantissa_kept(segments) >= digits + lost:
                    return StoredAs(storage, segments, storage.bits(segments))
        elif _digits(storage) >= digits:
            return StoredAs(storage, None, bits_of(storage))
    return StoredAs(None, None, DOUBLE_BITS)


def _most_digits(formats: tuple[VectorFormat | None, ...]) -> int:
    """Return the binary digits that the widest format below float64 keeps; 53 where there is none.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4, FP16, FP32, format_named
    >>> _most_digits((FP16, FP32)), _most_digits((CPMS4,)), _most_digits((None,))
    (23, 36, 53)
    >>> _most_digits((format_named("posit16"),))
    8
    """
    return max(_digits(each) for each in formats)


def _digits(storage: VectorFormat | None) -> int:
    """Return the binary digits of the mantissa; of a format without one, those that its unit roundoff stands for."""
    if storage is None:
        return _DOUBLE_DIGITS
    if isinstance(storage, SegmentFormat):
        return storage.mantissa_kept(storage.segments - 1) if storage.segments > 1 else _DOUBLE_DIGITS
    if isinstance(storage, BlockFloatFormat):
        return storage.width - 1
    if isinstance(storage, FloatFormat):
        return storage.mantissa_bits
    roundoff = storage.unit_roundoff()
    return min(_DOUBLE_DIGITS, max(1, math.floor(-math.log2(roundoff)) - 1)) if roundoff > 0.0 else _DOUBLE_DIGITS


def gmres(task: SolveTask, x: Any, *, restart: int = RESTART) -> SolveStatus:
    """Improve x until ||b - A x|| is at most the goal.

    After a cycle without progress, further cycles use float64 for the basis and the matrix as given. If one of these
    makes no progress either, the solve has stagnated.

    Parameters
    ----------
    task : SolveTask
        The preconditioner acts on the right, so that residuals are those of the system.
    x : vector of float64
        The start, and the answer.
    restart : int
        Basis vectors of a cycle, at most.
    """
    (r, size), reached = task.residual(x), 0.0
    steps: ArnoldiSteps | None = None
    while size > task.goal:
        if not math.isfinite(size):
            return SolveStatus.OVERFLOW
        if task.recorder.left <= 0:
            return SolveStatus.MAX_ITERATIONS
        before, size_before = task.exact.convert(x, None), size
        if steps is None:
            steps = task.stored.arnoldi(task, restart) or VectorArnoldi(task)
        expected = _cycle(task, x, r, size, steps, restart, reached)
        r, size = task.residual(x)
        task.recorder.correct(size)
        reached = min(0.5, max(1e-12, expected))
        if size <= _STALLED * size_before:
            continue
        if not size <= size_before:
            x[...] = before
            r, size = task.residual(x)
        if task.recorder.left <= 0:
            return SolveStatus.MAX_ITERATIONS
        if task.formats == (None,) and task.stored is task.exact:
            return SolveStatus.STAGNATED
        task, steps = task.widest, None
        task.recorder.notes.append("a cycle without progress: widened to 64 bits")
    return SolveStatus.CONVERGED


def cycle_limits(task: SolveTask, beta: float, restart: int, reached: float = 0.0) -> ArnoldiCycle:
    """Return the limits of a cycle from a residual of 2-norm ``beta`` on; ``reached`` is the reduction by the last."""
    floor = max(task.goal / beta, _PROGRESS * reached, 2.0 ** -_most_digits(task.formats))
    enough = floor * beta if floor > task.goal / beta else _NEAR * task.goal

    def stored_as(rho: float) -> StoredAs:
        return choice(task.formats, math.ceil(-math.log2(min(0.5, floor / rho))) if rho > 0.0 else 1)

    return ArnoldiCycle(enough, min(restart, task.size, task.recorder.left), stored_as, floor)


def _cycle(task: SolveTask, x: Any, r: Any, beta: float, steps: ArnoldiSteps, restart: int, reached: float) -> float:
    """Do one cycle, which updates x; return the reduction of the residual by the least-squares problem.

    It begins at the residual r of x, whose 2-norm is ``beta``; r is overwritten.
    """
    steps.begin(r, beta, cycle_limits(task, beta, restart, reached))
    count, left = 0, beta
    while found := steps.run():
        for step in found:
            left, count = step.residual, count + 1
            bits = 2 * step.passes * sum(steps.bits[:count]) if step.bits is None else step.bits
            of_basis = task.size * bits // 8
            task.recorder.add(left, steps.bits[count - 1], task.stored.bytes_read(task.read) + of_basis)
    if count:
        steps.update(x)
    return left / beta


class VectorArnoldi(ArnoldiSteps):
    """Arnoldi's method by separate operations of `LinearOperator`, for backends without fused steps."""

    def __init__(self, task: SolveTask) -> None:
        self._task = task
        self._w = task.stored.empty((task.size,), "float64")

    def begin(self, r: Any, size: float, cycle: ArnoldiCycle) -> None:
        """Begin a cycle: store r / ||r|| as the first basis vector."""
        self._cycle, self._size, self._ended = cycle, size, False
        self._columns: list[Floats] = []
        self._rotations: list[tuple[float, float]] = []
        self._sides = [size]
        self._basis = StoredBasis(self._task.stored, self._task.formats, cycle)
        self.bits = self._basis.bits
        self._task.stored.scale(r, 1.0 / size)
        self._basis.keep(r, 1.0)

    def run(self) -> list[ArnoldiStep]:
        """Do one step: product, orthogonalisation, Givens rotation, and storage of the next vector."""
        j, basis, w = len(self._columns), self._basis, self._w
        if self._ended or j >= self._cycle.most:
            return []
        _multiply(self._task, *basis.last, w)
        entries, passes, bits = basis.orthogonalise(w, abs(self._sides[-1]) / self._size)
        size = entries[j + 1]
        if not np.isfinite(entries).all():
            return []
        _rotate(entries, self._rotations, self._sides)
        self._columns.append(entries)
        residual = abs(self._sides[-1])
        self._ended = bool(
            residual <= self._cycle.enough or size <= NO_LONGER * np.abs(entries[: j + 1]).max(initial=0.0)
        )
        if not self._ended and j + 1 < self._cycle.most:
            self._task.stored.scale(w, 1.0 / size)
            basis.keep(w, residual / self._size)
        return [ArnoldiStep(residual, passes, bits)]

    def update(self, x: Any) -> None:
        """Add the combination M V y of the basis to x, M being the preconditioner."""
        count = len(self._columns)
        y = least_squares(self._columns, self._sides[:count])
        if y is None:
            return
        task = self._task
        if task.preconditioner is None:
            self._basis.add(y, x)
            return
        correction = task.zeros()
        self._basis.add(y, correction)
        task.stored.combine([task.preconditioner.apply(correction)], [1.0], x)


def _multiply(task: SolveTask, v: Any, level: int | None, w: Any) -> None:
    """Write A M v to w, M being the preconditioner and v read in ``level`` segments."""
    if task.preconditioner is None:
        task.stored.apply(v, w, read_matrix=task.read, read_x=level)
    else:
        z = task.preconditioner.apply(task.stored.convert(v, None, level))
        task.stored.apply(z, w, read_matrix=task.read)


def _rotate(entries: Floats, rotations: list[tuple[float, float]], sides: list[float]) -> None:
    """Bring a new column of the Hessenberg matrix to triangular form by Givens rotations, and rotate the right side."""
    column = entries.tolist()
    for i, (cosine, sine) in enumerate(rotations):
        upper, lower = column[i], column[i + 1]
        column[i], column[i + 1] = cosine * upper + sine * lower, cosine * lower - sine * upper
    length = math.hypot(column[-2], column[-1])
    cosine, sine = (column[-2] / length, column[-1] / length) if length > 0.0 else (1.0, 0.0)
    entries[:] = [*column[:-2], length, 0.0]
    rotations.append((cosine, sine))
    sides.append(-sine * sides[-1])
    sides[-2] *= cosine


def least_squares(columns: list[Floats], right: list[float]) -> Floats | None:
    """Solve the triangular system, a singular one by least squares; return None if the solution is not finite."""
    count = len(columns)
    upper = np.zeros((count, count))
    for j, column in enumerate(columns):
        upper[: j + 1, j] = column[: j + 1]
    sizes = np.abs(np.diag(upper))
    y: Floats
    if sizes.min() > 1e-14 * sizes.max():
        y = np.array(right)
        for i in range(count - 1, -1, -1):
            y[i] = (y[i] - upper[i, i + 1 :] @ y[i + 1 :]) / upper[i, i]
    else:
        y = np.linalg.lstsq(upper, np.array(right), rcond=1e-14)[0]
    return y if np.isfinite(y).all() else None
