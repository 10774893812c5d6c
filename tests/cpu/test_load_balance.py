"""Ranges of rows of about equal cost are those that searches in the costs of all bounds find."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.backends.cpu.load_balance import row_ranges


def by_all_bounds(before, row_cost, least, most, block):
    rows = len(before) - 1
    bounds = np.append(np.arange(0, rows, block), rows)
    cost = before.astype(np.int64)[bounds] + row_cost * bounds
    count = int(np.clip(cost[-1] // least, 1, most))
    chosen = np.unique(np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)))
    return bounds[chosen].tolist(), cost[chosen].tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
@given(
    lengths=st.lists(st.integers(0, 9), max_size=60),
    row_cost=st.integers(0, 9),
    least=st.integers(1, 50),
    most=st.integers(1, 70),
    block=st.integers(1, 9),
)
def test_ranges_are_those_of_a_search_in_all_costs(lengths, row_cost, least, most, block, dtype):
    before = np.cumsum([0, *lengths]).astype(dtype)
    bounds, cost = row_ranges(before, row_cost=row_cost, least=least, most=most, block=block)
    assert (bounds.tolist(), cost.tolist()) == by_all_bounds(before, row_cost, least, most, block)
    assert bounds.dtype == cost.dtype == np.int64
