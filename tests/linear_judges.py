"""Judges of solutions that share no code with cpms: fractions without any rounding, and long double."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cpms.sources.fuzzed_systems import Fuzzed


def is_within(system: Fuzzed, x: np.ndarray, tol: float | None = None) -> bool:
    """Return whether ||b - A x||_2 <= tol ||b||_2, without any rounding: in Python's fractions."""
    if not np.isfinite(x).all():
        return False
    A, b = system.A, [Fraction(v) for v in system.b.tolist()]
    values, columns, at = A.data.tolist(), A.indices.tolist(), [Fraction(v) for v in x.tolist()]
    square = Fraction(0)
    for row in range(A.shape[0]):
        terms = (Fraction(values[k]) * at[columns[k]] for k in range(int(A.indptr[row]), int(A.indptr[row + 1])))
        square += (b[row] - sum(terms, Fraction(0))) ** 2
    limit = Fraction(system.tol if tol is None else tol)
    return square <= limit * limit * sum((v * v for v in b), Fraction(0))


def relative_residual(system: Fuzzed, x: np.ndarray) -> float:
    """Return ||b - A x||_2 / ||b||_2 in long double, whose sums have 11 bits more: enough to judge all but ties."""
    A = system.A
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        products = A.data.astype(np.longdouble) * wide[A.indices]
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        sums = np.zeros(A.shape[0], np.longdouble)
        np.add.at(sums, rows, products)
        r, b = system.b.astype(np.longdouble) - sums, system.b.astype(np.longdouble)
        size = np.sqrt((b * b).sum())
        return float(np.sqrt((r * r).sum()) / size) if size > 0 else float(np.abs(r).max(initial=0))
