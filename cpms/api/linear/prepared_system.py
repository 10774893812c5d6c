"""A matrix prepared for solves: operators for its exact values and for few bits, and preconditioners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpms.api import product_engines
from cpms.api.linear.choice import PRECONDITIONERS, Choice, chosen, keeps
from cpms.base import work_clock
from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner, Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.codes import ValueFormat, VectorFormat
from cpms.formats.formats import FP32, FP64, SegmentFormat
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.chebyshev import Chebyshev
from cpms.solvers.linear.jacobi import Jacobi
from cpms.solvers.linear.preconditioners import BlockJacobi, Given
from cpms.sparse.arrangement import Layout, layout_of
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import require_fitting


@dataclass(frozen=True, eq=False)
class PreparedSystem:
    """Operators of one matrix.

    Parameters
    ----------
    system : LinearSystem
    exact : LinearOperator
        Reads the values as they were given.
    stored : LinearOperator
        In the storage that was chosen; the same object where that is exact.
    read : int or None
        Segments that products of ``stored`` read.
    engine : str
    layout : str or Layout
    """

    system: LinearSystem
    exact: LinearOperator
    stored: LinearOperator
    read: int | None
    engine: str
    layout: str | Layout

    @classmethod
    def of(cls, system: LinearSystem, choice: Choice, engine: str, read: int | None) -> PreparedSystem:
        """Store the matrix once if its format keeps every value, else twice."""
        layout = choice.layout
        stored = _operator(system.matrix, choice.storage, engine, layout)
        level = None if read is None or choice.storage is None else choice.storage.checked_read(read)
        if level is not None and isinstance(choice.storage, SegmentFormat):
            level = None if level == choice.storage.segments else level
            return cls(system, stored, stored, level, engine, layout)
        iterated = stored.computing("fp32") if choice.computes_in_single else stored
        is_exact = choice.keeps_values or keeps(system.matrix.given_values(), choice.storage)
        exact = stored if is_exact else _operator(system.matrix, FP64, engine, layout)
        return cls(system, exact, iterated, None, engine, layout)

    def preconditioner(
        self, given: str | Callable[[Any], Any] | None, storage: VectorFormat | None, block: int
    ) -> Preconditioner | None:
        """Return a preconditioner by its name, or of a user's callable; arguments are those of `cpms.Solver`."""
        if given is None:
            return None
        if callable(given):
            return Given(given, self.exact)
        if not isinstance(given, str):
            matrix = ", such as (lambda r: M @ r) of a matrix M" if hasattr(given, "shape") else ""
            possible = f"one of {PRECONDITIONERS} or a function of r{matrix}"
            raise InputError(f"preconditioner is {described(given)}; give {possible}")
        if given not in PRECONDITIONERS:
            raise InputError(unknown("preconditioner", given, list(PRECONDITIONERS), ", or a function of r"))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if given == "jacobi":
                return Jacobi(self.system, self.exact, None if storage == FP64 else storage)
            if given == "block_jacobi":
                return BlockJacobi(self.system, self._square, block, storage)
            task = SolveTask(self.exact, self.stored, None, 0.0, Recorder(1, 1.0, None, work_clock.now), read=self.read)
            if storage is None or self.system.matrix.values is None:
                return Chebyshev(task, self.system)
            return Chebyshev(
                task, self.system, rounded=lambda: _operator(self.system.matrix, storage, self.engine, self.layout)
            )

    def _square(self, starts: Any, columns: Any, values: Any, storage: ValueFormat) -> LinearOperator:
        """Prepare another matrix of the same size, in compressed rows."""
        matrix = Matrix(self.system.size, self.system.size, starts, columns, values)
        return _operator(matrix, storage, self.engine, self.layout)


def widened(system: LinearSystem, choice: Choice) -> Choice:
    """Return a choice whose storage of the matrix is wide enough for its largest value, and says what was widened.

    Examples
    --------
    >>> from cpms.api.linear.choice import chosen
    >>> from cpms.sparse.matrix import Matrix
    >>> system = LinearSystem(Matrix.from_dense([[70000.0]]))
    >>> widened(system, chosen(system, "gmres", "fp16", "fp64", "cpu")).storage.name
    'fp32'
    """
    if choice.storage is None or choice.keeps_values:
        return choice
    for storage in (choice.storage, FP32):
        try:
            require_fitting(system.matrix.given_values(), storage)
        except InputError as error:
            refusal = str(error)
            continue
        if storage == choice.storage:
            return choice
        return replace(choice, storage=storage, reason=f"{choice.reason}; {storage.name}: {refusal}")
    return replace(choice, storage=FP64, reason=f"{choice.reason}; fp64: {refusal}")


def without_division(system: LinearSystem, storage: Any, vectors: Any, engine: str, layout: str | Layout) -> Choice:
    """Return GMRES in place of a method that divides by a diagonal whose inverse overflows."""
    found = widened(system, chosen(system, "gmres", storage, vectors, engine, layout))
    return replace(found, reason=f"gmres: the inverse of a diagonal entry is beyond float64; {found.reason}")


def _operator(matrix: Matrix, storage: ValueFormat | None, engine: str, layout: str | Layout) -> LinearOperator:
    return product_engines.prepare(engine, matrix, ProductRequest(storage, layout_of(layout)))
