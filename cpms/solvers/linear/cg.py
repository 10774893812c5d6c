"""Conjugate gradients with reliable updates: r and p in few bits, x in float64, and r is recomputed now and then.

The method is that of reliable updates (Sleijpen and van der Vorst, "Reliable updated residuals in hybrid Bi-CG
methods", Computing 56, 1996; Clark et al. for QUDA, 2010). Whenever the residual of the recurrence has fallen tenfold,
r = b - A x is computed in float64 and replaces it, while the direction p is kept. So rounding r and p to few bits does
not limit the accuracy of the answer. The recurrences are in `cpms.contracts.conjugate_gradients`. An iteration costs
one product and passes over r, p and x. A replacement costs one more product, in float64.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from cpms.base.errors import InputError
from cpms.contracts.conjugate_gradients import CgIterations, CgRun, CgStep
from cpms.contracts.linear_solve import SolveStatus, SolveTask, bits_of, in_format, vector_bytes
from cpms.formats.codes import VectorFormat
from cpms.solvers.linear.shared_reads import Solve, alone
from cpms.solvers.linear.widening import Attempts

_REDUCTION = 0.1
"""Reduction of the recurrence's residual after which b - A x replaces it."""
_MOST_BETWEEN = 1000
"""Most iterations between two replacements, however little the residual fell."""
_GROWTH = 8
"""Most iterations of a run, over those of the run before."""
_TRIAL_ITERATIONS = 300
"""Most iterations on trial in which the residual is to fall by `_REDUCTION`."""
_TRIAL_SLACK = 2.0
"""Largest residual that a replacement on trial may find, over its target; rounding alone may cause that much."""
_STALLS = 3
"""Replacements in a row without progress after which a solve has stagnated."""
_SMALLER = 0.9
"""Residual after a replacement, over the least one before it, below which the solve has made progress."""
_GROWN = 1e10
"""Residual over the least one before it, above which a solve diverges.

For a positive definite matrix this ratio is at most the square root of the condition number.
"""


class Later(NamedTuple):
    """Another format for r and p, once the residual has fallen to ``reduction`` times that of the start.

    A ``storage`` of None is float64.
    """

    storage: VectorFormat | None
    reduction: float


def cg(task: SolveTask, x: Any, *, later: Later | None = None) -> SolveStatus:
    """Improve x until ||b - A x|| is at most the goal, with r and p in each of the task's formats in turn.

    Parameters
    ----------
    task : SolveTask
        Its matrix, and its preconditioner if there is one, are symmetric positive definite.
    x : vector of float64
        The start, and the answer.
    later : Later, optional
        A second format for the same solve, after the first of the task's formats and in place of all others. The
        direction is converted to it.
    """
    return alone(_in_one_format(task, x, later) if later is not None else cg_in_runs(task, x))


def cg_in_runs(task: SolveTask, x: Any) -> Solve[SolveStatus]:
    """Do `cg` as a solve of `cpms.solvers.linear.shared_reads`."""
    attempts = Attempts(task, x)
    for attempt in attempts:
        attempts.status = yield from _in_one_format(attempt, x)
    return attempts.status


def cg_on_trial_in_runs(task: SolveTask, x: Any) -> Solve[SolveStatus]:
    """Improve x by conjugate gradients for a nearly symmetric matrix, as long as the residual falls fast enough.

    The trial ends, as stagnated, where the residual does not fall tenfold in `_TRIAL_ITERATIONS`, or where the
    iterations that are left do not suffice at the rate so far. Each direction is made conjugate to the last one alone,
    as in truncated full orthogonalisation (Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section
    6.4.2). For a symmetric positive definite matrix it is then conjugate to all earlier ones, and for a nearly
    symmetric matrix it almost is. A trial that fails costs little, since an iteration costs a fraction of GMRES's.
    """
    first = replace(task, formats=task.formats[:1])
    before = task.exact.convert(x, None)
    status = yield from _in_one_format(first, x, is_trial=True)
    if status is not SolveStatus.CONVERGED and not task.residual(x)[1] <= task.residual(before)[1]:
        x[...] = before
    return status


