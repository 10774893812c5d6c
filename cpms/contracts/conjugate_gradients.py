"""The contract of conjugate gradient iterations: the part of a solve that a backend may fuse.

It lies between two residuals in float64. The recurrences are those of flexible conjugate gradients (Notay, "Flexible
conjugate gradients", SIAM J. Sci. Comput. 22, 2000), with the preconditioned residual z = M r:

    alpha = r.p / p.Ap,   x += alpha p,   r -= alpha A p,   beta = -z.Ap / p.Ap,   p = z + beta p

They keep p conjugate to its predecessor however r is rounded, and need the same passes over vectors as the usual ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

SHARED = 4
"""Most right-hand sides that share a read of the matrix."""


class CgStep(NamedTuple):
    """Results of an iteration.

    ``residual_square`` is the squared 2-norm of the recurrence's residual after the iteration, ``curvature`` p.Ap, and
    ``next_product`` the r.p of the iteration that follows.
    """

    residual_square: float
    curvature: float
    next_product: float


class CgIterations(ABC):
    """The vectors of a solve, r and p in few bits and x in float64, and the operations on them."""

    bits: int
    """Bits of a value of p, which products read."""
    bytes_read: int
    """Bytes of matrix and vectors that an iteration reads; fused iterations count those that they write, too."""
    together: int
    """Iterations that are best requested at once, since their results reach main memory in one transfer."""
    product: float | None = None
    """The r.p of the iteration that follows; None where the device alone knows it. It is ||r||^2 at first, if M = I."""

    shared_read: Any = None
    """What the iterations of right-hand sides have in common that share reads of the matrix; None if they cannot."""
    stops_at_target = False
    """Whether a run ends with the first iteration whose residual is at most its target."""

    @abstractmethod
    def replace_residual(self) -> float:
        """Complete x, replace r by b - A x in float64, keep or first make the direction p, and return ||r||_2."""

    @abstractmethod
    def run(self, count: int, target: float = 0.0) -> list[CgStep]:
        """Do at most ``count`` iterations, and return their results.

        They end with one whose p.Ap is not above 0 or not finite, and may end with the first whose recurrence's
        residual is at most ``target``.
        """

    def run_together(self, runs: Sequence[CgRun]) -> list[list[CgStep]]:
        """Do runs, the first of these iterations and all of the same ``shared_read``; they may end with any of them.

        ``bytes_read`` of each then counts its part of the matrix, which is read once for all.
        """
        return [each.iterations.run(each.most, each.target) for each in runs]


class CgRun(NamedTuple):
    """Iterations that a solve waits for: the arguments of `CgIterations.run`."""

    iterations: CgIterations
    most: int
    target: float
