"""Laws of products with a stored matrix, and of the vector operations of its operator.

Each law takes a `cpms.StoredMatrix`. Products are compared with exact ones of the matrix as it was given, in Python's
fractions. The error by storage, levels and compute precision must be within the bound that the operator states.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from cpms.api.matrix import StoredMatrix
from cpms.api.product_engines import prepare
from cpms.base.types import Floats
from cpms.check.format_laws import LawError
from cpms.contracts.linear_operator import UNIT_ROUNDOFF, Bound, Epilogue, array_error
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import CodeFormat, VectorFormat
from cpms.formats.magnitude import MagnitudeSplit
from cpms.sparse.matrix import Matrix
from cpms.storage.device import to_host

_ALPHA, _BETA, _FACTOR = 1.5, -0.25, 2.0


def products_are_within_their_bound(A: StoredMatrix) -> None:
    """Check products with A and its transpose against exact ones, at each level, of one vector and of a block.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.products_are_within_their_bound(cpms.matrix([[0.1, 0.0], [-3.0, 0.7]], storage="cpms4"))
    """
    for transpose, source in ((False, A.source), (True, A.source.transposed())):
        block = _vectors(source.columns)
        for read in _levels(A):
            multiply = A.rmatvec if transpose else A.matvec
            together = (A.rmatmat if transpose else A.matmat)(block, read=read)
            for j, x in enumerate(block.T):
                bound = A.operator.error_bound(read_matrix=read, transpose=transpose)
                for found in (multiply(np.ascontiguousarray(x), read=read), together[:, j]):
                    _require_within(A, source, x, found, read, bound)
        stored = None if _of_vectors(A) is None else _encoded(A, block[:, 0])
        if stored is not None:
            for read_x in range(1, stored.format.segments + 1):
                found = np.asarray(to_host((A.rmatvec if transpose else A.matvec)(stored, read_x=read_x)))
                x = to_host(A.operator.convert(stored, None, read_x))
                _require_within(A, source, x, found, None, A.operator.error_bound(transpose=transpose))


def products_agree(A: StoredMatrix) -> None:
    """Check alpha, beta, and the sum and dot product of an epilogue against the reference engine.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.products_agree(cpms.matrix([[0.1, 0.0], [-3.0, 0.7]], storage="cpms2", layout="sell"))
    """
    reference, there = prepare("reference", A.source, A.operator.request), A.operator.to_memory
    rows, columns = A.shape
    x, before, add, dot = _vectors(columns)[:, 0], *(_vectors(rows)[:, j].copy() for j in range(3))
    for read in _levels(A):
        expected = before.copy()
        options: dict[str, Any] = {"alpha": _ALPHA, "beta": _BETA, "read_matrix": read}
        right = reference.apply(x, expected, **options, epilogue=Epilogue(add, _FACTOR, dot))
        out = there(before)
        got = A.operator.apply(there(x), out, **options, epilogue=Epilogue(there(add), _FACTOR, there(dot)))
        found = to_host(out)
        sizes = _ALPHA * _exact_sizes(A.source, x) + abs(_BETA) * np.abs(before) + _FACTOR * np.abs(add)
        allowed = (A.source.longest + 8) * 2.0 * UNIT_ROUNDOFF[A.compute] * sizes
        _require(A, read, "alpha A x + beta y + factor z", found, expected, allowed)
        if right is None or got is None or not abs(got - right) <= float(allowed @ np.abs(dot)) + 1e-13 * abs(right):
            raise LawError(f"{_name(A, read)}: the epilogue's dot product is {got!r}, not {right!r}")


def transposed_products_are_adjoint(A: StoredMatrix) -> None:
    """Check that y . (A x) equals (A' y) . x at each level, up to the rounding errors of both.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.transposed_products_are_adjoint(cpms.matrix([[0.1, 0.0], [-3.0, 0.7]], storage="cpms4"))
    """
    x, y = _vectors(A.shape[1])[:, 0], _vectors(A.shape[0])[:, 1].copy()
    size = float(np.abs(y) @ _exact_sizes(A.source, x))
    for read in _levels(A):
        forward, backward = float(y @ A.matvec(x, read=read)), float(A.rmatvec(y, read=read) @ x)
        steps = A.source.longest + A.source.transposed().longest + max(A.shape) + 16
        allowed = 4.0 * steps * UNIT_ROUNDOFF[A.compute] * size
        shares = isinstance(A.storage, BlockFloatFormat) or getattr(A.storage, "group", 1) > 1
        if A.operator.request.scaling == "rows" or shares:
            # Values that share a scale in A have other neighbours in the transpose, where they may keep other digits.
            touched = float(np.abs(y) @ _exact_sizes(replace(A.source, values=None), x))
            bounds = (A.operator.error_bound(read_matrix=read, transpose=transpose) for transpose in (False, True))
            allowed += sum(bound.absolute for bound in bounds) * touched
        if not abs(forward - backward) <= allowed:
            raise LawError(f"{_name(A, read)}: y . (A x) is {forward!r}, but (A' y) . x is {backward!r}")


def products_improve_with_levels(A: StoredMatrix) -> None:
    """Check that a product that reads more segments is no farther from the exact one.

    It is checked for A and x without negative entries. Reads truncate values, so each product is at most the next one,
    except for rounding errors. For other matrices there is nothing to check.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.products_improve_with_levels(cpms.matrix([[0.1, 0.0], [3.0, 0.7]], storage="cpms2"))
    """
    if A.storage is None or A.storage.segments == 1 or (A.source.given_values() < 0).any():
        return
    x = np.abs(_vectors(A.shape[1])[:, 0])
    exact = _exact_sizes(A.source, x)
    allowed = 2.0 * (A.source.longest + 8) * UNIT_ROUNDOFF[A.compute] * exact
    before = np.zeros(A.shape[0])
    for read in _levels(A):
        found = to_host(A.matvec(x, read=read))
        worse = np.flatnonzero(~((found >= before - allowed) & (found <= exact + allowed)))
        if len(worse):
            row = int(worse[0])
            raise LawError(
                f"{_name(A, read)}: row {row} is {float(found[row])!r}, farther from the exact {float(exact[row])!r} "
                f"than {float(before[row])!r} with a segment less"
            )
        before = found


def products_are_linear(A: StoredMatrix) -> None:
    """Check that A (x + 2 z) is A x + 2 A z up to rounding, and that A (8 x) is 8 A x to the last bit.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.products_are_linear(cpms.matrix([[0.1, 0.0], [-3.0, 0.7]], storage="fp32"))
    """
    x, z = _vectors(A.shape[1])[:, 0].copy(), _vectors(A.shape[1])[:, 1].copy()
    sizes = _exact_sizes(A.source, x) + 2.0 * _exact_sizes(A.source, z)
    for read in _levels(A):
        of_x, of_z = to_host(A.matvec(x, read=read)), to_host(A.matvec(z, read=read))
        together = to_host(A.matvec(x + 2.0 * z, read=read))
        allowed = 4.0 * (A.source.longest + 8) * UNIT_ROUNDOFF[A.compute] * sizes
        _require(A, read, "A (x + 2 z)", together, of_x + 2.0 * of_z, allowed)
        _require(A, read, "A (8 x)", to_host(A.matvec(8.0 * x, read=read)), 8.0 * of_x, np.zeros(A.shape[0]))


def vector_operations_agree(A: StoredMatrix, length: int = 300) -> None:
    """Check dots, combinations, updates, scaling and conversion of an operator's vectors against the reference.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.vector_operations_agree(cpms.matrix([[1.0]], storage="cpms4"))
    """
    reference, there = prepare("reference", A.source, A.operator.request), A.operator.to_memory
    storage = _of_vectors(A)
    given, w = _vectors(length)[:, :2], _vectors(length)[:, 2].copy()
    V = [there(v) for v in given.T] if storage is None else [_encoded(A, v) for v in given.T]
    levels = [None, None] if storage is None else [1, storage.segments]
    seen = [to_host(A.operator.convert(v, None, k)) for v, k in zip(V, levels, strict=True)]
    sizes = np.array([np.abs(v) @ np.abs(w) for v in seen])
    unit = length * UNIT_ROUNDOFF["fp64"]
    alone, block = to_host(A.operator.dots(V, there(w), levels)), A.operator.block()
    _require(A, None, "dots", alone, reference.dots(seen, w), unit * sizes)
    for v, level in zip(V, levels, strict=True):
        for _ in range(10):
            block.add(v, level)
    of_block = to_host(A.operator.dots(block, there(w), block.levels))
    _require(A, None, "dots of a block", of_block, np.repeat(alone, 10), np.zeros(20))
    ours, theirs = there(w), w.copy()
    A.operator.combine(V, [0.5, -3.0], ours, levels)
    reference.combine(seen, [0.5, -3.0], theirs)
    size = np.abs(w) + 0.5 * np.abs(seen[0]) + 3.0 * np.abs(seen[1])
    _require(A, None, "combine", to_host(ours), theirs, 4.0 * UNIT_ROUNDOFF["fp64"] * size)
    for norm in ("l1", "l2", "linf"):
        found, expected = (o.update_and_norm(y, -0.5, v, norm) for o, y, v in
                           ((A.operator, ours, there(seen[1])), (reference, theirs, seen[1])))  # fmt: skip
        if not abs(found - expected) <= 4.0 * unit * abs(expected) + 8.0 * UNIT_ROUNDOFF["fp64"] * float(size.sum()):
            raise LawError(f"{_name(A, None)}: update_and_norm finds {found!r} in {norm}, not {expected!r}")
    A.operator.scale(ours, 4.0)
    reference.scale(theirs, 4.0)
    _require(A, None, "scale", to_host(ours), theirs, 32.0 * UNIT_ROUNDOFF["fp64"] * size)
    if storage is not None:
        back = A.operator.convert(A.operator.convert(there(w), storage), None)
        error = array_error(_encoded(A, w), None)
        _require(A, None, "convert", to_host(back), w, error.relative * np.abs(w) + error.absolute)


PRODUCT_LAWS = (
    products_are_within_their_bound,
    products_agree,
    transposed_products_are_adjoint,
    products_improve_with_levels,
    products_are_linear,
    vector_operations_agree,
)
"""Laws of every matrix that `cpms.matrix` returns."""


def _levels(A: StoredMatrix) -> list[int | None]:
    return [None] if A.storage is None else list(range(1, A.storage.segments + 1))


def _of_vectors(A: StoredMatrix) -> VectorFormat | None:
    """Return the format of the matrix if vectors can be stored in it, else None."""
    return None if A.storage is None or isinstance(A.storage, CodeFormat | MagnitudeSplit) else A.storage


def _vectors(length: int) -> Floats:
    """Return three random vectors with entries of both signs and some zeros, shape (length, 3)."""
    random = np.random.default_rng(length)
    vectors = random.standard_normal((length, 3))
    vectors[random.random((length, 3)) < 0.1] = 0.0
    return vectors


def _encoded(A: StoredMatrix, values: Floats) -> Any:
    storage = _of_vectors(A)
    assert storage is not None  # noqa: S101  # Callers know.
    return A.operator.convert(A.operator.to_memory(values), storage)


def _exact(source: Matrix, x: Floats, *, sizes: bool = False) -> list[Fraction]:
    values, columns = source.given_values().tolist(), source.indices.tolist()
    factors = [Fraction(v) for v in x.tolist()]
    found = []
    for row in range(source.rows):
        places = range(int(source.indptr[row]), int(source.indptr[row + 1]))
        terms = [Fraction(values[k]) * factors[columns[k]] for k in places]
        found.append(sum((abs(term) if sizes else term for term in terms), Fraction(0)))
    return found


def _exact_sizes(source: Matrix, x: Floats) -> Floats:
    return np.array([float(size) for size in _exact(source, x, sizes=True)])


def _require_within(A: StoredMatrix, source: Matrix, x: Floats, found: Any, read: int | None, bound: Bound) -> None:
    relative, absolute = bound
    columns = source.indices.tolist()
    exact, sizes = _exact(source, x), _exact(source, x, sizes=True)
    got = to_host(found).tolist()
    for row in range(source.rows):
        touched = sum(abs(x[columns[k]]) for k in range(int(source.indptr[row]), int(source.indptr[row + 1])))
        allowed = Fraction(relative) * sizes[row] + Fraction(absolute) * Fraction(float(touched))
        if not abs(Fraction(got[row]) - exact[row]) <= allowed:
            raise LawError(
                f"{_name(A, read)}: row {row} of a product is {got[row]!r}, and the exact one {float(exact[row])!r}; "
                f"they may differ by {float(allowed):.3g}"
            )


def _require(A: StoredMatrix, read: int | None, what: str, found: Floats, expected: Floats, allowed: Floats) -> None:
    wrong = np.flatnonzero(~(np.abs(found - expected) <= allowed))
    if len(wrong):
        at = int(wrong[0])
        raise LawError(f"{_name(A, read)}: {what} is {float(found[at])!r} at {at}, not {float(expected[at])!r}")


def _name(A: StoredMatrix, read: int | None) -> str:
    storage = "pattern" if A.storage is None else A.storage.name
    level = "" if read is None else f", {read} segments"
    return f"engine {A.engine}, {storage} in {A.layout}, computed in {A.compute}{level}"