def _in_one_format(task: SolveTask, x: Any, later: Later | None = None, is_trial: bool = False) -> Solve[SolveStatus]:
    fused = None if later is not None else task.stored.conjugate_gradients(task, x)
    iterations = fused or VectorIterations(task, x)
    recorder = task.recorder
    size = best = iterations.replace_residual()
    recorder.lanczos = []
    product = size * size if iterations.product is None else iterations.product
    later_from = 0.0 if later is None else later.reduction * size
    stalls, first, left_before, usable = 0, size, recorder.left, None
    while size > task.goal:
        if not math.isfinite(size):
            return SolveStatus.OVERFLOW
        if recorder.left <= 0:
            return SolveStatus.MAX_ITERATIONS
        target = max(_REDUCTION * size, 0.5 * task.goal)
        most = _TRIAL_ITERATIONS if is_trial else _MOST_BETWEEN
        status, product = yield from _until(task, iterations, target, product, most)
        if later is not None and isinstance(iterations, VectorIterations) and size * _REDUCTION <= later_from:
            iterations.store_in(later.storage)
        size = iterations.replace_residual()
        recorder.correct(size)
        if size <= task.goal:
            break
        replaced = product if iterations.product is None else iterations.product
        if usable is None and not 0.5 * product < replaced < 2.0 * product:
            usable = len(recorder.lanczos)  # The replacement changed r.p: later coefficients are of another run.
        stalls = 0 if size < _SMALLER * best else stalls + 1
        best = min(best, size)
        if status is not None:
            return status
        if recorder.left > 0 and math.isfinite(size):
            if size > _GROWN * best:
                return SolveStatus.DIVERGED
            if is_trial and (size > _TRIAL_SLACK * target or _needed(task, first, size, left_before) > recorder.left):
                return SolveStatus.STAGNATED
        if stalls >= _STALLS:
            return SolveStatus.STAGNATED
    recorder.lanczos = recorder.lanczos[:usable]
    return SolveStatus.CONVERGED


def _needed(task: SolveTask, first: float, size: float, left_before: int) -> float:
    """Return how many more iterations reach the goal at the mean rate so far.

    The rate is that since the residual was ``first`` and ``left_before`` iterations were left.
    """
    decay = max(math.log(first / size), 1e-9)
    return (left_before - task.recorder.left) * math.log(size / max(task.goal, math.ulp(0.0))) / decay


def _until(
    task: SolveTask, iterations: CgIterations, target: float, product: float, most: int
) -> Solve[tuple[SolveStatus | None, float]]:
    """Iterate until the recurrence's residual is at most a target, or ``most`` iterations are done.

    Returns
    -------
    status : SolveStatus or None
        Why the recurrence cannot continue; None if it can.
    product : float
        The last r.p.
    """
    recorder, done, size = task.recorder, 0, math.inf
    count = iterations.together if iterations.stops_at_target else 1
    while done < most and recorder.left > 0:
        before = size
        steps = yield CgRun(iterations, min(count, most - done, recorder.left), target)
        for step in steps:
            status = _fault(step)
            if status is not None:
                return status, product
            recorder.lanczos.append((product, step.curvature))
            product = step.next_product
            size = math.sqrt(step.residual_square)
            recorder.add(size, iterations.bits, iterations.bytes_read)
            if step.next_product == 0.0 and size > target:
                return SolveStatus.BREAKDOWN, product
        done += len(steps)
        if size <= target:
            break
        if not iterations.stops_at_target:
            count = _wanted(before, size, count, target, iterations.together)
    return None, product


def _wanted(before: float, size: float, count: int, target: float, most: int) -> int:
    """Return how many iterations reach the target at the rate of the last ``count``, at least 1 and at most ``most``.

    It is ``most`` where the residual did not fall from ``before`` to ``size``, and never more than `_GROWTH` times
    ``count``, since the rate of few iterations says little about many.

    Examples
    --------
    >>> _wanted(math.inf, 1.0, 1, 0.1, 64), _wanted(1.0, 0.5, 8, 1e-6, 64), _wanted(1.0, 0.1, 8, 0.05, 64)
    (8, 64, 3)
    """
    most = min(most, _GROWTH * count)
    if not size < before < math.inf:
        return most
    return min(most, max(1, math.ceil(count * math.log(size / target) / math.log(before / size))))


