"""The task that a method for linear systems is given, and its report: records of iterations and a status.

A method works on `LinearOperator` alone. It improves x in place until its own float64 residual is at most the goal, and
returns why it ended. `cpms.certify.linear_system`, which shares no code with the methods, certifies the answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from cpms.base.errors import InputError
from cpms.contracts.linear_operator import Epilogue, LinearOperator
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import DOUBLE_BITS, FP32
from cpms.sparse.matrix import Matrix

if TYPE_CHECKING:
    import scipy.sparse


class SolveStatus(Enum):
    """How the solve of a linear system ended; the value says what to do next.

    Examples
    --------
    >>> import cpms
    >>> cpms.solve([[4.0, -1.0], [-1.0, 4.0]], [3.0, 3.0]).status.name
    'CONVERGED'
    """

    CONVERGED = "converged: ||b - A x||, certified in twice the precision of float64, is at most tol ||b||"
    MAX_ITERATIONS = "not converged within max_iterations: raise it, raise tol, or give a preconditioner"
    STAGNATED = (
        "not converged: the residual stopped falling with all values in float64; raise tol, give a preconditioner or "
        "another method, or ask whether A is singular"
    )
    INDEFINITE = (
        "not converged: A, or the preconditioner, is not symmetric positive definite, as the method needs; use "
        "method='gmres'"
    )
    BREAKDOWN = "not converged: the method divides by zero here, as for singular A; use another method or another start"
    DIVERGED = "not converged: the residual grows, as A is not as the method needs; use method='gmres'"
    OVERFLOW = (
        "not converged: numbers grew beyond float64; scale rows or columns of A and b; of an eigenpair, divide all of "
        "A by a power of two, which divides the eigenvalue alone"
    )
    UNVERIFIED = (
        "not converged: the method's float64 residual is below tol, but the certified one with its rounding error is "
        "not; raise tol, scale rows or columns of A, or store A in more bits; a method of yours may use task.exact"
    )


WIDENS = (SolveStatus.STAGNATED, SolveStatus.INDEFINITE, SolveStatus.BREAKDOWN, SolveStatus.DIVERGED,
          SolveStatus.OVERFLOW)  # fmt: skip
"""Statuses that rounding may cause, after which a method continues in more bits."""


class LinearStep(NamedTuple):
    """One iteration of a linear solve, in `cpms.Solution.history`.

    Parameters
    ----------
    iteration : int
        From 1 on.
    residual : float
        ||b - A x||_2 over ||b||_2, as the method computes it.
    bits : int
        Bits of a value of the vectors.
    bytes_read : int
        Bytes of matrix and vectors that the iteration reads. Conjugate gradients that run several iterations in one
        call count those that it writes, too. A read of the matrix for several right-hand sides counts in equal parts.
    seconds : float
        Time since the start of the solve.
    exact : bool
        True if the residual is b - A x in float64, False if it is that of a recurrence.
    column : int
        The right-hand side, from 0 on.

    Examples
    --------
    >>> import cpms
    >>> last = cpms.solve([[4.0, -1.0], [-1.0, 4.0]], [3.0, 3.0]).history[-1]
    >>> last.residual <= 1e-10
    True
    """

    iteration: int
    residual: float
    bits: int
    bytes_read: int
    seconds: float
    exact: bool
    column: int = 0


class Recorder:
    """The history of a solve: residuals, bits and bytes of each iteration, and how many iterations are left.

    Parameters
    ----------
    most : int
        Most iterations of the solve.
    scale : float
        ||b||_2, by which residuals are divided.
    on_step : callable, optional
        Called with each `LinearStep`.
    now : callable
        Returns the time in seconds.
    column : int
        The right-hand side of the solve.

    Attributes
    ----------
    steps : list of LinearStep
    notes : list of str
        Sentences about changes during the solve, such as to wider vectors.
    other_bytes : int
        Bytes read by products that belong to no iteration, such as those of residuals.
    lanczos : list of (float, float)
        r.p before each iteration of conjugate gradients, and its p.Ap.
    continued_by : str
        Name of the method that continued the solve after another one; empty if none did.
    """

    def __init__(
        self,
        most: int,
        scale: float,
        on_step: Callable[[LinearStep], None] | None,
        now: Callable[[], float],
        column: int = 0,
    ) -> None:
        self.steps: list[LinearStep] = []
        self.notes: list[str] = []
        self.other_bytes = 0
        self.lanczos: list[tuple[float, float]] = []
        self.continued_by = ""
        self._most, self._scale, self._on_step, self._now, self._began = most, scale, on_step, now, now()
        self._column = column

    @property
    def left(self) -> int:
        """Iterations that may follow."""
        return self._most - len(self.steps)

    def add(self, residual: float, bits: int, bytes_read: int, *, exact: bool = False) -> None:
        """Append an iteration: the residual's 2-norm, bits of a value of the vectors, and bytes of matrix and vectors.

        With ``exact``, the residual is b - A x in float64; without, it is that of a recurrence.
        """
        count, seconds = len(self.steps) + 1, self._now() - self._began
        step = LinearStep(count, residual / self._scale, bits, int(bytes_read), seconds, exact, self._column)
        self.steps.append(step)
        if self._on_step is not None:
            self._on_step(step)

    def correct(self, residual: float) -> None:
        """Replace the 2-norm of the last iteration's residual by that of b - A x in float64."""
        if self.steps:
            self.steps[-1] = self.steps[-1]._replace(residual=residual / self._scale, exact=True)


