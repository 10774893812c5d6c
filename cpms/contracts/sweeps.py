"""The contract of sweeps in residual form: iterations without inner products, of which a backend may fuse many.

A stationary or semi-iterative method with the diagonal D corrects c for A c = b by steps (Saad, Iterative Methods for
Sparse Linear Systems, 2nd edition, sections 4.1 and 12.3)

    s = keep s + turn D^-1 r,   c += s,   r -= A s

with two numbers an iteration that the method knows beforehand. Jacobi's has (0, 1) in all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

Coefficients = tuple[float, float]
"""``keep`` and ``turn`` of an iteration."""


class Sweeps(ABC):
    """The vectors of a correction: the step s in few bits, 0 at first, c and the residual r in float64."""

    bytes_read: int
    """Bytes of matrix and vectors that an iteration reads."""
    together: int
    """Iterations that are best run at once."""

    @abstractmethod
    def run(self, coefficients: Sequence[Coefficients], target: float, limit: float) -> list[float]:
        """Iterate with each pair of coefficients, and return the norm of r after each iteration.

        The last iteration may be the first whose residual is at most ``target``, or not below ``limit``.
        """