def _fault(step: CgStep) -> SolveStatus | None:
    """Return why an iteration has no successor: a number that is not finite, or p.Ap not above 0; else None."""
    if not all(map(math.isfinite, step)):
        return SolveStatus.OVERFLOW
    if step.curvature < 0.0:
        return SolveStatus.INDEFINITE
    return SolveStatus.BREAKDOWN if step.curvature == 0.0 else None


class VectorIterations(CgIterations):
    """Iterations by separate operations of `LinearOperator`, for backends and formats without fused iterations.

    They read each vector more often than fused iterations do, and fetch three scalars in each iteration.
    """

    together = 1

    def __init__(self, task: SolveTask, x: Any) -> None:
        self._task, self._operator, self._x = task, task.stored, x
        self._r: Any = None
        self._p: Any = None
        self._curvature = 0.0
        self.product: float = 0.0
        self._set(task.formats[0])

    def _set(self, storage: VectorFormat | None) -> None:
        task = self._task
        self._storage = storage
        self._updates_in_place = bits_of(storage) >= 32  # With fewer, p is updated in float64 and rounded once.
        self._q = self._operator.empty((task.size,), "float64" if storage is None else "float32")
        self.bits = bits_of(storage)
        of_preconditioner = 0 if task.preconditioner is None else task.preconditioner.nbytes
        vectors = 6 * vector_bytes(storage, task.size) + (3 * (8 if storage is None else 4) + 8) * task.size
        self.bytes_read = self._operator.bytes_read(task.read) + vectors + of_preconditioner

    def store_in(self, storage: VectorFormat | None) -> None:
        """Convert p to another format now, and store r in it from the next replacement on."""
        if storage != self._storage:
            self._p = in_format(self._operator, self._operator.convert(self._p, None), storage)
            self._set(storage)

    def replace_residual(self) -> float:
        """Compute r = b - A x in float64 and store it; return its 2-norm, inf if the format cannot hold it.

        An existing direction p was made from the recurrence's residual and is kept. The first p is M r, M being the
        preconditioner.
        """
        r, size = self._task.residual(self._x)
        if math.isfinite(size) and size > 0.0:
            self._r = in_format(self._operator, r, self._storage)
            if self._p is None:
                z = self._operator.convert(self._preconditioned(r), None)
                try:
                    self._p = in_format(self._operator, z, self._storage)
                except InputError:  # A format without infinities refuses them.
                    return math.inf
            self.product = float(self._operator.dots([self._p], r).tolist()[0])
        return size

    def _preconditioned(self, r: Any) -> Any:
        preconditioner = self._task.preconditioner
        return r if preconditioner is None else preconditioner.apply(self._operator.convert(r, None))

    def run(self, count: int, target: float = 0.0) -> list[CgStep]:  # noqa: ARG002
        """Do ``count`` iterations one after the other; stop at one whose p.Ap is not above 0 or not finite."""
        found: list[CgStep] = []
        for _ in range(count):
            try:
                found.append(self._step())
            except InputError:  # A format without infinities refuses them.
                found.append(CgStep(math.inf, math.inf, math.inf))
            if not found[-1].curvature > 0.0 or not math.isfinite(sum(found[-1])):
                break
        return found

    def _step(self) -> CgStep:
        operator, p, q = self._operator, self._p, self._q
        operator.apply(p, q, read_matrix=self._task.read)
        curvature = self._curvature = float(operator.dots([p], q).tolist()[0])
        if not curvature > 0.0 or not math.isfinite(curvature):
            return CgStep(0.0, curvature, 0.0)
        alpha = self.product / curvature
        operator.combine([p], [alpha], self._x)
        size = operator.update_and_norm(self._r, -alpha, q)
        if math.isfinite(size):
            self._turn(self._r)
        return CgStep(size * size, curvature, self.product)

    def _turn(self, r: Any) -> None:
        """Make the next direction, p = M r + beta p with beta = -(M r).Ap / p.Ap, and the next r.p."""
        operator, z = self._operator, self._preconditioned(r)
        beta = -float(operator.dots([z], self._q).tolist()[0]) / self._curvature if self._curvature else 0.0
        if self._updates_in_place:
            operator.scale(self._p, beta)
            operator.combine([z], [1.0], self._p)
        else:
            turned = operator.convert(z, None)
            operator.combine([self._p], [beta], turned)
            self._p = in_format(operator, turned, self._storage)
        self.product = float(operator.dots([self._p], r).tolist()[0])