class Preconditioner(ABC):
    """An approximation of A's inverse, prepared for one matrix on one backend."""

    name: str = "own"
    storage: str = "fp64"
    """Format of its values, or several with commas between them."""
    note: str = ""
    """Why it is not stored in the format that was asked for; empty if it is."""
    nbytes: int = 0
    """Bytes that an application reads besides its vectors."""
    least: float | None = None
    """An estimate, from below, of the smallest eigenvalue of its inverse; None if there is none."""
    weights: Any | None = None
    """The diagonal of a diagonal preconditioner in float64; None for others, and for a diagonal in another format."""

    @abstractmethod
    def apply(self, r: Any) -> Any:
        """Return M r as a new vector of float64 in the memory of r; M is the same in every call."""


@dataclass(frozen=True, eq=False)
class SolveTask:
    """A linear system on a backend, the accuracy to reach, and the formats to use.

    Parameters
    ----------
    exact : LinearOperator
        The matrix with its values as they were given.
    stored : LinearOperator
        The matrix in fewer bits, or the same object.
    b : vector of float64
        The right-hand side, in the operators' memory.
    goal : float
        The 2-norm of the residual to reach.
    recorder : Recorder
    formats : tuple of format or None
        Formats of vectors, from the fewest bits to the most; None is float64.
    read : int or None
        Segments of the stored values that products read; None for all.
    preconditioner : Preconditioner or None
    matrix : Matrix or None
        The matrix as it was given, in compressed rows in main memory.
    """

    exact: LinearOperator
    stored: LinearOperator
    b: Any
    goal: float
    recorder: Recorder
    formats: tuple[VectorFormat | None, ...] = (None,)
    read: int | None = None
    preconditioner: Preconditioner | None = None
    matrix: Matrix | None = None

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.exact.shape[0]

    @property
    def widest(self) -> SolveTask:
        """The same task with all values in float64."""
        return replace(self, stored=self.exact, formats=(None,), read=None)

    def residual(self, x: Any) -> tuple[Any, float]:
        """Return b - A x in float64, of the matrix as it was given, and its 2-norm."""
        r = self.exact.empty((self.size,), "float64")
        self.exact.apply(x, r, alpha=-1.0, epilogue=Epilogue(add=self.b))
        self.recorder.other_bytes += self.exact.bytes_read()
        return r, norm(self.exact, r)

    def bytes_read(self, vectors: int, bits: int = DOUBLE_BITS) -> int:
        """Return the bytes of a product with the stored matrix and of ``vectors`` vectors with values of ``bits``.

        A method counts a vector once for each operation that reads it, and does not count writes.
        """
        return self.stored.bytes_read(self.read) + vectors * bits * self.size // 8

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return a copy of the matrix as it was given, in main memory, such as for a factorisation.

        Raises
        ------
        InputError
            If the task was made without a matrix.

        Examples
        --------
        >>> import cpms
        >>> from scipy.sparse.linalg import splu
        >>> def direct(task, x):
        ...     x += splu(task.to_scipy().tocsc()).solve(task.residual(x)[0])
        ...     task.recorder.add(task.residual(x)[1], 64, 0, exact=True)
        ...     return cpms.SolveStatus.CONVERGED
        >>> cpms.solve([[4.0, -1.0], [-1.0, 4.0]], [3.0, 3.0], method=direct, engine="cpu").converged
        True
        """
        if self.matrix is None:
            raise InputError("this task has no matrix; a task of cpms.solve has one")
        return self.matrix.to_scipy().copy()

    def zeros(self) -> Any:
        """Return a vector of zeros."""
        found = self.exact.empty((self.size,), "float64")
        found[...] = 0.0
        return found


def norm(operator: LinearOperator, v: Any) -> float:
    """Return the 2-norm of a vector; inf where its square overflows."""
    square = float(operator.dots([v], v).tolist()[0])
    return square**0.5 if square >= 0.0 else float("inf")


def in_format(operator: LinearOperator, v: Any, storage: VectorFormat | None, write: int | None = None) -> Any:
    """Return a copy of a vector in a format; for float64 and float32 a plain array, whose operations are faster."""
    if storage is None:
        return operator.convert(v, None)
    if storage == FP32:
        found = operator.empty((len(v),), "float32")
        found[...] = v
        return found
    return operator.convert(v, storage, write=write)


def bits_of(storage: VectorFormat | None, read: int | None = None) -> int:
    """Return the bits of a value in a format, of its first ``read`` segments if given; None is float64.

    Examples
    --------
    >>> bits_of(None)
    64
    """
    return DOUBLE_BITS if storage is None else storage.bits(read)


def vector_bytes(storage: VectorFormat | None, length: int) -> int:
    """Return the bytes of a vector of ``length`` values in a format; None is float64.

    Examples
    --------
    >>> from cpms.formats.formats import format_named
    >>> vector_bytes(None, 64), vector_bytes(format_named("mxfp4"), 64)
    (512, 34)
    """
    return 8 * length if storage is None else storage.traffic(length)
