"""Linear systems: time, iterations by bits, bytes and certified residual by matrix, method, storage and engine.

A way is a solver with its settings, and ways alternate. The first solve of each compiles and is not measured, unless
``samples`` is 0 and it is the only one. ``solve_s`` is the median time of the solver alone, with vectors in the memory
of the engine. ``whole_s`` is that of a whole call, which prepares the matrix, copies vectors, solves and certifies.
Neither includes compilation. If ``whole`` is false, the matrix is prepared once for all right-hand sides. A way that
refuses a system has the status "REFUSED" and the reason. ``error`` is ||x - x*|| / ||x*||, of right-hand sides whose
solution x* is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from cpms.api import product_engines
from cpms.api.linear.choice import INNER, METHODS, own_method, preconditioner_format, vector_format
from cpms.api.linear.solver import Solver
from cpms.base import work_clock
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.progress import part_done
from cpms.base.types import Floats
from cpms.certify import linear_system as certify
from cpms.experiment.config import Cell, Strict
from cpms.experiment.config_types import AUTO, MatrixStorageOrAuto, one_of, or_plugin
from cpms.experiment.library_solvers import LIBRARIES, RESTART, of_device
from cpms.experiment.linear_systems import OnSystems, SystemsConfig
from cpms.experiment.timers import copy_rates
from cpms.problems.linear_system import LinearSystem
from cpms.sparse.matrix import Matrix

_REFUSED = "REFUSED"
_OPTIONS = ("preconditioner_storage", "block", "inner", "restart")
"""Keys of a way that are options of `cpms.Solver` by the same name."""


class Way(Strict):
    """One way to solve; with the name of a library as engine, the library's method of that name."""

    method: Annotated[str, or_plugin("method", lambda: (*METHODS, "auto"), own_method)] = "auto"
    storage: MatrixStorageOrAuto = "auto"
    vectors: list[str] = Field(default=["auto"], min_length=1)
    engine: Annotated[str, one_of("engine of products", lambda: [*product_engines.names(), "auto", *LIBRARIES])] = (
        "auto"
    )
    preconditioner: Literal["jacobi", "block_jacobi", "chebyshev"] | None = None
    preconditioner_storage: str | None = None
    block: int | None = Field(default=None, ge=1)
    inner: Annotated[str, or_plugin("inner method", lambda: (*INNER, "auto"), own_method)] | None = None
    restart: int | None = Field(default=None, ge=1)

    @field_validator("vectors")
    @classmethod
    def known_vectors(cls, vectors: list[str]) -> list[str]:
        """Refuse names that are not of a format."""
        for name in vectors if vectors not in ([AUTO], ["blocks"]) else ():
            vector_format(name, "vectors")
        return vectors

    @field_validator("preconditioner_storage")
    @classmethod
    def known_format(cls, name: str | None) -> str | None:
        """Refuse a name that is not of a format."""
        preconditioner_format(name)
        return name

    @model_validator(mode="after")
    def taken_by_its_engine(self) -> Way:
        """Refuse what the solvers of another library do not take: a row would name what did not run."""
        if self.engine not in LIBRARIES:
            return self
        library = f"the solvers of {self.engine}"
        if self.method not in LIBRARIES[self.engine]:
            raise ValueError(f"method {self.method!r}: {library} are {' and '.join(LIBRARIES[self.engine])}")
        if self.storage not in (AUTO, "fp64") or self.vectors not in ([AUTO], ["fp64"]):
            raise ValueError(f"storage and vectors: {library} compute in fp64; leave both out")
        for option in _OPTIONS:
            if getattr(self, option) is not None:
                raise ValueError(f"{option}: {library} do not take it")
        if self.preconditioner is not None and self.engine == "scipy":
            raise ValueError(f"preconditioner: {library} are called without one")
        return self

    def as_cell(self) -> dict[str, Any]:
        """Return the way as a part of a cell: options that are not given have no key, as in rows before they were."""
        return {key: value for key, value in self.model_dump().items() if key not in _OPTIONS or value is not None}


