"""Diagonals, and what they say of a system, do not depend on the parts of threads."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from cpms.problems import linear_system
from cpms.problems.linear_system import LinearSystem
from cpms.sparse import matrix as sparse_matrix
from cpms.sparse.matrix import Matrix


@given(st.tuples(st.integers(1, 12), st.integers(1, 12)), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 100]))
def test_a_diagonal_is_that_of_the_dense_matrix(shape, seed, rows):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < 0.5, rng.integers(-3, 4, shape), 0).astype(float)
    given_matrix = Matrix.from_dense(dense)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sparse_matrix, "_ROWS", rows)
        assert given_matrix.diagonal().tolist() == np.diag(dense).tolist()
        pattern = Matrix.from_triplets(*np.nonzero(np.ones(shape)), shape=shape)
        assert pattern.diagonal().tolist() == [1.0] * min(shape)


@pytest.mark.parametrize("row", [0, 3, 8])
@pytest.mark.parametrize("value", [-4.0, 0.0, 1e-310, 5.0, 0.5])
@pytest.mark.parametrize("rows", [2, 100])
def test_one_entry_of_any_part_decides(row, value, rows, monkeypatch):
    monkeypatch.setattr(linear_system, "_ROWS", rows)
    monkeypatch.setattr(sparse_matrix, "_ROWS", rows)
    diagonal = np.full(9, 2.0)
    diagonal[row] = value
    system = LinearSystem(Matrix.from_scipy(scipy.sparse.diags_array(diagonal)))
    sizes = np.abs(diagonal)
    with np.errstate(divide="ignore", over="ignore"):
        assert system.has_positive_diagonal == bool((diagonal > 0.0).all())
        assert system.has_inverse_diagonal == bool(np.isfinite(1.0 / diagonal).all())
        assert system.diagonal_spread == sizes.max() / sizes.min()
