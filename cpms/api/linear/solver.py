"""`cpms.Solver`: linear systems in few bits, with a certified answer.

This module checks arguments, brings vectors into the memory of the engine and scales them, runs a method of
`cpms.solvers.linear`, and asks `cpms.certify.linear_system` for a certificate of its answer. A method that ends above
the certified tolerance is run again from where it ended, with a smaller goal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cpms.api import product_engines
from cpms.api.given_matrix import given_matrix
from cpms.api.linear.advice import findings
from cpms.api.linear.arguments import most_iterations, positive, right_hand_sides, step_function, vector
from cpms.api.linear.choice import (
    DIAGONAL,
    Choice,
    OwnMethod,
    checked_method,
    chosen,
    is_on_trial,
    own_method,
    own_name,
    preconditioner_format,
    require_inner,
    spectrum_of,
    with_preconditioner,
)
from cpms.api.linear.prepared_system import PreparedSystem, widened, without_division
from cpms.api.linear.solution import Answer, Solution, certified_status
from cpms.api.linear.vectors import are_equal, scaled
from cpms.api.matrix import StoredMatrix
from cpms.base import threads, work_clock
from cpms.base.errors import InputError
from cpms.base.text.keywords import checked_keywords
from cpms.base.types import Floats
from cpms.base.validation import at_least
from cpms.certify import linear_system as certify
from cpms.certify.linear_system import Certificate
from cpms.contracts.linear_solve import LinearStep, Recorder, SolveStatus, SolveTask
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.cg import cg, cg_in_runs, cg_on_trial_in_runs
from cpms.solvers.linear.chebyshev import chebyshev
from cpms.solvers.linear.gmres import RESTART, gmres
from cpms.solvers.linear.jacobi import inverse_diagonal, jacobi
from cpms.solvers.linear.lanczos import smallest_eigenvalue
from cpms.solvers.linear.preconditioners import Noted
from cpms.solvers.linear.refine import refine
from cpms.solvers.linear.shared_reads import Solve, together
from cpms.solvers.linear.widening import Method

_BELOW = 0.9
"""The goal of a method's own residual, over the certified tolerance."""
_FAR = 2.0**500
"""Largest ||A|| ||x0|| over ||b|| of a start: beyond it, squares of the residual might overflow."""
_SQUARE_ROOT = 2.0**511
"""Norm of a matrix beyond which the squares of its products overflow, and methods stagnate."""
_GOALS = 3
"""Goals that are tried, each a tenth of the one before, until the certificate agrees."""
_FALL_BACK = (SolveStatus.INDEFINITE, SolveStatus.BREAKDOWN, SolveStatus.DIVERGED)
"""Statuses after which GMRES continues the solve of a method that ``auto`` chose."""

OnStep = Callable[[LinearStep], None]


