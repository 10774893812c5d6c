"""Counts are those of NumPy, whoever counts."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.graph import histogram

pytestmark = pytest.mark.quick

BELOW = 40
numbers_below = arrays(st.sampled_from([np.int32, np.int64]), st.integers(0, 300), elements=st.integers(0, BELOW - 1))
few_or_many = pytest.mark.parametrize("least", [1, 1 << 20])


@few_or_many
@given(numbers=numbers_below, count=st.integers(1, 4), part=st.integers(1, 50))
def test_counts_are_those_of_numpy(least, numbers, count, part):
    with patch.multiple(histogram, _SMALLEST_THREADED=least, _PART_COUNTERS=part), threads.limited(count):
        found = histogram.occurrences(numbers, BELOW)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.bincount(numbers, minlength=BELOW))


@given(
    times=st.lists(st.sampled_from([0, 1, 255, 256, 257, 511, 512, 1000]), min_size=1, max_size=4),
    count=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_counts_may_be_more_than_a_byte_holds(times, count, seed):
    numbers = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(times)), times))
    with patch.object(histogram, "_SMALLEST_THREADED", 0), threads.limited(count):
        assert histogram.occurrences(numbers, len(times)).tolist() == times


@few_or_many
@pytest.mark.parametrize("bad", [3, 10**6, -1])
def test_numbers_without_a_count_are_refused(least, bad):
    numbers = np.array([0, 1, 2, 0, 1, 2, bad])
    with patch.object(histogram, "_SMALLEST_THREADED", least), pytest.raises(InputError, match="not among 0 to 2"):
        histogram.occurrences(numbers, 3)
