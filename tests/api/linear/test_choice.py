"""What ``auto`` chooses for a system, by facts of its matrix alone."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms.api.given_matrix import given_matrix
from cpms.api.linear.choice import BLOCKS, chosen
from cpms.formats.formats import FP32
from cpms.problems.linear_system import LinearSystem
from cpms.sources import matrices
from cpms.sources.matrices.stencils import recirculation
from cpms.sparse.matrix import Matrix


def of_lengths(lengths):
    """Return a system whose rows have so many entries, the diagonal first."""
    n = len(lengths)
    rows = np.repeat(np.arange(n), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return LinearSystem(Matrix.from_triplets(rows, (rows + places) % n, 1.0 + places, shape=(n, n)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("few", [1, 4, 20])
def test_slices_are_for_rows_of_like_lengths(seed, few):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, few + 1, 3000)
    even = chosen(of_lengths(lengths), "auto", "auto", "auto", "cuda")
    assert even.layout == "sell"
    lengths[rng.integers(3000)] = 40 * few
    system = of_lengths(lengths)
    uneven = chosen(system, "auto", "auto", "auto", "cuda")
    assert uneven.layout == "csr"
    assert f"csr: the longest row has {40 * few} entries" in uneven.reason
    assert chosen(system, "auto", "auto", "auto", "cuda", "sell").layout == "sell"
    assert "csr" not in chosen(system, "auto", "auto", "auto", "cpu").reason


def test_graphs_of_powers_are_not_sliced():
    degrees = np.minimum(np.random.default_rng(1).zipf(1.8, 20_000), 5000)
    assert chosen(of_lengths(degrees), "jacobi", "fp64", "fp64", "cuda").layout == "csr"


@pytest.mark.parametrize("seed", range(4))
def test_what_a_diagonal_similarity_makes_symmetric_is_found(seed):
    rng = np.random.default_rng(seed)
    half = scipy.sparse.random_array((90, 90), density=0.02, rng=rng, data_sampler=rng.standard_normal)
    symmetric = half + half.T + scipy.sparse.diags_array(np.full(90, 20.0))
    scale = 10.0 ** rng.uniform(-8.0, 8.0, 90)
    similar = (scipy.sparse.diags_array(scale) @ symmetric @ scipy.sparse.diags_array(1.0 / scale)).tocsr()
    assert LinearSystem(given_matrix(similar, None)).is_symmetrizable
    rows, columns = similar.nonzero()
    cycle = next(k for k in np.flatnonzero(rows != columns) if not _is_bridge(similar, rows[k], columns[k]))
    similar[rows[cycle], columns[cycle]] *= 1.0001
    assert not LinearSystem(given_matrix(similar, None)).is_symmetrizable


def _is_bridge(matrix, row, column):
    without = matrix.tolil()
    without[row, column] = without[column, row] = 0.0
    without = without.tocsr()
    without.eliminate_zeros()
    count = scipy.sparse.csgraph.connected_components
    return count(without)[0] > count(matrix)[0]


def test_a_basis_has_the_bits_that_are_fastest_where_it_lies():
    system = LinearSystem(Matrix.from_dense([[1.0, 5.0], [-4.0, 1.0]]))
    found = {engine: chosen(system, "gmres", "auto", "auto", engine) for engine in ("reference", "cpu", "cuda")}
    vectors = {engine: each.vectors for engine, each in found.items()}
    assert vectors == {"reference": (None,), "cpu": (FP32,), "cuda": BLOCKS}
    assert "basis in fp32, the fastest on processors" in found["cpu"].reason
    assert "processors" not in found["cuda"].reason
    assert chosen(system, "gmres", "auto", "blocks", "cpu").vectors == BLOCKS


def test_a_basis_in_fp32_solves_below_its_own_precision():
    swirl = matrices.generate("recirculation:side=20,peclet=2.0")
    b = np.random.default_rng(2).standard_normal(400)
    auto, whole = (
        cpms.solve(swirl, b, tol=1e-13, method="gmres", vectors=vectors, engine="cpu") for vectors in ("auto", "fp64")
    )
    assert auto.converged
    assert set(auto.iterations_by_bits) == {32}
    assert auto.iterations <= 2 * whole.iterations


def test_convection_is_solved_by_chebyshev_and_recirculation_by_gmres():
    upwind = matrices.generate("convection:side=20,dimensions=2,peclet=1.0")
    b = np.random.default_rng(1).standard_normal(400)
    found = cpms.solve(upwind, b, engine="cpu")
    assert found.converged
    assert (found.method, "gmres continued" in found.reason) == ("chebyshev", False)
    assert found.bytes_read < 0.5 * cpms.solve(upwind, b, engine="cpu", method="gmres").bytes_read
    swirl = cpms.solve(matrices.generate("recirculation:side=12,peclet=5.0"), np.ones(144), engine="cpu")
    assert (swirl.method, swirl.converged) == ("gmres", True)


def swirled_chain(size, swirl):
    """Return a chain with a random skew part of small size, which its least eigenvalues do not bear."""
    rng = np.random.default_rng(2)
    beside = scipy.sparse.random_array((size, size), density=2.0 / size, rng=rng, data_sampler=rng.standard_normal)
    chain = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
    return scipy.sparse.csr_array(chain + swirl * (beside - beside.T))


def test_conjugate_gradients_are_tried_on_a_nearly_symmetric_matrix():
    A = recirculation(side=20, peclet=1.0)
    b = np.random.default_rng(1).standard_normal(A.shape[0])
    found = cpms.solve(A, b, engine="cpu")
    assert (found.converged, found.method) == (True, "cg")
    assert "cg on trial: A is nearly symmetric" in found.reason
    assert "gmres" not in found.reason
    # Lanczos' estimate is of symmetric matrices.
    assert found.certificate.estimated_eigenvalue is None


def test_a_trial_ends_early_where_its_iterations_would_not_suffice():
    A = recirculation(side=24, peclet=1.5)
    b = np.random.default_rng(1).standard_normal(A.shape[0])
    whole = cpms.solve(A, b, engine="cpu")
    assert (whole.converged, "gmres" in whole.reason) == (True, False)
    found = cpms.solve(A, b, engine="cpu", max_iterations=int(0.8 * whole.iterations))
    assert (found.converged, "gmres continued" in found.reason) == (True, True)


def test_a_trial_has_an_end_where_its_goal_rounds_to_0():
    b = np.zeros(400)
    b[3] = 1.0
    found = cpms.solve(recirculation(side=20, peclet=1.0), b, engine="cpu", tol=5e-324, max_iterations=1500)
    assert found.status is cpms.SolveStatus.STAGNATED
    assert found.certificate.relative < 1e-12


@pytest.mark.parametrize("swirl", [0.05, 0.2])
def test_gmres_goes_on_where_a_trial_fails(swirl):
    A = swirled_chain(300, swirl)
    assert 0.0 < LinearSystem(Matrix.from_scipy(A)).asymmetry <= 0.2
    b = np.random.default_rng(1).standard_normal(300)
    found = cpms.solve(A, b, engine="cpu")
    assert found.converged
    assert "gmres continued" in found.reason
    assert set(found.iterations_by_bits) == {32}  # GMRES has the basis that auto chooses for it.
    few = cpms.solve(A, b, engine="cpu", max_iterations=40)
    assert few.iterations == 40
    assert few.status is cpms.SolveStatus.MAX_ITERATIONS
    assert "gmres" not in few.reason


def test_refine_tries_no_conjugate_gradients():
    A = swirled_chain(300, 0.05)
    found = cpms.solve(A, np.random.default_rng(1).standard_normal(300), engine="cpu", method="refine")
    assert (found.converged, found.method) == (True, "refine with gmres")


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10**6), st.booleans())
def test_facts_of_a_matrix_are_those_of_dense_arithmetic(size, seed, aligned):
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, (size, size)).astype(float)
    if aligned:
        A[A.T == 0.0] = 0.0
    system = LinearSystem(Matrix.from_scipy(scipy.sparse.csr_array(A)))
    sizes = np.linalg.norm(A - A.T), np.linalg.norm(A + A.T)
    expected = sizes[0] / sizes[1] if sizes[1] else np.inf
    assert system.asymmetry == pytest.approx(expected, rel=1e-12)
    for scale in (2.0**1022, 2.0**-1074):
        assert LinearSystem(Matrix.from_scipy(scipy.sparse.csr_array(scale * A))).asymmetry == system.asymmetry
    assert system.is_symmetric == np.array_equal(A, A.T)
    if (np.abs(A.diagonal()) > 0).all():
        products = np.sqrt(np.abs(A * A.T) / np.outer(np.abs(A.diagonal()), np.abs(A.diagonal())))
        assert system.jacobi_rate == pytest.approx(max(products.sum(axis=1).max() - 1.0, 0.0), abs=1e-9)


def test_facts_of_a_symmetric_matrix_hold_no_second_one():
    A = matrices.generate("stencil:points=5,side=8")
    system = LinearSystem(Matrix.from_scipy(A))
    assert chosen(system, "auto", "auto", "auto", "cpu").method == "cg"
    held = [each for value in vars(system).values() for each in (value if isinstance(value, tuple) else (value,))]
    arrays = [each for each in held if isinstance(each, np.ndarray) and len(each) >= A.nnz]
    assert all(np.shares_memory(each, system.matrix.values) for each in arrays)
    assert not any(scipy.sparse.issparse(each) for each in held)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 14), st.integers(0, 10**6), st.booleans())
def test_diagonal_similarities_are_found(size, seed, spoilt):
    rng = np.random.default_rng(seed)
    symmetric = rng.integers(-2, 3, (size, size)).astype(float)
    symmetric = symmetric + symmetric.T
    scale = 2.0 ** rng.integers(-8, 9, size)
    A = symmetric * scale[:, None] / scale[None, :]
    cycles = [(i, j, k) for i in range(size) for j in range(i) for k in range(j) if A[i, j] * A[j, k] * A[k, i]]
    if spoilt and cycles:
        A[cycles[0][0], cycles[0][1]] *= 2.0
    found = LinearSystem(Matrix.from_scipy(scipy.sparse.csr_array(A))).is_symmetrizable
    assert found == (not (spoilt and cycles))


@pytest.mark.representatives(preconditioner=("jacobi",), taken=("gmres",))
@pytest.mark.representatives(preconditioner=("block_jacobi",), without=("chebyshev",))
@pytest.mark.representatives(preconditioner=("callable",), without=("cg",))
@pytest.mark.parametrize("preconditioner", ["jacobi", "block_jacobi", "callable"])
@pytest.mark.parametrize(
    ("A", "without", "taken"),
    [
        (scipy.sparse.diags_array([4.0, 2.0], offsets=[0, 1], shape=(300, 300)), "jacobi", "gmres"),
        (matrices.generate("convection:side=12,peclet=2"), "chebyshev", "cg"),
        (matrices.generate("diffusion:side=12,contrast=1e4"), "cg", "cg"),
    ],
)
def test_a_preconditioner_is_applied_by_the_method_that_auto_takes(A, without, taken, preconditioner):
    b = np.ones(A.shape[0])
    preconditioner = (lambda r: 0.25 * r) if preconditioner == "callable" else preconditioner
    assert cpms.Solver(A, engine="cpu").choice.method == without
    found = cpms.solve(A, b, preconditioner=preconditioner, engine="cpu")
    assert found.converged
    assert found.method == taken
    inside = cpms.solve(A, b, method="refine", preconditioner=preconditioner, engine="cpu")
    assert inside.converged
    assert inside.method in ("refine with cg", "refine with gmres")
