"""Stopping criteria of a solve: tolerance and norm, or a number of iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cpms.base.errors import InputError
from cpms.base.types import Norm
from cpms.base.validation import described, real, whole

STALLED_ITERATIONS = 50
"""Iterations without a new smallest residual after which a solve at a fixed level is given up."""


@dataclass(frozen=True)
class Stopping:
    """When to stop: ``norm`` of the change below ``tol``, or after so many iterations.

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
        object.__setattr__(self, "max_iterations", whole("max_iterations", self.max_iterations))
        if self.iterations is not None:
            object.__setattr__(self, "iterations", whole("iterations", self.iterations))
        if not (math.isfinite(self.tol) and self.tol > 0):
            raise InputError(f"tol is {self.tol}; it must be a positive number")
        if not isinstance(self.norm, str) or self.norm not in ("l1", "l2", "linf"):
            raise InputError(f"norm is {described(self.norm)}; it can be l1, l2 or linf")
        if self.max_iterations < 1 or (self.iterations is not None and self.iterations < 1):
            raise InputError("max_iterations and iterations must be 1 or more")
