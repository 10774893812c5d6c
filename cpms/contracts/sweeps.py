"""The contract of sweeps in residual form: iterations without inner products, of which a backend may fuse many.

A stationary or semi-iterative method that is preconditioned by the diagonal D of A solves A c = b by the iteration
(Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, sections 4.1 and 12.3)

    s = keep s + turn D^-1 r,   c += s,   r -= A s

from c = 0, s = 0 and r = b. The method knows the coefficients ``keep`` and ``turn`` of each iteration beforehand. In
Jacobi's method they are 0 and 1 throughout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

Coefficients = tuple[float, float]
"""``keep`` and ``turn`` of an iteration."""


class Sweeps(ABC):
    """The vectors of a correction: the step s in few bits, 0 at first, c and the residual r in float64.

    A caller may set c and r anew for another correction. Its first ``keep`` is 0, so that the last step has no effect.
    """

    bytes_read: int
    """Bytes of matrix and vectors that an iteration reads."""
    together: int
    """Iterations that are best requested at once."""

    @abstractmethod
    def run(self, coefficients: Sequence[Coefficients], target: float, limit: float) -> list[float]:
        """Do one iteration for each pair of coefficients, and return the 2-norm of r after each.

        Iterations may end with the first after which this norm is at most ``target``, or not below ``limit``.
        """
