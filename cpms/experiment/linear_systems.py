"""The linear systems of an experiment: matrices by name, and right-hand sides.

A right-hand side is of ones, of normal random numbers, or known: A times normal random numbers, so that the error of an
answer is known up to the rounding of that product, which the condition number of A may multiply.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from cpms.api.given_matrix import given_matrix
from cpms.base.types import Floats
from cpms.experiment.config import Cell, Repeated
from cpms.problems.linear_system import LinearSystem
from cpms.sources import matrices
from cpms.sparse.matrix import Matrix


class SystemsConfig(Repeated):
    """Matrices by name or path, and right-hand sides."""

    matrices: list[str] = Field(min_length=1)
    right_hand_sides: list[Literal["ones", "random", "known"]] = Field(default=["ones", "random"], min_length=1)

    @field_validator("matrices")
    @classmethod
    def known_matrices(cls, names: list[str]) -> list[str]:
        """Refuse names of no generator. Files are read by runs alone, since rows can be shown where no file is."""
        for name in names:
            if matrices.is_name(name):
                matrices.checked(name)
            elif ":" in name and not Path(name).exists():
                given_matrix(name, None)
        return names

    def cells_by_system(self, **fixed: Any) -> list[Cell]:
        """Return one cell a matrix, right-hand side and repetition, for kinds whose contestants share a cell."""
        cells = [{"graph": name, "rhs": rhs} for name in self.matrices for rhs in self.right_hand_sides]
        return self.repeated(cells, **fixed)


class OnSystems:
    """The context of kinds whose consecutive cells have one matrix, which is made once."""

    def __init__(self, config: object) -> None:
        del config
        self._name, self._matrix = "", Matrix.from_dense([[1.0]])

    def system_of(self, cell: Cell) -> tuple[Matrix, Floats]:
        """Return the matrix of a cell, and its right-hand side, which has shape (rows,)."""
        name = cell["graph"]
        if name != self._name:
            self._matrix = given_matrix(matrices.generate(name) if matrices.is_name(name) else name, None)
            LinearSystem(self._matrix)  # Refuses one that is not square, before a library does.
            self._name = name
        known = self.solution_of(cell)
        if known is not None:
            return self._matrix, np.asarray(self._matrix.to_scipy() @ known)
        return self._matrix, np.ones(self._matrix.rows) if cell["rhs"] == "ones" else self._random()

    def solution_of(self, cell: Cell) -> Floats | None:
        """Return the solution of the cell whose matrix `system_of` returned last; None if it is not known."""
        return self._random() if cell["rhs"] == "known" else None

    def _random(self) -> Floats:
        return np.random.default_rng(1).standard_normal(self._matrix.rows)
