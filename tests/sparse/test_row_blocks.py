"""Blocks of rows in CSR: a partition of rows and entries, within its limits, whatever the lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cpms.sparse.row_blocks import row_blocks


@given(st.lists(st.sampled_from([0, 0, 1, 2, 5, 30]), max_size=40), st.integers(1, 9), st.integers(1, 6))
def test_blocks_hold_each_row_and_entry_once(lengths, entries, rows):
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    cut = row_blocks(starts, entries, rows)
    whole = cut.blocks[: cut.first_parts[0]]
    of_blocks = [row for low, high, _, _ in whole for row in range(low, high)]
    assert sorted([*of_blocks, *cut.long_rows]) == list(range(len(lengths)))
    assert sorted(k for _, _, begin, end in cut.blocks for k in range(begin, end)) == list(range(starts[-1]))
    assert all(end - begin <= entries for _, _, begin, end in cut.blocks)
    assert all(high - low <= rows and (starts[low], starts[high]) == (begin, end) for low, high, begin, end in whole)
    for row, first, last in zip(cut.long_rows, cut.first_parts[:-1], cut.first_parts[1:], strict=True):
        parts = cut.blocks[first:last]
        assert (parts[:, :2] == row).all()
        assert (parts[0, 2], parts[-1, 3]) == (starts[row], starts[row + 1])
        assert (parts[1:, 2] == parts[:-1, 3]).all()
