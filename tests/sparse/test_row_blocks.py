"""Blocks of rows in CSR: a partition of rows and entries, within its limits, whatever the lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cpms.sparse.row_blocks import row_blocks

LENGTHS = st.lists(st.sampled_from([0, 0, 1, 2, 5, 30, 90]), max_size=40)


@given(LENGTHS, st.integers(1, 200), st.integers(1, 40), st.integers(1, 3))
def test_blocks_hold_each_row_and_entry_once(lengths, entries, rows, times):
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    cut = row_blocks(starts, entries, rows, times * entries)
    whole = cut.blocks[cut.first_parts[-1] :]
    of_blocks = [row for low, high, _, _ in whole for row in range(low, high)]
    assert sorted([*of_blocks, *cut.long_rows]) == list(range(len(lengths)))
    assert sorted(k for _, _, begin, end in cut.blocks for k in range(begin, end)) == list(range(starts[-1]))
    assert all(end - begin <= entries for _, _, begin, end in whole)
    assert all(end - begin <= times * entries for _, _, begin, end in cut.blocks)
    assert all(high - low <= rows and (starts[low], starts[high]) == (begin, end) for low, high, begin, end in whole)
    assert cut.first_parts[0] == 0
    for number, row in enumerate(cut.long_rows):
        parts = cut.blocks[cut.first_parts[number] : cut.first_parts[number + 1]]
        assert (parts[:, :2] == number).all()
        assert (parts[0, 2], parts[-1, 3]) == (starts[row], starts[row + 1])
        assert (parts[1:, 2] == parts[:-1, 3]).all()
    for number, (low, high, begin, end) in enumerate(cut.blocks[len(cut.blocks) - len(whole) :], cut.first_parts[-1]):
        longest = max(lengths[low:high])
        assert (number >= cut.first_even) == (longest <= 64 or longest * (high - low) <= 8 * (end - begin))
