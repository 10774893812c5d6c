"""The contract of conjugate gradient iterations: what a backend may fuse, between two residuals found in float64.

The recurrences are those of flexible conjugate gradients: alpha = r.p / p.Ap and beta = -z.Ap / p.Ap, which keep p
conjugate to its predecessor whatever rounding does to r (Notay, "Flexible conjugate gradients", SIAM J. Sci. Comput.
22, 2000). They need the same passes over vectors as the usual ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class CgStep(NamedTuple):
    """Results of an iteration: the square of the recurrence's residual, p.Ap, and the next r.p."""

    residual_square: float
    curvature: float
    next_product: float


class CgIterations(ABC):
    """The vectors of a solve, r and p in few bits and x in float64, and the operations on them."""

    bits: int
    """Bits of a value of p, which products read."""
    bytes_read: int
    """Bytes of matrix and vectors that an iteration reads."""
    together: int
    """Iterations that are best run at once: their numbers reach main memory in one transfer."""
    product: float | None = None
    """The product r.p of the iteration that follows; None where a device holds it, which is ||r||^2 at first."""

    @abstractmethod
    def replace_residual(self) -> float:
        """Bring x up to date, find r = b - A x in float64, and p conjugate to its predecessor; return ||r||."""

    @abstractmethod
    def run(self, count: int, target: float = 0.0) -> list[CgStep]:
        """Do so many iterations; fewer if one of them has no direction to go.

        They may end with the first whose residual is at most ``target``.
        """