class Solver:
    """A matrix that is prepared once and solved with often.

    Parameters
    ----------
    A : matrix
        What `cpms.matrix` takes; square. Of a `cpms.StoredMatrix`, the matrix as it was given.
    method : {"auto", "cg", "gmres", "jacobi", "chebyshev", "refine"}, callable, or the name of a plug-in
        A callable gets a `cpms.contracts.linear_solve.SolveTask` and x, which it improves in place, and returns a
        `cpms.SolveStatus`; its answer is certified as any other. ``auto`` takes cg for a symmetric matrix with a
        positive diagonal, and Jacobi's preconditioner where diagonal entries differ fivefold; chebyshev where a
        diagonal similarity makes A symmetric; jacobi where the diagonal dominates rows twofold or its rate is estimated
        to be fast; cg on trial where A is nearly symmetric; else gmres. If A turns out not to be as the chosen method
        needs, gmres continues the solve.
    storage : format or str
        Of the matrix's values: ``auto`` is the fewest bits in which all of them are exact. Where these are more than 32
        and vectors have no more, iterations of ``cg``, ``jacobi`` and ``chebyshev`` read fp32, and residuals all bits.
    vectors : format, str or tuple
        Of the vectors that products and updates read, or several, from the fewest bits on: each is tried when the one
        before fails; float64 is the last. ``bytes`` and ``blocks`` let GMRES choose the bits of each basis vector.
        ``auto`` is the fastest: fp32, and ``blocks`` for GMRES on a GPU.
    engine, layout : str
        As in `cpms.matrix`; layout ``auto`` is sell on ``cuda``, but csr where the longest row has more than 32 times
        the mean's entries, and csr elsewhere.
    read : int, optional
        Segments of the matrix's values that iterations read.
    preconditioner : {"jacobi", "block_jacobi", "chebyshev"}, callable or None
        Of ``cg`` and ``gmres``, one of which ``auto`` then takes, also inside ``refine``. A callable gets a residual in
        the engine's memory and returns an array of the same shape.
    preconditioner_storage : format or str
        Format of what the preconditioner reads: the inverse diagonal of ``jacobi``, the inverses of ``block_jacobi``,
        or A in ``chebyshev``. With ``auto``, ``jacobi`` reads fp64, ``block_jacobi`` takes as few bits as a block's
        condition number allows, and ``chebyshev`` reads A as iterations do. A callable stores its values itself.
    block : int
        Rows of a block of block Jacobi.
    inner : {"auto", "cg", "gmres", "jacobi", "chebyshev"}, callable, or the name of a plug-in
        The method inside ``refine``, which other methods ignore; ``auto`` chooses as ``method`` does, but never cg on
        trial.
    restart : int
        Basis vectors of a cycle of GMRES.
    smallest_eigenvalue : float, optional
        A positive lower bound of the eigenvalues of a symmetric A, for error bounds; of (A + A^T) / 2 if A is symmetric
        up to rounding alone. A value above a diagonal entry, or above the Rayleigh quotient of an answer, is refused.

    Raises
    ------
    InputError
        If an argument is out of range, or A is not square.
    UnavailableError, UnsupportedError
        If the engine cannot run here, or has no such method, format or layout.

    Notes
    -----
    ``cg`` is by Hestenes and Stiefel (1952), ``gmres`` by Saad and Schultz (1986), its stored basis by Aliaga et al.
    (2022). ``chebyshev`` is algorithm 12.1 of Saad, Iterative Methods for Sparse Linear Systems (2003), and ``refine``
    iterative refinement in several precisions (Carson and Higham, 2018).

    Examples
    --------
    >>> import cpms
    >>> solver = cpms.Solver([[4.0, -1.0], [-1.0, 4.0]], method="cg")
    >>> [solver.solve(b).x.round(9).tolist() for b in ([3.0, 3.0], [7.0, 2.0])]
    [[1.0, 1.0], [2.0, 1.0]]
    """

    @checked_keywords
    def __init__(
        self,
        A: Any,
        *,
        method: str | OwnMethod = "auto",
        storage: Any = "auto",
        vectors: Any = "auto",
        engine: str = "auto",
        layout: str = "auto",
        read: int | None = None,
        preconditioner: str | Callable[[Any], Any] | None = None,
        preconditioner_storage: Any = "auto",
        block: int = 8,
        inner: str | OwnMethod = "auto",
        restart: int = RESTART,
        smallest_eigenvalue: float | None = None,
    ) -> None:
        began = work_clock.now()
        self.system = LinearSystem(A.source if isinstance(A, StoredMatrix) else given_matrix(A, None))
        self.engine = product_engines.chosen(engine)
        choice = chosen(self.system, method, storage, vectors, self.engine, layout, preconditioner is not None)
        self.choice: Choice = widened(self.system, choice)
        self._chosen_by_auto, self._vectors = isinstance(method, str) and method == "auto", vectors
        divides = self._chosen_by_auto and self.system.has_inverse_diagonal
        if self._chosen_by_auto and self.choice.method in DIAGONAL and not divides:
            self.choice = without_division(self.system, storage, vectors, self.engine, layout)
        self._own = {} if self.choice.own is None else {self.choice.method: self.choice.own}
        self._smallest = None if smallest_eigenvalue is None else positive("smallest_eigenvalue", smallest_eigenvalue)
        if self._smallest is not None:
            certify.require_lower_bound(self._smallest, self.system)
        self._restart = at_least(1, "restart", restart)
        self._inner = self._inner_of(inner, preconditioner is not None)
        segments = None if read is None else at_least(1, "read", read)
        self._prepared = PreparedSystem.of(self.system, self.choice, self.engine, segments)
        held_in = preconditioner_format(preconditioner_storage)
        if preconditioner is None and divides:
            preconditioner, self.choice = with_preconditioner(self.system, self.choice)
        self._preconditioner = self._prepared.preconditioner(preconditioner, held_in, at_least(1, "block", block))
        if self._preconditioner is not None and self._preconditioner.note:
            self.choice = replace(self.choice, reason=f"{self.choice.reason}; {self._preconditioner.note}")
        has_inverse = {self.choice.method, self._inner} & set(DIAGONAL)
        self._inverse: Any = self._prepared.exact.upload(inverse_diagonal(self.system)) if has_inverse else None
        self.prepare_s = work_clock.now() - began

    @checked_keywords
    def solve(
        self,
        b: Any,
        *,
        tol: float = 1e-10,
        x0: Any | None = None,
        max_iterations: int | None = None,
        on_step: OnStep | None = None,
    ) -> Any:
        """Return a certified solution of A x = b, or a list of k of them where b has two dimensions.

        Iterations of ``cg`` on engine ``cpu`` read A once for up to four right-hand sides, to the same bits as for one.

        Parameters
        ----------
        b : array_like, shape (n,) or (n, k)
            In main or device memory.
        tol : float
            The certified ||b - A x||_2 + its rounding error are to be at most ``tol`` ||b||_2.
        x0 : array_like, in the shape of b, optional
            The start; 0 by default, and where the start is so large that its residual might overflow.
        max_iterations : int, optional
            10 n by default, from 1,000 to 100,000.
        on_step : callable, optional
            Called with a `cpms.LinearStep` after each iteration, whose ``column`` is that of b.

        Raises
        ------
        InputError
            If ``b`` or ``x0`` has another length or numbers that are not finite, or an argument is out of range.

        Examples
        --------
        >>> import cpms
        >>> solver = cpms.Solver([[4.0, -1.0], [-1.0, 4.0]])
        >>> [found.x.round(9).tolist() for found in solver.solve([[3.0, 7.0], [3.0, 2.0]])]
        [[1.0, 1.0], [2.0, 1.0]]
        """
        asked, on_step, size = positive("tol", tol), step_function(on_step), self.system.size
        most, given = most_iterations(max_iterations, size), right_hand_sides(b, x0, size)
        solves = (
            self._solve(*each, asked, partial(Recorder, most, on_step=on_step, now=work_clock.now, column=column))
            for column, each in enumerate([(b, x0)] if given is None else given)
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = together(solves)
        return found[0] if given is None else found

    def _solve(self, b: Any, x0: Any, asked: float, recorder_of: Callable[[float], Recorder]) -> Solve[Solution]:
        """Solve for one right-hand side; ``recorder_of`` returns a recorder of residuals over a norm of b."""
        compiled, size = work_clock.compiled_s(), self.system.size
        right, start = vector("b", b, size), None if x0 is None else vector("x0", x0, size)
        b_norm = certify.norm(right)
        if math.isinf(b_norm):
            raise InputError("the norm of b is beyond float64; divide b by a power of two, and multiply x by it")
        if b_norm == 0.0:
            answer = Answer(np.zeros(size), SolveStatus.CONVERGED, self._certificate(right, np.zeros(size)))
            return self._solution(answer, asked, recorder_of(1.0), compiled)
        # Scaled by a power of two, so that norms neither overflow nor vanish; nothing is rounded.
        exponent = math.frexp(threads.largest_size(right))[1]
        unit = scaled(right, -exponent)
        scaled_norm = certify.norm(unit)
        moment, exact = work_clock.now(), self._prepared.exact
        first = np.zeros(size) if start is None else scaled(start, -exponent)
        is_far = start is not None and certify.norm(first) * self.system.matrix.frobenius_norm > _FAR * scaled_norm
        x = self._moved(np.zeros(size) if is_far else first)
        held = self._moved(unit)
        began, recorder = work_clock.now(), recorder_of(scaled_norm)
        if is_far:
            recorder.notes.append("x0 left out: ||A|| ||x0|| is more than 2**500 ||b||")
        given = self._preconditioner
        noted = Noted(given) if self._own and given is not None else None
        task = SolveTask(
            exact,
            self._prepared.stored,
            held,
            _BELOW * asked * scaled_norm,
            recorder,
            self.choice.vectors,
            self._prepared.read,
            noted or given,
            self.system.matrix,
        )
        answer = yield from self._run(task, x, right, asked, exponent, began)
        recorder.notes += findings(self.system, right, answer, recorder.steps)
        found = replace(self._solution(answer, asked, recorder, compiled), transfer_s=began - moment)
        if noted is None or noted.was_used:
            return found
        reason = f"{found.reason}; the method did not apply preconditioner {noted.name}"
        certificate = replace(found.certificate, estimated_eigenvalue=None)  # It was found as if M had been applied.
        return replace(found, certificate=certificate, preconditioner=None, preconditioner_storage=None, reason=reason)

    def _run(self, task: SolveTask, x: Any, right: Floats, tol: float, exponent: int, began: float) -> Solve[Answer]:
        """Run the method with smaller goals until the certificate agrees; x is of the scaled system."""
        certify_s, last = 0.0, None
        for attempt in range(_GOALS):
            status = yield from self._status(replace(task, goal=task.goal * 0.1**attempt), x)
            moment = work_clock.now()
            found, certificate = last = self._certified(x, right, exponent, last)
            certify_s += work_clock.now() - moment
            is_last = status is not SolveStatus.CONVERGED or certificate.roundoff > certificate.residual
            if is_last or certificate.meets(tol):
                break
        if status is SolveStatus.STAGNATED and self.system.matrix.frobenius_norm > _SQUARE_ROOT:
            status = SolveStatus.OVERFLOW
        status = certified_status(status, certificate, tol)
        if status is SolveStatus.CONVERGED:
            certificate = replace(certificate, estimated_eigenvalue=self._estimated(task.recorder))
        device_x = x if self._prepared.exact.memory == "device" and exponent == 0 else None
        return Answer(found, status, certificate, work_clock.now() - began - certify_s, certify_s, device_x)

    def _status(self, task: SolveTask, x: Any) -> Solve[SolveStatus]:
        """Run the method, and GMRES from there where a method that ``auto`` chose has failed."""
        method = self.choice.method
        if method == "cg" and not self._own:
            status = yield from (cg_on_trial_in_runs if self._on_trial else cg_in_runs)(task, x)
        else:
            status = self._method(method)(task, x)
        if not self._chosen_by_auto or method == "gmres" or not self._has_failed(status):
            return status
        task.recorder.notes.append(f"{method} ended {status.name.lower()}: gmres continued")
        task.recorder.lanczos, task.recorder.continued_by = [], "gmres"
        wide = task.widest
        if self._on_trial:
            wide = replace(wide, formats=chosen(self.system, "gmres", "fp64", self._vectors, self.engine).vectors)
        return self._method("gmres")(wide, x)

    def _has_failed(self, status: SolveStatus) -> bool:
        if status is SolveStatus.STAGNATED:
            return self._on_trial or self.choice.method in DIAGONAL
        return status in _FALL_BACK or (status is SolveStatus.OVERFLOW and self._on_trial)

    def _moved(self, values: Floats) -> Any:
        """Return values in the engine's memory; there is no copy where that is main memory."""
        exact = self._prepared.exact
        return values if exact.memory == "main" else exact.upload(values)

    def _certified(
        self, x: Any, right: Floats, exponent: int, last: tuple[Floats, Certificate] | None
    ) -> tuple[Floats, Certificate]:
        """Return x in main memory with its certificate, which is the last one where x is as it was then."""
        exact = self._prepared.exact
        host = exact.to_host(x)
        found = scaled(host, exponent, None if exact.memory == "main" else host)
        if last is not None and are_equal(found, last[0]):
            return last
        return found, self._certificate(right, found)

    def _certificate(self, right: Floats, x: Floats) -> Certificate:
        return certify.certificate(self.system, right, x, smallest_eigenvalue=self._smallest)

    def _estimated(self, recorder: Recorder) -> float | None:
        """Return an estimate of the smallest eigenvalue of A, or of a number below it."""
        least = 1.0 if self._preconditioner is None else self._preconditioner.least
        of_preconditioned = smallest_eigenvalue(recorder.lanczos)
        if of_preconditioned is None or least is None or not self.system.is_symmetric:
            return None
        found = of_preconditioned * least
        return found if 0.0 < found < math.inf else None

    def _solution(self, answer: Answer, tol: float, recorder: Recorder, compiled: float) -> Solution:
        """Return the report of an answer; ``compiled`` are the seconds of compilation before the solve."""
        choice, preconditioner, device_x = self.choice, self._preconditioner, answer.device_x
        if self._prepared.exact.memory == "device" and device_x is None:
            device_x = self._prepared.exact.upload(answer.x)
        return Solution(
            x=answer.x,
            status=answer.status,
            certificate=answer.certificate,
            tol=tol,
            history=tuple(recorder.steps),
            method=recorder.continued_by or (choice.method if not self._inner else f"refine with {self._inner}"),
            storage="pattern" if choice.storage is None else choice.storage.name,
            vectors=tuple("fp64" if each is None else each.name for each in choice.vectors),
            engine=self.engine,
            reason="; ".join([choice.reason, *recorder.notes]),
            bytes_read=sum(step.bytes_read for step in recorder.steps) + recorder.other_bytes,
            prepare_s=self.prepare_s,
            solve_s=max(answer.solve_s, 0.0),
            certify_s=answer.certify_s,
            compile_s=work_clock.compiled_s() - compiled,
            device_x=device_x,
            preconditioner=None if preconditioner is None else preconditioner.name,
            preconditioner_storage=None if preconditioner is None else preconditioner.storage,
        )

    def _method(self, name: str) -> Method:
        if name in self._own:
            return checked_method(self._own[name])
        if name == "cg":
            return cg
        if name == "gmres":
            return partial(gmres, restart=self._restart)
        if name == "jacobi":
            return partial(jacobi, inverse_diagonal=self._inverse)
        if name == "chebyshev":
            return partial(chebyshev, inverse_diagonal=self._inverse, interval=spectrum_of(self.system))
        return partial(refine, inner=self._method(self._inner))

    @property
    def _on_trial(self) -> bool:
        """Whether ``auto`` chose conjugate gradients for a matrix that is not symmetric."""
        return self._chosen_by_auto and is_on_trial(self.system, self.choice.method)

    def _inner_of(self, inner: str | OwnMethod, is_preconditioned: bool) -> str:
        if self.choice.method != "refine":
            return ""
        if inner == "auto":
            found = chosen(self.system, "auto", "fp64", "fp64", self.engine, "auto", is_preconditioned).method
            # Nothing in refine would go on where a trial fails.
            return "gmres" if is_on_trial(self.system, found) else found
        if (own := own_method(inner)) is not None:
            self._own[own_name(inner)] = own
            return own_name(inner)
        require_inner(inner, is_preconditioned)
        return str(inner)
