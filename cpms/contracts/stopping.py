"""Stopping criteria of a solve: tolerance and norm, or a number of iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from cpms.base.errors import InputError
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Norm
from cpms.base.validation import at_least, real

STALLED_ITERATIONS = 50
"""Iterations without a new smallest residual after which a solve at a fixed level ends as stagnated."""


@dataclass(frozen=True)
class Stopping:
    """When to stop: ``norm`` of the change is below ``tol``, or a number of iterations is done.

    Parameters
    ----------
    tol : float
    norm : {"l1", "l2", "linf"}
    max_iterations : int
        Most iterations of a solve that stops by ``tol``.
    iterations : int, optional
        Exactly so many iterations, whatever the residual.

    Examples
    --------
    >>> Stopping(1e-6).max_iterations
    1000
    """

    tol: float = 1e-10
    norm: Norm = "l1"
    max_iterations: int = 1000
    iterations: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", real("tol", self.tol))
        object.__setattr__(self, "max_iterations", at_least(1, "max_iterations", self.max_iterations))
        if self.iterations is not None:
            object.__setattr__(self, "iterations", at_least(1, "iterations", self.iterations))
        if not (math.isfinite(self.tol) and self.tol > 0):
            raise InputError(f"tol is {self.tol}; it must be a positive number")
        require_one_of("norm", self.norm, get_args(Norm))
