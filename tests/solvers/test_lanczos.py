"""The smallest eigenvalue from coefficients of conjugate gradients, in whatever bits their vectors were."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms.solvers.linear.lanczos import smallest_eigenvalue

N = 60
A = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(N, N))
LEAST = 4.0 * np.sin(np.pi / 2 / (N + 1)) ** 2


@pytest.mark.parametrize("vectors", ["fp64", "fp32", "bfp16"])
def test_a_solve_estimates_the_eigenvalue_and_the_error(vectors):
    b = np.random.default_rng(0).standard_normal(N)
    found = cpms.solve(A, b, method="cg", vectors=vectors, engine="cpu")
    assert found.certificate.estimated_eigenvalue == pytest.approx(LEAST, rel=1e-3)
    error = np.linalg.norm(found.x - np.linalg.solve(A.toarray(), b))
    assert error <= found.error_estimate
    assert found.error_bound is None


@pytest.mark.parametrize(("preconditioner", "storage"), [("jacobi", "fp64"), ("jacobi", "bf16"), ("block_jacobi", "")])
def test_preconditioned_solves_estimate_from_below(preconditioner, storage):
    options = {"preconditioner": preconditioner, "preconditioner_storage": storage or "fp64"}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        scale = scipy.sparse.diags_array(10.0 ** rng.uniform(-1.0, 1.0, N))
        scaled = scale @ A @ scale
        b = rng.standard_normal(N)
        found = cpms.solve(scaled, b, method="cg", engine="cpu", tol=1e-9, **options)
        dense = scaled.toarray()
        eigenvalue = np.linalg.eigvalsh(dense)[0]
        assert 1e-3 * eigenvalue <= found.certificate.estimated_eigenvalue <= 1.001 * eigenvalue
        assert np.linalg.norm(found.x - np.linalg.solve(dense, b)) <= found.error_estimate
    unscaled = cpms.solve(1e4 * A, b, method="cg", engine="cpu", block=7, **options)
    assert 0.1 * 1e4 * LEAST <= unscaled.certificate.estimated_eigenvalue <= 1.001 * 1e4 * LEAST


@pytest.mark.parametrize("vectors", ["fp64", "fp32", "bfp16"])
def test_iterations_beyond_the_dimension_spoil_no_estimate(vectors):
    ratios = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 9))
        half = rng.standard_normal((size, size))
        dense = half @ half.T + 10.0 ** rng.uniform(-2.0, 0.0) * np.eye(size)
        found = cpms.solve(dense, rng.standard_normal(size), method="cg", vectors=vectors, engine="cpu")
        ratios.append(found.certificate.estimated_eigenvalue / np.linalg.eigvalsh(dense)[0])
    assert max(ratios) <= 1.001
    assert min(ratios) >= 0.3


def test_there_is_no_estimate_of_others():
    b = np.ones(N)
    assert cpms.solve(A, b, method="gmres", engine="cpu").error_estimate is None
    assert cpms.solve(A, b, method="cg", preconditioner="chebyshev", engine="cpu").error_estimate is None
    assert cpms.solve(A, b, method="cg", max_iterations=3, engine="cpu").error_estimate is None
    assert smallest_eigenvalue([(1.0, 1.0)]) is None
    assert smallest_eigenvalue([(1.0, 2.0), (0.5, -1.0), (1.0, 1.0)]) is None


@pytest.mark.parametrize(
    "steps",
    [
        [(1e-212, 1e184), (1e82, 1e245)],
        [(1e56, 1e281), (1e132, 1e72), (1e17, 1e27)],
        [(1e-163, 1e-121), (1e126, 1e48), (1e-8, 1e-111)],
    ],
)
def test_there_is_no_estimate_where_float64_has_no_room(steps):
    assert smallest_eigenvalue(steps) is None
