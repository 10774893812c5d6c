"""Honesty of solvers: how often a solver reports an answer as converged while ||b - A x|| is above the tolerance.

`cpms.solve` and the methods of SciPy and CuPy get the same random systems, tolerances and limits of iterations.
Residuals are recomputed by sums in long double, which has 11 bits more than float64. Answers whose residual is above
the tolerance by at most a thousandth are counted as ties.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.api.linear.solve import solve
from cpms.base.errors import UnavailableError
from cpms.experiment.config import Cell, Repeated, Stateless
from cpms.sources.fuzzed_systems import Fuzzed, fuzzed

_TIE = 1e-3
_RESTART = 20
"""Iterations between restarts of SciPy's GMRES, whose ``maxiter`` counts restarts."""


def _ours(method: str, engine: str, system: Fuzzed, most: int) -> tuple[Any, bool]:
    found = solve(system.A, system.b, tol=system.tol, method=method, engine=engine, max_iterations=most)
    return found.x, found.converged


def _of_library(name: str, method: str, system: Fuzzed, most: int) -> tuple[Any, bool]:
    """Solve by a method of SciPy, or by that of CuPy, which has the same name and options, in device memory."""
    sparse = f"{'cupyx.' if name == 'cupy' else ''}scipy.sparse"
    solver, given = getattr(import_module(f"{sparse}.linalg"), method), (system.A, system.b)
    tol = "rtol" if "rtol" in inspect.signature(solver).parameters else "tol"
    options = {tol: system.tol, "maxiter": most}
    if method == "gmres":
        options |= {"restart": _RESTART, "maxiter": -(-most // _RESTART) if name == "scipy" else most}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if name == "cupy":
                given = import_module(sparse).csr_matrix(system.A), import_module("cupy").asarray(system.b)
            x, info = solver(*given, **options)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return system.b, False
    return x.get() if name == "cupy" else x, int(info) == 0


_WAYS: dict[str, Callable[[Fuzzed, int], tuple[Any, bool]]] = {
    "cpms auto": partial(_ours, "auto", "cpu"),
    "cpms gmres": partial(_ours, "gmres", "cpu"),
    "scipy cg": partial(_of_library, "scipy", "cg"),
    "scipy gmres": partial(_of_library, "scipy", "gmres"),
    "cupy cg": partial(_of_library, "cupy", "cg"),
    "cupy gmres": partial(_of_library, "cupy", "gmres"),
    "cpms cuda auto": partial(_ours, "auto", "cuda"),
    "cpms cuda gmres": partial(_ours, "gmres", "cuda"),
}
_DEFAULT = list(_WAYS)[:4]


class Config(Repeated):
    """The fields of such an experiment."""

    graphs_are_loaded: ClassVar[bool] = False
    first: int = Field(default=0, ge=0)
    systems: int = Field(ge=1)
    together: int = Field(default=250, ge=1)
    largest: int = Field(default=2000, ge=1, le=100_000)
    max_iterations: int = Field(default=500, ge=1)
    ways: list[Literal[tuple(_WAYS)]] = Field(default=_DEFAULT, min_length=1)  # type: ignore[valid-type]

    def cells(self) -> list[Cell]:
        """Return one cell a range of seeds."""
        shared: Cell = {"largest": self.largest, "max_iterations": self.max_iterations}
        if self.ways != _DEFAULT:
            shared["ways"] = self.ways
        end = self.first + self.systems
        parts = [(begin, min(self.together, end - begin)) for begin in range(self.first, end, self.together)]
        cells = [{"graph": "fuzzed", "first": begin, "systems": count} for begin, count in parts]
        return self.repeated(cells, **shared)


class Context(Stateless):
    """No state between cells: each cell generates its systems."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Count answers that solvers report as converged, and those of them that are wrong."""
        ways = {name: _WAYS[name] for name in cell.get("ways", _DEFAULT)}
        if (on_device := [name for name in ways if is_on_gpu(name)]) and (missing := engines.get_any("cuda").missing()):
            raise UnavailableError(f"{', '.join(on_device)} cannot run here: {missing}")
        counts = {name: {"converged": 0, "wrong": 0, "ties": 0, "worst": 0.0} for name in ways}
        for seed in range(cell["first"], cell["first"] + cell["systems"]):
            system = fuzzed(seed, cell["largest"])
            for name, way in ways.items():
                x, converged = way(system, cell["max_iterations"])
                if converged:
                    over = relative_residual(system, x) / system.tol
                    found = counts[name]
                    found["converged"] += 1
                    found["wrong"] += int(not over <= 1.0 + _TIE)
                    found["ties"] += int(1.0 < over <= 1.0 + _TIE)
                    found["worst"] = max(found["worst"], over if np.isfinite(over) else 1e308)
        return {"counts": counts}


def is_on_gpu(way: str) -> bool:
    """Return whether a solver takes its answers on a GPU.

    Examples
    --------
    >>> [is_on_gpu(each) for each in ("cpms auto", "cupy cg", "cpms cuda auto")]
    [False, True, True]
    """
    return way.startswith(("cupy ", "cpms cuda "))


def relative_residual(system: Fuzzed, x: Any) -> float:
    """Return ||b - A x||_2 / ||b||_2 by sums in long double; inf where x is not finite.

    Examples
    --------
    >>> system = fuzzed(3)
    >>> relative_residual(system, 0.0 * system.b)
    1.0
    """
    if not np.isfinite(x).all():
        return float("inf")
    products = system.A.data.astype(np.longdouble) * np.asarray(x, np.longdouble)[system.A.indices]
    rows = np.repeat(np.arange(system.A.shape[0]), np.diff(system.A.indptr))
    sums = np.zeros(system.A.shape[0], np.longdouble)
    np.add.at(sums, rows, products)
    b = system.b.astype(np.longdouble)
    r, size = b - sums, np.sqrt((b * b).sum())
    residual = np.sqrt((r * r).sum())
    return float(residual / size) if size > 0 else (0.0 if residual == 0 else float("inf"))
