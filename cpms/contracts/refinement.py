"""The contract of mixed-precision iterative refinement on a backend.

An outer step is one residual sweep in float64, and inner sweeps on the residual in few bits; `cpms.solvers.refine` has
the equations. The outer step is the unit that backends implement, since a persistent kernel can do many of them in one
launch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.formats.formats import FloatFormat, Format
from cpms.formats.quantization import quantiser


class OuterStep(NamedTuple):
    """The norms of an outer step: of its residual sweep, and of the inner sweeps after it.

    Parameters
    ----------
    found : Sweep
        Norms of r = G(x) - x, and the sum of G(x).
    inner_l1 : list of float
        ||r||_1 after each inner sweep.
    sums : list of float
        The sum of the entries of r after each sweep, the residual sweep first.
    seconds : list of float
        The end of each sweep since the outer step began.
    from_rounded : bool
        Whether r was computed from an iterate that was rounded to the bits that inner sweeps read. Then only its L1
        norm is known, which the other norms do not exceed.
    """

    found: Sweep
    inner_l1: list[float]
    sums: list[float]
    seconds: list[float]
    from_rounded: bool = False


class OuterRequest(NamedTuple):
    """When outer steps end.

    Parameters
    ----------
    inner_reduction : float
        The factor by which the inner sweeps of a step are to reduce ||r||_1.
    noise_tolerance : float
        How many times larger than predicted the measured residual may be.
    tol : float
        The residual at which the solve ends, in ``norm``.
    norm : {"l1", "l2", "linf"}
    most : int
        Sweeps in all.
    """

    inner_reduction: float
    noise_tolerance: float
    tol: float
    norm: Norm
    most: int


class Refinement(ABC):
    """A problem prepared for method ``refine``; it holds x and the correction c (see `cpms.solvers.refine`)."""

    nbytes: int
    """Bytes of the stored matrix."""
    damping: float
    anderson: bool = True
    """Whether `outer_steps` and `solve_reduced` may combine inner sweeps (see `cpms.precision.anderson`)."""
    error_feedback: bool = True
    """Whether `outer_steps` and `solve_reduced` may use error feedback where it is faster; only with ``adaptive``."""
    adaptive: bool = False
    """Whether inner sweeps of an outer step may reduce the residual further than the request says."""

    @abstractmethod
    def start(self, values: Floats) -> None:
        """Begin at float64 ``values``, shape (nodes,), in main memory or in that of the engine's device."""

    def start_uniform(self, nodes: int) -> None:
        """Begin at the uniform distribution over all nodes of the graph."""
        self.start(np.full(nodes, 1.0 / nodes))

    def warm_up(self, storage: FloatFormat | None) -> None:  # noqa: B027
        """Do the work that the first outer step in a format does once, such as compiling."""

    @property
    def default_residual_format(self) -> FloatFormat | None:
        """The fastest format of the residual for this problem; None: the engine's default."""
        return None

    @property
    def unreduced_residual_format(self) -> FloatFormat | None:
        """The fastest format for solves that skip `solve_reduced`, such as those that begin at given ranks."""
        return self.default_residual_format

    def readable(self, storage: Format | None) -> Any:
        """Return the format in which inner sweeps read the residual, for a format that a policy plans.

        Raises
        ------
        UnsupportedError
            If the format brings its codec: compiled sweeps read segments and packed floats.
        """
        return None if storage is None else quantiser(storage)

    def solve_reduced(self, iterate: Callable[[Refinement], None]) -> Any | None:  # noqa: ARG002
        """Solve a reduced problem and return x of the whole graph, of sum 1; None if the graph has no useful reduction.

        x is in the engine's memory. ``iterate`` is called with the reduced problem, already started, and refines it.
        """
        return None

    def set_teleport(self, teleport: Floats | None) -> bool:  # noqa: ARG002
        """Change the teleport distribution, shape (nodes,), or to the uniform one for None; return whether it did.

        Otherwise the engine has to prepare the problem again.
        """
        return False

    @abstractmethod
    def outer_step(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Do one outer step: add c to x, sweep in float64, and do inner sweeps unless ``norm`` of r is below ``tol``.

        Inner sweeps read r / out-degree in ``storage``; for None there are none. They end when ||r||_1 is at most
        ``inner_reduction`` times its value after the residual sweep, or half of the value that meets ``tol``. They also
        end after ``max_inner`` sweeps, or after `cpms.precision.inner_stopping.inner_max_iterations`.
        """

    def outer_steps(self, storage: FloatFormat | None, request: OuterRequest) -> list[OuterStep]:
        """Do outer steps as requested, at least one, until a prediction fails.

        The last inner sweep predicts the residual that the next residual sweep measures. The prediction holds if the
        measured value is at most ``noise_tolerance`` times the larger of the predicted ||r||_1 and its target.
        Persistent kernels do many outer steps in one launch; other engines return after one. Inner sweeps may be
        combined here (see ``anderson``), but not in `outer_step`.
        """
        reduction, _, tol, norm, most = request
        return [self.outer_step(storage, inner_reduction=reduction, tol=tol, norm=norm, max_inner=most - 1)]

    @abstractmethod
    def read(self) -> Floats:
        """Return x, shape (nodes,)."""

    def read_device(self) -> Any | None:
        """Return `read` as a CuPy array, or None for x in main memory."""
        return None
