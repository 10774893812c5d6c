"""Where padding lies in SELL: columns of a slice stay side by side, and every row keeps its entries in order."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from cpms.sources.matrices.stencils import stencil
from cpms.sparse.arrangement import _index_type, arranged
from cpms.sparse.compressed_indices import compressed
from cpms.sparse.matrix import Matrix


def test_padding_lies_where_a_row_lacks_a_neighbour():
    """Columns of a slice stay side by side at the ends of grid rows, so that offsets of 8 bits hold them."""
    source = Matrix.from_scipy(stencil(7, 12))
    sell = arranged(source, "sell")
    assert len(np.unique(np.diff(sell.starts))) == 1
    columns, values = (each.reshape(-1, 7, 32) for each in (sell.columns, sell.spread(source.given_values())))
    dense = source.to_scipy().toarray()
    for place in range(source.rows):
        mine, theirs = columns[place // 32, :, place % 32], values[place // 32, :, place % 32]
        stored = theirs != 0.0
        np.testing.assert_array_equal(mine[stored], np.flatnonzero(dense[place]))
        np.testing.assert_array_equal(theirs[stored], dense[place][mine[stored]])
        assert set(mine) == set(mine[stored])
    apart = columns[1:-1].max(axis=2) - columns[1:-1].min(axis=2)
    assert apart[:, 3].max() == 31
    assert np.median(apart) <= 32
    assert compressed(sell).offset_bits == 8


def test_indices_have_64_bits_where_a_kernel_would_count_past_32():
    matrix = SimpleNamespace(rows=3, columns=3, shape=(3, 3))
    assert [_index_type(matrix, slots, "auto").itemsize for slots in (2**32 - 4096, 2**32 - 1024)] == [4, 8]
