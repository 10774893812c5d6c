"""Systems that make solvers lie: any size, condition, sign, scale and symmetry, by a seed; and an exact judge."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse

KINDS = (
    "spd", "indefinite", "singular", "nonsymmetric", "nearly symmetric", "badly scaled", "dominant", "graded", "graph",
    "skew", "zero diagonal", "laplacian",
)  # fmt: skip


class Fuzzed(NamedTuple):
    """A system, what it is called, and the tolerance that is asked for."""

    kind: str
    A: scipy.sparse.csr_array
    b: np.ndarray
    tol: float


def fuzzed(seed: int, largest: int = 2000) -> Fuzzed:
    """Return a system; sizes are spread evenly over their logarithms, conditions reach 1e14."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(np.exp(rng.uniform(0.0, math.log(largest))))
    A = _matrix(kind, n, 10.0 ** rng.uniform(0.0, 14.0), rng)
    x = rng.standard_normal(n) * 10.0 ** rng.uniform(-3.0, 3.0, n if seed % 3 == 0 else 1)
    b = A @ x if seed % 2 else rng.standard_normal(n) * 10.0 ** rng.uniform(-200.0, 200.0)
    if seed % 29 == 0:
        b = np.zeros(n)
    return Fuzzed(kind, scipy.sparse.csr_array(A), b, 10.0 ** rng.uniform(-13.0, -3.0))


def _matrix(kind: str, n: int, condition: float, rng: np.random.Generator) -> scipy.sparse.csr_array:
    values = np.geomspace(1.0, 1.0 / condition, n)
    if kind == "laplacian":
        return scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    if kind == "graph":
        links = scipy.sparse.random_array((n, n), density=min(1.0, 4.0 / n), rng=rng)
        return scipy.sparse.csr_array(scipy.sparse.eye_array(n) - 0.85 * links.T)
    if kind == "dominant":
        beside = scipy.sparse.random_array((n, n), density=min(1.0, 4.0 / n), rng=rng)
        return scipy.sparse.csr_array(scipy.sparse.diags_array(2.5 * beside.sum(axis=1) + 0.1) + beside)
    if kind == "skew":
        upper = scipy.sparse.random_array((n, n), density=min(1.0, 3.0 / n), rng=rng)
        return scipy.sparse.csr_array(upper - upper.T + 1e-8 * scipy.sparse.eye_array(n))
    A = _rotated(values * (rng.choice([-1.0, 1.0], n) if kind == "indefinite" else 1.0), rng)
    if kind == "singular":
        A = _rotated(np.where(np.arange(n) < max(1, n // 10), 0.0, values), rng)
    if kind == "nonsymmetric":
        A = A + scipy.sparse.random_array((n, n), density=min(1.0, 2.0 / n), rng=rng)
    if kind == "nearly symmetric":
        A = A + 1e-9 * scipy.sparse.random_array((n, n), density=min(1.0, 2.0 / n), rng=rng)
    if kind in ("badly scaled", "graded"):
        scale = 10.0 ** rng.uniform(-6.0, 6.0, n)
        D = scipy.sparse.diags_array(scale)
        A = D @ A @ (D if kind == "badly scaled" else scipy.sparse.eye_array(n))
    if kind == "zero diagonal":
        A = A - scipy.sparse.diags_array(A.diagonal())
    return scipy.sparse.csr_array(A)


def _rotated(values: np.ndarray, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Return a sparse symmetric matrix with these eigenvalues: Givens rotations of neighbours, and a permutation."""
    n = len(values)
    A = scipy.sparse.csr_array(scipy.sparse.diags_array(rng.permutation(values)))
    for begin in (0, 1, 0):
        angles = rng.uniform(0.0, 2.0 * np.pi, n)
        cosines, sines = np.ones(n), np.zeros(n)
        firsts = np.arange(begin, n - 1, 2)
        cosines[firsts] = cosines[firsts + 1] = np.cos(angles[firsts])
        sines[firsts] = np.sin(angles[firsts])
        G = scipy.sparse.diags_array([cosines, sines[: n - 1], -sines[: n - 1]], offsets=[0, 1, -1])
        A = (G @ A @ G.T).tocsr()
    upper = scipy.sparse.triu(A, 1)
    return scipy.sparse.csr_array(upper + upper.T + scipy.sparse.diags_array(A.diagonal()))


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
