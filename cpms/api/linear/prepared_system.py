"""A matrix prepared for solves: operators for its exact values and for few bits, and its preconditioner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cpms.api import product_engines
from cpms.api.linear.choice import PRECONDITIONERS, Choice, chosen, keeps
from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner, SolveTask
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
    """

    system: LinearSystem
    exact: LinearOperator
    stored: LinearOperator
    read: int | None

    @classmethod
    def of(cls, system: LinearSystem, choice: Choice, engine: str, read: int | None) -> PreparedSystem:
        """Store the matrix once if its format keeps every value, else twice."""
        stored = _operator(system.matrix, choice.storage, engine, choice.layout)
        level = None if read is None or choice.storage is None else choice.storage.checked_read(read)
        if level is not None and isinstance(choice.storage, SegmentFormat):
            return cls(system, stored, stored, None if level == choice.storage.segments else level)
        iterated = stored.computing("fp32") if choice.computes_in_single else stored
        if choice.keeps_values or keeps(system.matrix.given_values(), choice.storage):
            return cls(system, stored, iterated, None)
        return cls(system, _operator(system.matrix, FP64, engine, choice.layout), iterated, None)


def with_room(system: LinearSystem, choice: Choice) -> Choice:
    """Return a choice whose storage of the matrix is wide enough for its largest value, and says what was widened.

    Examples
    --------
    >>> from cpms.api.linear.choice import chosen
    >>> from cpms.sparse.matrix import Matrix
    >>> system = LinearSystem(Matrix.from_dense([[70000.0]]))
    >>> with_room(system, chosen(system, "gmres", "fp16", "fp64", "cpu")).storage.name
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
    found = with_room(system, chosen(system, "gmres", storage, vectors, engine, layout))
    return replace(found, reason=f"gmres: the inverse of a diagonal entry is beyond float64; {found.reason}")


def _operator(matrix: Matrix, storage: ValueFormat | None, engine: str, layout: str | Layout) -> LinearOperator:
    return product_engines.prepare(engine, matrix, ProductRequest(storage, layout_of(layout)))


def preconditioner_of(
    given: str | Callable[[Any], Any] | None,
    task: SolveTask,
    system: LinearSystem,
    storage: VectorFormat | None,
    block: int,
    engine: str,
    layout: str | Layout,
) -> Preconditioner | None:
    """Return a preconditioner by its name, or of a user's callable."""
    if given is None:
        return None
    if callable(given):
        return Given(given, task.exact)
    if given not in PRECONDITIONERS:
        if not isinstance(given, str):
            raise InputError(f"preconditioner is {described(given)}; give one of {PRECONDITIONERS} or a function of r")
        raise InputError(unknown("preconditioner", given, list(PRECONDITIONERS)))

    def stored_in(held_in: ValueFormat, matrix: Matrix = system.matrix) -> LinearOperator:
        return _operator(matrix, held_in, engine, layout)

    def block_diagonal(starts: Any, columns: Any, values: Any, held_in: ValueFormat) -> LinearOperator:
        return stored_in(held_in, Matrix(system.size, system.size, starts, columns, values))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if given == "jacobi":
            return Jacobi(system, task.exact, storage)
        if given == "block_jacobi":
            return BlockJacobi(system, block_diagonal, block, storage)
        if storage is None or system.matrix.values is None:
            return Chebyshev(task, system)
        return Chebyshev(task, system, rounded=partial(stored_in, storage))
