"""Random systems on which solvers report false convergence: any size, condition, sign, scale and symmetry, by a seed.

Symmetric matrices have known eigenvalues and are rotated by Givens rotations, so that they stay sparse. The experiment
on honesty and the tests of `cpms.solve` draw on them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from cpms.base.types import Floats

KINDS = (
    "spd", "indefinite", "singular", "nonsymmetric", "nearly symmetric", "badly scaled", "dominant", "graded", "graph",
    "skew", "zero diagonal", "laplacian",
)  # fmt: skip


class Fuzzed(NamedTuple):
    """A system, what it is called, and the tolerance that is asked for."""

    kind: str
    A: Any
    b: Floats
    tol: float


def fuzzed(seed: int, largest: int = 2000) -> Fuzzed:
    """Return a system; sizes are spread evenly over their logarithms, conditions reach 1e14.

    Examples
    --------
    >>> fuzzed(3).kind, fuzzed(3).A.shape == fuzzed(3).A.shape
    ('nonsymmetric', True)
    """
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(np.exp(rng.uniform(0.0, math.log(largest))))
    A = _matrix(kind, n, 10.0 ** rng.uniform(0.0, 14.0), rng)
    x = rng.standard_normal(n) * 10.0 ** rng.uniform(-3.0, 3.0, n if seed % 3 == 0 else 1)
    b = A @ x if seed % 2 else rng.standard_normal(n) * 10.0 ** rng.uniform(-200.0, 200.0)
    if seed % 29 == 0:
        b = np.zeros(n)
    return Fuzzed(kind, scipy.sparse.csr_array(A), b, 10.0 ** rng.uniform(-13.0, -3.0))


def _matrix(kind: str, n: int, condition: float, rng: np.random.Generator) -> Any:
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


def _rotated(values: Floats, rng: np.random.Generator) -> Any:
    """Return a sparse symmetric matrix with these eigenvalues: Givens rotations of neighbours, and a permutation."""
    n = len(values)
    A: Any = scipy.sparse.csr_array(scipy.sparse.diags_array(rng.permutation(values)))
    for begin in (0, 1, 0):
        angles = rng.uniform(0.0, 2.0 * np.pi, n)
        cosines, sines = np.ones(n), np.zeros(n)
        firsts = np.arange(begin, n - 1, 2)
        cosines[firsts] = cosines[firsts + 1] = np.cos(angles[firsts])
        sines[firsts] = np.sin(angles[firsts])
        bands: Any = [cosines, sines[: n - 1], -sines[: n - 1]]
        G: Any = scipy.sparse.diags_array(bands, offsets=[0, 1, -1])
        A = (G @ A @ G.T).tocsr()
    upper = scipy.sparse.triu(A, 1)
    return scipy.sparse.csr_array(upper + upper.T + scipy.sparse.diags_array(A.diagonal()))
