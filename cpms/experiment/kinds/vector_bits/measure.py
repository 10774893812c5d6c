"""Bits of vectors: iterations of GMRES by the format of its basis, and of conjugate gradients by that of r and p.

Counts do not depend on the machine. Every answer is certified like those of `cpms.solve`. Conjugate gradients may have
two formats, the second from a residual on that is ``switch`` times the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from cpms.api.linear.choice import chosen, vector_format
from cpms.api.linear.prepared_system import PreparedSystem
from cpms.api.linear.solver import Solver
from cpms.base import work_clock
from cpms.certify import linear_system as certify
from cpms.contracts.linear_solve import LinearStep, Recorder, SolveTask
from cpms.experiment.config import Cell
from cpms.experiment.linear_systems import OnSystems, SystemsConfig
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.cg import Later, cg
from cpms.solvers.linear.gmres import RESTART
from cpms.sparse.matrix import Matrix

_BELOW = 0.9


class Config(SystemsConfig):
    """Linear systems, and the formats of vectors; the first format is the baseline of figures.

    The figures for any experiment cannot draw these rows, which have no times. Name a program of your own by `show`;
    `cg_bits.py` and `gmres_bits.py` in `experiments/figures/solves` are examples.
    """

    right_hand_sides: list[Literal["ones", "random"]] = Field(default=["ones"], min_length=1)  # type: ignore[assignment]
    method: Literal["gmres", "cg"]
    vectors: list[list[str]] = Field(min_length=1)
    engine: str = "cpu"
    tol: float = Field(default=1e-10, gt=0)
    switch: float = Field(default=1e-5, gt=0)
    restart: int = Field(default=RESTART, ge=1)
    max_iterations: int = Field(default=3000, ge=1)

    @field_validator("vectors")
    @classmethod
    def known(cls, ladders: list[list[str]]) -> list[list[str]]:
        """Refuse names that are not of a format, and more than two formats."""
        for ladder in ladders:
            for name in ladder:
                if name not in ("bytes", "blocks"):
                    vector_format(name)
            if not 1 <= len(ladder) <= 2:
                raise ValueError(f"vectors are {ladder}; give a format, or two that follow one another")
        return ladders

    @model_validator(mode="after")
    def _two_formats_are_of_cg(self) -> Config:
        if self.method != "cg" and any(len(ladder) > 1 for ladder in self.vectors):
            raise ValueError(f"two formats are for method cg, not {self.method}; give formats one by one")
        return self

    def cells(self) -> list[Cell]:
        """Return one cell a matrix and right-hand side."""
        keys = ("method", "vectors", "engine", "tol", "switch", "restart", "max_iterations")
        return self.cells_by_system(**{key: getattr(self, key) for key in keys})


class Context(OnSystems):
    """The matrix of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Solve once with each format."""
        matrix, b = self.system_of(cell)
        lines = [_line(matrix, b, ladder, cell) for ladder in cell["vectors"]]
        return {"rows": matrix.rows, "entries": matrix.entries, "ways_found": lines}


def _line(matrix: Matrix, b: Any, ladder: list[str], cell: Cell) -> dict[str, Any]:
    steps: Sequence[LinearStep]
    bits: float | None = None
    if len(ladder) == 2:
        steps, residual = _two_formats(matrix, b, ladder, cell)
    else:
        solver = Solver(
            matrix, method=cell["method"], vectors=ladder[0], engine=cell["engine"], restart=cell["restart"]
        )
        found = solver.solve(b, tol=cell["tol"], max_iterations=cell["max_iterations"])
        steps, residual = found.history, found.residual
        if cell["method"] == "gmres":
            product = PreparedSystem.of(solver.system, solver.choice, cell["engine"], None).stored.bytes_read()
            bits = basis_bits(steps, matrix.rows, product)
    return {
        "vectors": ladder,
        "status": "CONVERGED" if residual <= cell["tol"] else "NOT CONVERGED",
        "residual": residual,
        "iterations": len(steps),
        "mean_bits": sum(s.bits for s in steps) / max(1, len(steps)) if bits is None else bits,
        "bytes_read": sum(step.bytes_read for step in steps),
    }


def _two_formats(matrix: Matrix, b: Any, ladder: list[str], cell: Cell) -> tuple[list[LinearStep], float]:
    system = LinearSystem(matrix)
    first, second = map(vector_format, ladder)
    choice = chosen(system, "cg", "auto", first, cell["engine"])
    prepared = PreparedSystem.of(system, choice, cell["engine"], None)
    b_norm = certify.norm(b)
    recorder = Recorder(cell["max_iterations"], b_norm, None, work_clock.now)
    task = SolveTask(
        prepared.exact, prepared.stored, b, _BELOW * cell["tol"] * b_norm, recorder, choice.vectors, prepared.read
    )
    x = task.zeros()
    cg(task, x, later=Later(second, cell["switch"]))
    return recorder.steps, certify.certificate(system, b, prepared.exact.to_host(x)).relative


def basis_bits(steps: Sequence[LinearStep], size: int, product: int) -> float:
    """Return the mean bits of a value that GMRES reads of its basis; a cycle ends with an exact residual.

    An iteration reads each vector twice. Reads of a second pass of Gram-Schmidt count as more bits of these two.

    Parameters
    ----------
    steps : sequence of LinearStep
    size : int
        Values of a vector.
    product : int
        Bytes of the stored matrix that an iteration reads. If the basis was widened, so was the matrix, whose further
        bytes are counted as the basis's.

    Examples
    --------
    >>> basis_bits([LinearStep(1, 0.1, 64, 107, 0.0, False), LinearStep(2, 0.01, 16, 107, 0.0, True)], 5, 7)
    53.333333333333336
    """
    bits, values, length = 0, 0, 0
    for step in steps:
        length += 1
        bits, values = bits + 8 * (step.bytes_read - product), values + 2 * length * size
        if step.exact:
            length = 0
    return bits / max(1, values)
