"""Layouts that interleave rows are the same by NumPy's sort and by compiled loops."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base.compilation import first_call
from cpms.graph.graph import Graph
from cpms.sparse import jagged, sliced


@pytest.mark.parametrize("layout", [jagged, sliced])
@given(nodes=st.sampled_from([1, 7, 60, 1030, 4100]), edges=st.integers(0, 20_000), skew=st.sampled_from([1, 4]))
def test_numpy_and_loops_give_entries_one_order(layout, nodes, edges, skew):
    rng = np.random.default_rng(edges)
    ends = (rng.random((2, edges)) ** [[1], [skew]] * nodes).astype(np.int64)
    graph = Graph.from_edges(*ends, nodes=nodes)
    found = []
    for by_numpy in (True, False):
        with patch.object(first_call, "spares_loops", lambda by_numpy=by_numpy: by_numpy):
            matrix = layout.build(graph, None) if layout is sliced else layout.build(graph)
        found.append(matrix.sources)
    assert found[0].dtype == found[1].dtype
    assert found[0].tolist() == found[1].tolist()
