"""The result of a linear solve: x with its certificate, history, and what was chosen and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cpms.api.iterated import Iterated
from cpms.base.text.html_table import html_table
from cpms.base.types import Floats
from cpms.base.validation import finite, shown
from cpms.certify.linear_system import Certificate
from cpms.contracts.linear_solve import LinearStep, SolveStatus

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Answer(NamedTuple):
    """How a solve ended: x in main memory with its certificate, and x on a device where it lies there as it is."""

    x: Floats
    status: SolveStatus
    certificate: Certificate
    solve_s: float = 0.0
    certify_s: float = 0.0
    device_x: Any | None = None


def certified_status(status: SolveStatus, certificate: Certificate, tol: float) -> SolveStatus:
    """Return the status of an answer with its certificate, given that of the method."""
    if certificate.meets(tol):
        return SolveStatus.CONVERGED
    if not math.isfinite(certificate.bound):
        return SolveStatus.OVERFLOW
    return SolveStatus.UNVERIFIED if status is SolveStatus.CONVERGED else status


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Iterated):
    """A solution of A x = b, with the proof of how good it is.

    Attributes
    ----------
    x : ndarray of float64, shape (n,)
    status : SolveStatus
    certificate : Certificate
        Of x, found after the solve by code that the solver does not share.
    tol : float
        The tolerance that was asked for: ||b - A x||_2 <= tol ||b||_2.
    history : tuple of LinearStep
    method, storage, vectors, engine : str
        What was used; ``vectors`` are the formats of vectors, from the fewest bits on.
    reason : str
        Why these were chosen, and what was widened on the way.
    preconditioner, preconditioner_storage : str or None
        Name of the preconditioner that was used, by ``auto``'s choice or yours, and format of its values; None without
        one.
    bytes_read : int
        Of matrix and vectors in all iterations, the residuals in float64 included, by the methods' counts. Those of
        conjugate gradients that run several iterations in one call include bytes written (`cpms.LinearStep`). A read of
        the matrix for several right-hand sides counts once: each has an equal part of it.
    prepare_s, solve_s, certify_s, compile_s : float
        Seconds of preparation, solve and certificate without compilation, and seconds of compilation. Right-hand sides
        that share reads are solved at the same time, so the seconds of each include work for the others.
    transfer_s : float
        Seconds in which b and the start were scaled and copied into the engine's memory.
    device_x : array or None
        x in device memory, from an engine that computes there.

    Examples
    --------
    >>> import cpms
    >>> found = cpms.solve([[4.0, -1.0], [-1.0, 4.0]], [3.0, 3.0])
    >>> found.converged, found.x.tolist(), found.iterations
    (True, [1.0, 1.0], 1)
    """

    x: Floats
    status: SolveStatus
    certificate: Certificate
    tol: float
    history: tuple[LinearStep, ...]
    method: str
    storage: str
    vectors: tuple[str, ...]
    engine: str
    reason: str
    bytes_read: int
    prepare_s: float
    solve_s: float
    certify_s: float
    compile_s: float = 0.0
    device_x: Any | None = None
    transfer_s: float = 0.0
    preconditioner: str | None = None
    preconditioner_storage: str | None = None

    def __repr__(self) -> str:
        ended = f"{self.status.name} after {self.iterations} iterations, residual {self.residual:.3g} ||b||"
        return f"Solution({len(self.x):,} unknowns: {ended}; {self.method} on {self.engine})"

    def _repr_html_(self) -> str:
        """Return the view of notebooks."""
        return html_table(
            [
                ("status", self.status.value),
                ("method", f"{self.method} on {self.engine}, matrix in {self.storage}"),
                ("preconditioner", self.preconditioned_by),
                ("iterations", self._counts()),
                ("certified residual over ||b||", shown(finite(self.residual))),
                ("normwise backward error", shown(finite(self.certificate.normwise_backward_error))),
                ("why", self.reason),
            ]
        )

    @property
    def converged(self) -> bool:
        """Whether the certified residual with its rounding error is at most tol ||b||."""
        return self.status is SolveStatus.CONVERGED

    @property
    def residual(self) -> float:
        """The certified upper bound of ||b - A x||_2 over ||b||_2."""
        return self.certificate.relative

    @property
    def error_bound(self) -> float | None:
        """Bound of ||x - x*||_2; None where no lower bound of the eigenvalues was given."""
        return self.certificate.error_bound

    @property
    def error_estimate(self) -> float | None:
        """Estimate of the largest possible ||x - x*||_2, by one of the smallest eigenvalue; it is no bound.

        None where conjugate gradients did not find the answer, or had a preconditioner other than Jacobi's and block
        Jacobi's.
        """
        return self.certificate.error_estimate

    @property
    def preconditioned_by(self) -> str:
        """The preconditioner with its format, such as "jacobi in fp64"; "none" without one."""
        return "none" if self.preconditioner is None else f"{self.preconditioner} in {self.preconditioner_storage}"

    def to_frame(self) -> pd.DataFrame:
        """Return the solution as a table: unknown (its place) and value."""
        import pandas as pd

        return pd.DataFrame({"unknown": range(len(self.x)), "value": self.x})

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw residual against iteration, coloured by the bits read of vectors, into a panel, and return it.

        Without ``axes`` the panel is that of a new figure, one column of a journal wide.
        """
        return self._plot(self.tol, "residual over ||b||", axes)

    def trace(self) -> pd.DataFrame:
        """Return the history as a table: iteration, residual, bits, bytes_read, seconds, exact, column."""
        import pandas as pd

        return pd.DataFrame(self.history, columns=list(LinearStep._fields))


@dataclass(frozen=True, eq=False, repr=False)
class Eigenpair(Iterated):
    """The eigenvalue of largest size with its eigenvector.

    Attributes
    ----------
    value : float
    vector : ndarray of float64, shape (n,)
        Of 2-norm 1 to rounding.
    status : SolveStatus
    residual : float
        Certified upper bound of ||A x - value x||_2 over |value| ||x||_2. For a symmetric matrix, an eigenvalue lies
        within ``residual * |value|`` of ``value``.
    history : tuple of LinearStep
    engine : str

    Examples
    --------
    >>> import cpms
    >>> found = cpms.dominant_eigenpair([[2.0, 1.0], [1.0, 2.0]])
    >>> round(found.value, 9), found.converged
    (3.0, True)
    """

    value: float
    vector: Floats
    status: SolveStatus
    residual: float
    history: tuple[LinearStep, ...]
    engine: str

    def __repr__(self) -> str:
        ended = f"{self.status.name} after {self.iterations} iterations, residual {self.residual:.3g} |value|"
        return f"Eigenpair({self.value:.12g}, vector of {len(self.vector):,}: {ended}; {self.engine})"

    @property
    def converged(self) -> bool:
        """Whether the certified residual is at most what was asked for."""
        return self.status is SolveStatus.CONVERGED
