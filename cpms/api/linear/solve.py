"""`cpms.solve`: a linear system in few bits, with a certified answer; `cpms.Solver` in one call."""

from __future__ import annotations

import inspect
from typing import Any

from cpms.api.linear.solver import OnStep, Solver
from cpms.base.text.keywords import checked_keywords


@checked_keywords
def solve(
    A: Any,
    b: Any,
    *,
    tol: float = 1e-10,
    x0: Any | None = None,
    max_iterations: int | None = None,
    on_step: OnStep | None = None,
    **options: Any,
) -> Any:
    """Solve A x = b in few bits, and certify b - A x in twice the precision of float64.

    Parameters
    ----------
    A : matrix, shape (n, n)
        What `cpms.matrix` takes.
    b : array_like, shape (n,) or (n, k)
    tol, x0, max_iterations, on_step
        As in `cpms.Solver.solve`; ``x0`` has the shape of ``b``.
    **options
        Of `cpms.Solver`, which describes them: method, formats of matrix and vectors, engine, preconditioner and so on.

    Returns
    -------
    Solution or list of Solution
        A list of k where b has two dimensions; conjugate gradients on engine ``cpu`` read A once for several of them.

    Raises
    ------
    InputError
        If the matrix is not square, a vector has another size or is not finite, or an option is unknown.
    UnavailableError, UnsupportedError
        If the engine is not there, or has no such products.

    Examples
    --------
    >>> import cpms, numpy as np, scipy.sparse
    >>> A = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(100, 100))
    >>> found = cpms.solve(A, np.ones(100), tol=1e-12)
    >>> found.converged, found.residual <= 1e-12, float(found.x.max().round(6))
    (True, True, 1275.0)
    """
    return Solver(A, **options).solve(b, tol=tol, x0=x0, max_iterations=max_iterations, on_step=on_step)


def _signature_of_both() -> inspect.Signature:
    """Return the signature of `solve` with the options of `Solver` by their names."""
    own, of_solver = inspect.signature(solve), inspect.signature(Solver)
    named = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    return own.replace(parameters=[*named, *list(of_solver.parameters.values())[1:]])


solve.__signature__ = _signature_of_both()  # type: ignore[attr-defined]