class Config(SystemsConfig):
    """Each system is solved in each way; figures compare with the first way."""

    ways: list[Way] = Field(min_length=1)
    tol: float = Field(default=1e-10, gt=0)
    max_iterations: int = Field(default=10_000, ge=1)
    samples: int = Field(default=1, ge=0)
    history_points: int = Field(default=200, ge=0)
    whole: bool = True
    """Whether each solve prepares the matrix anew."""

    def cells(self) -> list[Cell]:
        """Return one cell a matrix and right-hand side: its ways take turns within it."""
        keys = ("tol", "max_iterations", "samples", "history_points")
        fixed = {key: getattr(self, key) for key in keys} | ({} if self.whole else {"whole": False})
        return self.cells_by_system(ways=[way.as_cell() for way in self.ways], **fixed)


class Context(OnSystems):
    """The matrix of consecutive cells, and its solvers if it is prepared once."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._of: Matrix | None = None
        self._solvers: dict[str, Solver] = {}

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Solve in each way once to compile, and once more for the row."""
        rates = copy_rates(way["engine"] for way in cell["ways"])  # Before a matrix takes memory.
        matrix, b = self.system_of(cell)
        if matrix is not self._of:
            self._of, self._solvers = matrix, {}
        known = self.solution_of(cell)
        solves = [self._solve(matrix, b, known, way, cell) for way in cell["ways"]]
        parts = itertools.count(1)

        def solved(solve: Callable[[], dict[str, Any]]) -> dict[str, Any]:
            found = solve()
            part_done(next(parts), len(solves) * (1 + cell["samples"]))
            return found

        lines = [solved(solve) for solve in solves]
        if all(line["status"] == _REFUSED for line in lines):
            raise UnsupportedError(lines[0]["reason"])
        samples = [[solved(solve) for solve in solves] for _ in range(cell["samples"])]
        for line, found in zip(lines, zip(*samples, strict=True), strict=True) if samples else ():
            for key in ("solve_s", "whole_s"):
                line[key.replace("_s", "_samples_s")] = [each[key] for each in found]
                line[key] = median(each[key] for each in found)
            line["step_s"] = min(found, key=lambda each: abs(each["solve_s"] - line["solve_s"]))["step_s"]
        sizes = {"rows": matrix.rows, "entries": matrix.entries}
        return {**sizes, **rates, "ways_found": lines}

    def _solve(
        self, matrix: Matrix, b: Floats, known: Floats | None, way: dict[str, Any], cell: Cell
    ) -> Callable[[], dict[str, Any]]:
        def solve() -> dict[str, Any]:
            if way["engine"] == "scipy":
                return _of_scipy(matrix, b, known, way, cell)
            try:
                return _of_cpms(self._solver(matrix, way, cell), b, known, way, cell)
            except (InputError, UnsupportedError) as refused:
                return _refused(way, str(refused))

        return solve

    def _solver(self, matrix: Matrix, way: dict[str, Any], cell: Cell) -> Solver:
        if cell.get("whole", True):
            return _prepared(matrix, way)
        name = repr(sorted(way.items()))
        if name not in self._solvers:
            self._solvers[name] = _prepared(matrix, way)
        return self._solvers[name]


def _prepared(matrix: Matrix, way: dict[str, Any]) -> Solver:
    if way["engine"] in LIBRARIES:
        method = of_device(way["engine"], way["method"])
        given = {"storage": "fp64", "vectors": "fp64", "preconditioner": way["preconditioner"]}
        return Solver(matrix, method=method, engine="cusparse", **given)
    vectors = way["vectors"][0] if len(way["vectors"]) == 1 else tuple(way["vectors"])
    options = {key: way[key] for key in ("method", "storage", "engine", "preconditioner", *_OPTIONS) if key in way}
    return Solver(matrix, vectors=vectors, **options)


