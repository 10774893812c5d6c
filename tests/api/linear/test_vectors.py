"""Passes over vectors by threads agree with NumPy's over whole vectors, bit for bit."""

import numpy as np
import pytest

from cpms.api.linear import vectors
from cpms.base import threads

LENGTHS = (1, vectors._AT_LEAST, 3 * vectors._AT_LEAST + 5)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("exponent", [0, 3, -3, 1074, -1074])
def test_scaled_values_are_those_of_ldexp(length, exponent):
    values = np.random.default_rng(length).standard_normal(length) * 2.0**-500
    with np.errstate(all="ignore"):
        expected = np.ldexp(values, exponent)
    for count in (1, 3):
        with threads.limited(count):
            found = vectors.scaled(values, exponent)
            assert found is not values
            assert found.tobytes() == expected.tobytes()
    held = values.copy()
    assert vectors.scaled(held, exponent, held) is held
    assert held.tobytes() == expected.tobytes()


@pytest.mark.parametrize("length", LENGTHS)
def test_one_value_anywhere_decides(length):
    zeros = np.zeros(length)
    assert vectors.are_finite(zeros)
    assert threads.largest_size(zeros) == 0.0
    for place in {0, length // 2, length - 1}:
        for value in (-7.0, 5.0):
            given = zeros.copy()
            given[place] = value
            assert threads.largest_size(given) == abs(value)
            assert not vectors.are_equal(zeros, given)
            assert vectors.are_equal(given.copy(), given)
            given[place] = np.copysign(np.inf, value)
            assert not vectors.are_finite(given)
