"""Exact symmetry is found without a transpose, and as the transpose tells."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from cpms.base import threads
from cpms.problems import linear_system, symmetry
from cpms.problems.linear_system import LinearSystem
from cpms.problems.symmetry import equals_transpose
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from(["even", "moved", "changed", "any"]))
def test_it_is_what_the_transpose_says(size, seed, kind):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((size, size)) < 0.3, rng.integers(-2, 3, (size, size)), 0).astype(float)
    if kind != "any":
        dense += dense.T
    row, column = rng.integers(0, size, 2)
    if kind == "moved":
        dense[row], dense[column] = dense[column].copy(), dense[row].copy()
    if kind == "changed":
        dense[row, column] += 1.0
    assert equals_transpose(Matrix.from_dense(dense)) == bool((dense == dense.T).all())


def test_explicit_zeros_and_patterns_count_as_entries():
    lone = scipy.sparse.csr_array((np.array([0.0, 1.0]), np.array([1, 1]), np.array([0, 1, 2])), shape=(2, 2))
    assert not equals_transpose(Matrix.from_scipy(lone))
    assert equals_transpose(Matrix.from_triplets([0, 1], [1, 0]))
    assert not equals_transpose(Matrix.from_triplets([1], [0], shape=(2, 2)))


@pytest.mark.parametrize("entry", [(0, 1), (17_000, 17_001), (39_998, 39_999)])
def test_one_entry_of_any_part_of_threads_decides(entry):
    size = 40_000
    even = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size)).tocsr()
    for turned in (entry, entry[::-1]):
        odd = even.copy()
        odd[turned] = -1.5
        for count in (1, 2):
            with threads.limited(count):
                assert equals_transpose(Matrix.from_scipy(even))
                assert not equals_transpose(Matrix.from_scipy(odd))


def test_large_symmetric_matrices_are_not_transposed(monkeypatch):
    monkeypatch.setattr(linear_system, "_MANY", 1)
    matrix = Matrix.from_scipy(stencil(5, 16))
    monkeypatch.setattr(Matrix, "to_scipy", None)
    system = LinearSystem(matrix)
    assert system.is_symmetric
    assert system._across is matrix.values


def test_facts_of_a_matrix_do_not_depend_on_its_size(monkeypatch):
    upwind = stencil(5, 8).tolil()
    upwind[3, 4] *= 1.5
    for given_matrix in (stencil(5, 8), upwind.tocsr()):
        matrix = Matrix.from_scipy(given_matrix)
        found = []
        for many in (1, 1 << 30):
            monkeypatch.setattr(linear_system, "_MANY", many)
            system = LinearSystem(matrix)
            found.append((system.is_symmetric, system.asymmetry, system.jacobi_rate, system.is_symmetrizable))
        assert found[0] == found[1]


def test_a_small_system_compiles_no_search(monkeypatch):
    monkeypatch.setattr(symmetry, "_balance", None)
    assert LinearSystem(Matrix.from_scipy(stencil(5, 16))).is_symmetric