def _error(x: Floats, known: Floats | None) -> dict[str, float | None]:
    """Return the relative error of an answer in the 2-norm, if the solution is known."""
    if known is None:
        return {}
    error = certify.norm(x - known) / certify.norm(known)
    return {"error": error if math.isfinite(error) else None}


def _of_cpms(solver: Solver, b: Floats, known: Floats | None, way: dict[str, Any], cell: Cell) -> dict[str, Any]:
    found = solver.solve(b, tol=cell["tol"], max_iterations=cell["max_iterations"])
    points = cell["history_points"]
    steps = found.history[:: max(1, -(-len(found.history) // points))] if points else []
    return {
        **way,
        "used": f"{way['engine']} {way['method']}" if way["engine"] in LIBRARIES else found.method,
        "stored_as": found.storage,
        "vectors_as": list(found.vectors),
        "preconditioner_used": found.preconditioned_by,
        "reason": found.reason,
        "status": found.status.name,
        "residual": found.residual if math.isfinite(found.residual) else None,
        **_error(found.x, known),
        "iterations": found.iterations,
        "iterations_by_bits": {str(bits): count for bits, count in found.iterations_by_bits.items()},
        "bytes_read": found.bytes_read,
        "solve_s": found.solve_s,
        "certify_s": found.certify_s,
        "whole_s": found.prepare_s + found.transfer_s + found.solve_s + found.certify_s,
        "history": [[s.iteration, s.residual, s.bits, s.bytes_read] for s in steps],
        "step_s": [s.seconds for s in steps],
    }


def _refused(way: dict[str, Any], reason: str) -> dict[str, Any]:
    nothing = {"iterations": 0, "iterations_by_bits": {}, "bytes_read": 0, "history": [], "step_s": []}
    times = dict.fromkeys(("solve_s", "certify_s", "whole_s"), 0.0)
    known = {"used": way["method"], "stored_as": way["storage"], "reason": reason, "status": _REFUSED}
    known |= {"vectors_as": way["vectors"], "preconditioner_used": way["preconditioner"] or "none"}
    return {**way, **known, "residual": None, **nothing, **times}


def _of_scipy(matrix: Matrix, b: Floats, known: Floats | None, way: dict[str, Any], cell: Cell) -> dict[str, Any]:
    """Solve by SciPy, and certify its answer like those of cpms."""
    import scipy.sparse.linalg

    method = getattr(scipy.sparse.linalg, "gmres" if way["method"] == "gmres" else "cg")
    A, count = matrix.to_scipy(), [0]

    def step(_: Any) -> None:
        count[0] += 1

    options: dict[str, Any] = {"maxiter": cell["max_iterations"]}
    if way["method"] == "gmres":  # Its limit is of cycles.
        cycles = -(-cell["max_iterations"] // RESTART)
        options = {"maxiter": cycles, "restart": RESTART, "callback_type": "pr_norm"}
    began = work_clock.now()
    x, info = method(A, b, rtol=cell["tol"], callback=step, **options)
    seconds = work_clock.now() - began
    residual = certify.certificate(LinearSystem(matrix), b, x).relative
    status = "CONVERGED" if info == 0 else "MAX_ITERATIONS"
    return {
        **way,
        "used": f"scipy {way['method']}",
        "stored_as": "fp64",
        "vectors_as": ["fp64"],
        "preconditioner_used": "none",
        "reason": "",
        "status": status if residual <= cell["tol"] or info else "WRONG",
        "residual": residual if math.isfinite(residual) else None,
        **_error(x, known),
        "iterations": count[0],
        "iterations_by_bits": {"64": count[0]},
        "bytes_read": 0,
        "solve_s": seconds,
        "certify_s": 0.0,
        "whole_s": seconds,
        "history": [],
        "step_s": [],
    }
