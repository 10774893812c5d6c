"""Certificates of linear systems: bounds against exact fractions, norms of any range, backward errors, bad vectors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms import InputError
from cpms.base import threads
from cpms.certify import linear_system as certify
from cpms.problems.linear_system import LinearSystem
from cpms.sparse.matrix import Matrix

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)


def a_system(size, seed, spread):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((size, size)) < 0.6, rng.standard_normal((size, size)), 0.0)
    dense *= 2.0 ** rng.integers(-spread, spread + 1, dense.shape)
    x = rng.standard_normal(size) * 2.0 ** rng.integers(-spread, spread + 1, size)
    # Half of the time nearly a solution, so that all digits cancel.
    b = dense @ x if seed % 2 else rng.standard_normal(size)
    return dense, x, b


def exact_residual(dense, x, b):
    rows = [[Fraction(a) * Fraction(v) for a, v in zip(row, x.tolist(), strict=True)] for row in dense.tolist()]
    return [Fraction(right) - sum(row, Fraction(0)) for right, row in zip(b.tolist(), rows, strict=True)]


@settings(max_examples=60, deadline=None)
@given(sizes, seeds, st.sampled_from([0, 10, 200]))
def test_rows_and_norm_are_within_their_bounds(size, seed, spread):
    dense, x, b = a_system(size, seed, spread)
    system = LinearSystem(Matrix.from_dense(dense))
    found, exact = certify.residual(system, b, x), exact_residual(dense, x, b)
    for value, bound, true in zip(found.values.tolist(), found.bounds.tolist(), exact, strict=True):
        assert abs(Fraction(value) - true) <= Fraction(bound)
    certificate = certify.certificate(system, b, x)
    square = sum((r * r for r in exact), Fraction(0))
    assert Fraction(certificate.bound) ** 2 >= square
    assert (
        certificate.bound <= float(square) ** 0.5 + 2.0 * certificate.roundoff + 4e-14 * certificate.residual + 1e-300
    )
    assert certificate.roundoff <= 4e-15 * certificate.residual + 4e-30 * certify.norm(found.sizes) + 1e-300


def test_residuals_have_twice_the_digits_of_float64():
    system = LinearSystem(Matrix.from_dense([[0.1, 1e17], [1e17, 0.1]]))
    x = np.array([1.0, 1.0])
    found = certify.residual(system, np.array([1e17, 1e17]), x).values
    assert found.tolist() == [-0.1, -0.1]
    assert (np.array([1e17, 1e17]) - system.matrix.to_scipy() @ x).tolist() == [0.0, 0.0]


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_norms_are_near_the_exact_ones(values):
    found = Fraction(certify.norm(np.array(values)))
    square = sum((Fraction(v) ** 2 for v in values), Fraction(0))
    slack = 1 + Fraction(1, 2**48)
    tiny = Fraction(1, 2**1073)
    assert ((found - tiny) / slack) ** 2 <= square or found <= tiny
    assert square <= ((found + tiny) * slack) ** 2


def test_backward_errors_are_those_of_the_definitions():
    dense = np.array([[4.0, -1.0], [2.0, 5.0]])
    x, b = np.array([1.0, 2.0]), np.array([2.5, 12.0])
    found = certify.certificate(LinearSystem(Matrix.from_dense(dense)), b, x)
    r = b - dense @ x
    scale = np.linalg.norm(dense) * np.linalg.norm(x) + np.linalg.norm(b)
    np.testing.assert_allclose(found.normwise_backward_error, np.linalg.norm(r) / scale, rtol=1e-12)
    largest = (np.abs(r) / (np.abs(dense) @ np.abs(x) + np.abs(b))).max()
    np.testing.assert_allclose(found.componentwise_backward_error, largest, rtol=1e-12)


@pytest.mark.parametrize("x", [[math.nan, 0.0], [math.inf, 0.0], [1e308, 1e308]])
def test_what_is_not_finite_meets_no_tolerance(x):
    system = LinearSystem(Matrix.from_dense([[1e10, 1.0], [0.0, 1.0]]))
    found = certify.certificate(system, np.ones(2), np.array(x))
    assert found.bound == math.inf
    assert not found.meets(1e300)


@pytest.mark.parametrize(("residual", "roundoff"), [(math.inf, 0.0), (math.nan, 0.0), (1.7e308, 1.7e308)])
def test_a_bound_that_is_not_finite_meets_no_tolerance(residual, roundoff):
    assert not certify.Certificate(residual, roundoff, 1e300, 1.0, 1.0).meets(1e300)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20), st.sampled_from([1e300, 1e17, 1.0]), st.integers(-50, 50))
def test_tolerances_and_residuals_are_relative_to_the_exact_norm_of_a_b_below_the_normal_numbers(counts, tol, ulps):
    b = np.array(counts) * 5e-324
    square = Fraction(sum(count * count for count in counts), 2**2148)
    residual = tol * (1.0 + ulps * 2.0**-6) * math.hypot(*counts) * 5e-324
    found = certify.Certificate(residual, 0.0, certify.norm(b), 1.0, 1.0)
    assert not found.meets(tol) or Fraction(residual) ** 2 <= Fraction(tol) ** 2 * square
    assert math.isinf(found.relative) or Fraction(found.relative) ** 2 * square >= Fraction(residual) ** 2


@settings(max_examples=60, deadline=None)
@given(sizes, seeds, st.sampled_from([-320, -200, -150, 0, 150, 300]), st.sampled_from([-320, -200, -120, 0, 150]))
def test_backward_errors_are_no_less_than_the_exact_ones_at_any_scale(size, seed, of_matrix, of_x):
    dense, x, b = a_system(size, seed, 10)
    dense, x = dense * 10.0 ** (of_matrix / 2) * 10.0 ** (of_matrix / 2), x * 10.0 ** (of_x / 2) * 10.0 ** (of_x / 2)
    b *= seed % 3 > 0
    exact = exact_residual(dense, x, b)
    found = certify.certificate(LinearSystem(Matrix.from_dense(dense)), b, x)
    if not math.isfinite(found.bound):
        return
    sizes_of_rows = exact_residual(-np.abs(dense), np.abs(x), np.abs(b))
    ratios = [abs(r) / row for r, row in zip(exact, sizes_of_rows, strict=True) if row > 0]
    largest = max(ratios, default=Fraction(0))
    slack = 1 - Fraction(1, 10**12)
    assert largest * slack <= Fraction(found.componentwise_backward_error) <= 1
    squares = [sum((Fraction(v) ** 2 for v in values), Fraction(0)) for values in (exact, dense.ravel(), x, b)]
    residual, *scales = (Fraction(math.isqrt(int(square * 4**2400)), 2**2400) for square in squares)
    scale = scales[0] * scales[1] + scales[2]
    assert scale == 0 or residual / scale * slack <= Fraction(found.normwise_backward_error) <= 1


def test_b_of_zeros_is_met_by_zero_alone():
    system = LinearSystem(Matrix.from_dense([[1.0, 2.0], [3.0, 4.0]]))
    assert certify.certificate(system, np.zeros(2), np.array([1e-300, 0.0])).meets(1e-3) is False
    found = certify.certificate(system, np.zeros(2), np.zeros(2))
    assert (found.bound, found.relative, found.meets(1e-12)) == (0.0, 0.0, True)


def test_facts_of_matrices_are_exact():
    lopsided, rounded = (
        LinearSystem(Matrix.from_dense([[2.0, -1.0], [below, 2.0]])) for below in (-1.0 + 2.0**-40, -1.0 + 2.0**-53)
    )
    assert (lopsided.is_symmetric, lopsided.has_positive_diagonal) == (False, True)
    assert rounded.is_symmetric
    assert LinearSystem(Matrix.from_dense([[0.0, 1.0], [1.0, 1.0]])).dominance == math.inf
    with pytest.raises(InputError, match="square"):
        LinearSystem(Matrix.from_dense([[1.0, 2.0]]))


@settings(max_examples=60, deadline=None)
@given(sizes, seeds, st.sampled_from([0, 10, 200]))
def test_the_bound_of_a_rayleigh_quotient_is_above_it(size, seed, spread):
    dense, x, b = a_system(size, seed, spread)
    if seed % 3 == 0:  # A quotient of 0, of which rounding alone is left.
        dense = dense - dense.T
        b = dense @ x
    bound = certify.rayleigh_quotient(b, x, certify.residual(LinearSystem(Matrix.from_dense(dense)), b, x))
    exact = [Fraction(v) for v in x.tolist()]
    rows = [sum((Fraction(a) * v for a, v in zip(row, exact, strict=True)), Fraction(0)) for row in dense.tolist()]
    quotient = sum(u * v for u, v in zip(rows, exact, strict=True)) / sum(v * v for v in exact)
    assert math.isinf(bound) or Fraction(bound) >= quotient


def test_a_value_above_a_rayleigh_quotient_is_no_lower_bound():
    system = LinearSystem(Matrix.from_dense([[2.0, -1.0], [-1.0, 2.0]]))
    b, x = np.array([1.0, 1.0]), np.array([1.0, 1.0])
    assert certify.certificate(system, b, x, smallest_eigenvalue=1.0).error_bound is not None
    with pytest.raises(InputError, match=r"smallest_eigenvalue is 1\.001, but x\.Ax / x\.x is 1 "):
        certify.certificate(system, b, x, smallest_eigenvalue=1.001)


def a_long_system(rows, seed):
    """Return a system of many parts of threads, with an x and a b of many binades."""
    rng = np.random.default_rng(seed)
    dense = scipy.sparse.random_array((rows, rows), density=3.0 / rows, rng=rng, format="csr")
    dense.data = rng.standard_normal(len(dense.data)) * 2.0 ** rng.integers(-40, 40, len(dense.data))
    return LinearSystem(Matrix.from_scipy(dense)), rng.standard_normal(rows), rng.standard_normal(rows)


@pytest.mark.parametrize("smallest", [None, -1e300])
def test_a_certificate_summed_up_by_parts_is_that_of_the_whole_residual(smallest):
    system, x, b = a_long_system(3 * certify._ROWS + 17, 1)
    found, rows = certify.certificate(system, b, x, smallest_eigenvalue=smallest), certify.residual(system, b, x)
    assert found.residual == certify.norm(rows.values)
    assert found.roundoff == certify.norm(rows.bounds) + 2.0**-49 * found.residual
    largest = ((np.abs(rows.values) + rows.bounds) / rows.sizes).max()
    assert found.componentwise_backward_error == min(largest, 1.0)


@pytest.mark.parametrize("smallest", [None, -1e300])
def test_a_certificate_is_the_same_for_any_number_of_threads(smallest):
    system, x, b = a_long_system(40 * certify._ROWS, 2)
    certificates = []
    for count in (1, 2, 3, 8):
        with threads.limited(count):
            certificates.append(certify.certificate(system, b, x, smallest_eigenvalue=smallest))
    assert len(set(certificates)) == 1


def test_products_beyond_float64_bound_no_backward_error():
    system = LinearSystem(Matrix.from_dense([[1e308, -1e308], [1.0, 2.0]]))
    found = certify.certificate(system, np.array([1.0, 3.0]), np.array([10.0, 10.0]))
    assert found.residual == found.normwise_backward_error == found.componentwise_backward_error == np.inf


@pytest.mark.parametrize("row", [0, certify._ROWS, 2 * certify._ROWS + 1])
def test_one_row_that_is_not_finite_spoils_the_certificate(row):
    system, x, b = a_long_system(2 * certify._ROWS + 2, 3)
    x[row] = math.nan
    assert certify.certificate(system, b, x).bound == math.inf
    size = 2 * certify._ROWS + 2
    values = np.ones(size)
    values[row] = 1e300
    found = certify.certificate(
        LinearSystem(Matrix.from_scipy(scipy.sparse.diags_array(values))), np.ones(size), values
    )
    assert (found.residual, found.bound) == (math.inf, math.inf)


@pytest.mark.parametrize(
    "scales", [(1e300, 1e-300), (1e-320, 1e-300), (1e200, 1.0), (5e-324, 1e-310), (1e120, 6e119), (1e-121, 1e-121)]
)
def test_norms_join_parts_of_different_ranges(scales):
    values = np.zeros(3 * certify._ROWS)
    values[[0, certify._ROWS, -1]] = 3.0 * scales[0], 4.0 * scales[1], 12.0 * scales[1]
    exact = sum((Fraction(v) ** 2 for v in values[values != 0.0].tolist()), Fraction(0))
    found, slack, tiny = Fraction(certify.norm(values)), 1 + Fraction(1, 2**49), Fraction(1, 2**1074)
    assert ((found - tiny) / slack) ** 2 <= exact <= ((found + tiny) * slack) ** 2


def test_a_large_solve_reads_no_whole_vectors_of_the_residual(monkeypatch):
    system, x, b = a_long_system(4 * certify._ROWS, 4)
    lengths = []
    monkeypatch.setattr(certify, "_empty", lambda rows, make=certify._empty: lengths.append(rows) or make(rows))
    certify.certificate(system, b, x)
    assert set(lengths) == {certify._ROWS}
    assert len(lengths) <= threads.available()
