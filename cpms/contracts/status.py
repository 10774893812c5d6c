"""The report of a solve: its status, and one record an iteration."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cpms.precision.controllers import Level


class Status(Enum):
    """How a solve ended; the value says what to do next.

    Examples
    --------
    >>> import cpms
    >>> cpms.Status.MAX_ITERATIONS.value
    'not converged within max_iterations: raise it, or raise tol'
    """

    CONVERGED = "converged: the residual, recomputed in float64 from the answer, is below tol"
    FIXED = "ran the number of iterations asked for; look at the residual"
    MAX_ITERATIONS = "not converged within max_iterations: raise it, or raise tol"
    STAGNATED = "not converged: the residual stopped falling; read more bits, unless all are read, or raise tol"
    UNVERIFIED = (
        "not converged: stored values stopped changing while the residual is above tol; read more bits, unless all are "
        "read, or raise tol"
    )
    NON_FINITE = "failed: the storage format overflowed or lost every value; use one with more exponent bits"


class Step(NamedTuple):
    """One iteration of a solve of PageRank, in `cpms.Result.history`.

    Parameters
    ----------
    iteration : int
        From 1 on.
    residual : float
        Norm of the change, in the norm of the stopping criterion.
    level : Level
        Segments that the sweep read and wrote.
    bits, bits_written : int
        Bits of a value that these are.
    mass : float
        Sum of the entries of the new vector.
    seconds : float
        Time since the start of the solve.

    Examples
    --------
    >>> import cpms
    >>> first = cpms.pagerank(cpms.Graph.from_edges([0, 1, 2], [1, 2, 0])).history[0]
    >>> first.iteration, first.bits
    (1, 64)
    """

    iteration: int
    residual: float
    level: Level
    bits: int
    bits_written: int
    mass: float
    seconds: float
