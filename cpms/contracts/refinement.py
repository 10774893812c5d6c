"""The contract of mixed-precision iterative refinement on a backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.formats.formats import FloatFormat


class OuterStep(NamedTuple):
    """What a round found: its full sweep, and the low sweeps after it.

    Parameters
    ----------
    found : Sweep
        Norms of r = G(x) - x, and the mass of G(x).
    low : list of float
        ||r||_1 after each low sweep.
    sums : list of float
        The sum of r after each sweep, the full one first.
    seconds : list of float
        When each of them ended, since the round began.
    from_rounded : bool
        Whether x was rounded before, so that r was found from as few bits as low sweeps read. Of its norms L1 alone is
        known, which the others do not exceed.
    """

    found: Sweep
    low: list[float]
    sums: list[float]
    seconds: list[float]
    from_rounded: bool = False


class OuterRequest(NamedTuple):
    """What is asked of rounds of method ``refine``; see `Refinement.rounds`."""

    inner_reduction: float
    noise_tolerance: float
    tol: float
    norm: Norm
    most: int


class Refinement(ABC):
    """A problem prepared for method ``refine``; it holds x, and c, what x lacks (see `cpms.solvers.refine`)."""

    nbytes: int
    damping: float
    anderson: bool = True
    """Whether `rounds` and `solve_reduced` may combine what low sweeps found (see `cpms.precision.anderson`)."""
    error_feedback: bool = True
    """Whether `rounds` and `solve_reduced` may keep what rounding loses of each node where that is worth more, if the policy
    ``adaptive``."""
    adaptive: bool = False
    """Whether rounds may go below the gain that they are asked for."""

    @abstractmethod
    def start(self, values: Floats) -> None:
        """Begin at float64 ``values``, shape (nodes,), of the memory that the engine takes."""

    def start_uniform(self, nodes: int) -> None:
        """Begin at the uniform distribution over all nodes of the graph."""
        self.start(np.full(nodes, 1.0 / nodes))

    def warm_up(self, storage: FloatFormat | None) -> None:  # noqa: B027
        """Do what the first round in a format would do but once, such as compiling."""

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """Format of the residual that serves this problem best, where it is not the engine's."""
        return None

    def solve_reduced(self, iterate: Callable[[Refinement], None]) -> Any | None:  # noqa: ARG002
        """Return x, of sum 1, where the graph allows more than sweeps over all of it; None if not.

        It is in the memory where the engine has it. ``iterate`` refines a smaller problem, which has been started.
        """
        return None

    def set_teleport(self, teleport: Floats) -> bool:  # noqa: ARG002
        """Go on with another teleport distribution, shape (nodes,); False: the engine has to be prepared for it."""
        return False

    @abstractmethod
    def round(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, most_low: int
    ) -> OuterStep:
        """Correct x by c, sweep in float64, and go on with low sweeps unless ``norm`` of r is below ``tol``.

        Low sweeps read r / out-degree in ``storage`` and end when ||r||_1 is at most ``inner_reduction`` times
        what the full sweep found, or half of what meets ``tol``, or after ``most_low`` of them, or as many as
        pay in a round (`cpms.precision.inner_stopping.inner_max_iterations`); without a storage there are none.
        """

    def rounds(
        self,
        storage: FloatFormat | None,
        *,
        inner_reduction: float,
        noise_tolerance: float,
        tol: float,
        norm: Norm,
        most: int,
    ) -> list[OuterStep]:
        """Do rounds of at most ``most`` sweeps in all, as long as they go as planned; at least one.

        They do while a full sweep finds at most ``noise_tolerance`` times the ||r||_1 that low sweeps ended with, or that their
        gain asked for.
        Engines that stay on the device go on that long; the others return after one round. Low sweeps may be
        extrapolated here, those of `round` are not.
        """
        del noise_tolerance
        return [self.round(storage, inner_reduction=inner_reduction, tol=tol, norm=norm, most_low=most - 1)]

    @abstractmethod
    def read(self) -> Floats:
        """Return x, shape (nodes,)."""

    def read_device(self) -> Any | None:
        """Return what `read` does as a CuPy array, or None where x is in main memory."""
        return None
