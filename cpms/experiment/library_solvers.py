"""Krylov solvers of other libraries as methods of `cpms.Solver`, which certifies their answers like those of cpms.

If the certificate exceeds the tolerance, the solver continues from that answer with a tenth of the goal. CuPy's solvers
are called as its users call them. Conjugate gradients of cuSPARSE and cuBLAS are written as an expert would, in
`cpms.backends.cuda.product.vendor_cg`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from cpms.base.errors import UnsupportedError
from cpms.contracts.linear_solve import SolveStatus, SolveTask, norm

RESTART = 100
"""Basis vectors of a cycle of GMRES."""
LIBRARIES = {"scipy": ("cg", "gmres"), "cupy": ("cg", "gmres"), "cusparse+cublas": ("cg",)}
"""Names of libraries, which contestants have in place of an engine, and the methods that each has."""


def of_device(library: str, method: str) -> Callable[[SolveTask, Any], SolveStatus]:
    """Return a library's method; ``cusparse+cublas`` has conjugate gradients alone.

    Examples
    --------
    >>> of_device("cupy", "cg").__name__
    'cupy_cg'
    """
    if library == "cupy":
        return cupy_gmres if method == "gmres" else cupy_cg
    return cusparse_cg


def cusparse_cg(task: SolveTask, x: Any) -> SolveStatus:
    """Solve by conjugate gradients of cuSPARSE and cuBLAS."""
    preconditioner = task.preconditioner
    if preconditioner is not None and preconditioner.weights is None:
        raise UnsupportedError(
            f"the loop of cuSPARSE and cuBLAS has no preconditioner {preconditioner.name}; give jacobi or none"
        )
    from cpms.backends.cuda.product import vendor_cg

    return vendor_cg.cg(task, x)


def cupy_cg(task: SolveTask, x: Any) -> SolveStatus:
    """Solve by ``cupyx.scipy.sparse.linalg.cg``."""
    return _cupy("cg", task, x)


def cupy_gmres(task: SolveTask, x: Any) -> SolveStatus:
    """Solve by ``cupyx.scipy.sparse.linalg.gmres``, whose iterations are counted by cycles."""
    return _cupy("gmres", task, x)


def _cupy(name: str, task: SolveTask, x: Any) -> SolveStatus:
    solver = getattr(import_module("cupyx.scipy.sparse.linalg"), name)
    iterations = 1 if name == "cg" else RESTART
    count = [0]

    def step(_: Any) -> None:
        count[0] += iterations

    options: dict[str, Any] = {"M": _as_operator(task)}
    if name == "gmres":
        options |= {"restart": min(RESTART, task.size), "callback_type": "pr_norm"}
    parameters = inspect.signature(solver).parameters
    options["rtol" if "rtol" in parameters else "tol"] = task.goal / norm(task.exact, task.b)
    held: Any = task.stored
    found, info = solver(held.held, task.b, x0=x, maxiter=task.recorder.left, callback=step, **options)
    x[...] = found
    for _ in range(min(count[0], task.recorder.left)):
        task.recorder.add(task.goal, 64, 0)
    return SolveStatus.CONVERGED if info == 0 else SolveStatus.MAX_ITERATIONS


def _as_operator(task: SolveTask) -> Any:
    """Return the task's preconditioner as CuPy takes it."""
    if task.preconditioner is None:
        return None
    operator = import_module("cupyx.scipy.sparse.linalg").LinearOperator
    return operator((task.size, task.size), matvec=task.preconditioner.apply, dtype="float64")
