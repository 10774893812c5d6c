"""The report of a solve: its status, and one record an iteration."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cpms.precision.controllers import Level


class Status(Enum):
    """How a solve ended; the value says what to do next."""

    CONVERGED = "converged: the residual, recomputed in float64 from the answer, is below tol"
    FIXED = "ran the number of iterations asked for; look at the residual"
    MAX_ITERATIONS = "not converged within max_iterations: raise it, or raise tol"
    STAGNATED = "not converged: the residual stopped falling; read more bits if not all are, or raise tol"
    UNVERIFIED = "not converged: stored values stopped changing above tol; read more bits if not all are, or raise tol"
    NON_FINITE = "failed: the storage format overflowed or lost every value; use one with more exponent bits"


class Step(NamedTuple):
    """One iteration: norm of the change, segments and bits read and written, mass, seconds since the start."""

    iteration: int
    residual: float
    level: Level
    bits: int
    bits_written: int
    mass: float
    seconds: float
