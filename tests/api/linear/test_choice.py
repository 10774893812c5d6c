"""What ``auto`` chooses for a system, by facts of its matrix alone."""

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms.api.given_matrix import given_matrix
from cpms.api.linear.choice import BLOCKS, chosen
from cpms.formats.formats import FP32
from cpms.problems.linear_system import LinearSystem
from cpms.sources import matrices
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
    assert (found.method, "gmres went on" in found.reason) == ("chebyshev", False)
    assert found.bytes_read < 0.5 * cpms.solve(upwind, b, engine="cpu", method="gmres").bytes_read
    swirl = cpms.solve(matrices.generate("recirculation:side=12,peclet=2.0"), np.ones(144), engine="cpu")
    assert (swirl.method, swirl.converged) == ("gmres", True)
