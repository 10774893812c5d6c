"""Layouts: each holds the matrix P exactly as the edges say, knows its bytes, and goes back to float64."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, UnsupportedError, encode, format_named
from cpms.base import host_memory
from cpms.sparse import csr, ell, sliced, transition_values
from cpms.sparse.row_sorting import order_in_blocks
from cpms.sparse.transition_values import edge_values
from cpms.testing import graphs

pytestmark = pytest.mark.quick

FORMATS = [format_named(name) for name in ("fp64", "cpms4", "cpms2-planes", "fp32", "fp16-scaled", "bf16")]


def rows_of(graph):
    """Entries of P by the plainest of means: for each target a multiset of (source, value)."""
    weights = [1.0] * graph.edges if graph.weights is None else graph.weights.tolist()
    leaving = defaultdict(float)
    for source, weight in zip(graph.sources.tolist(), weights, strict=True):
        leaving[source] += weight
    rows = [Counter() for _ in range(graph.nodes)]
    for target, source, weight in zip(graph.targets.tolist(), graph.sources.tolist(), weights, strict=True):
        rows[target][source, weight / leaving[source]] += 1
    return rows


def grouped(graph, values):
    rows = [Counter() for _ in range(graph.nodes)]
    for target, source, value in zip(graph.targets.tolist(), graph.sources.tolist(), values.tolist(), strict=True):
        rows[target][source, value] += 1
    return rows


def same_rows(found, expected):
    """Compare rows whose values may differ in the last bit: 1 / o * w is not w / o."""
    for got, right in zip(found, expected, strict=True):
        assert [source for source, _ in sorted(got.elements())] == [source for source, _ in sorted(right.elements())]
        values, right_values = ([value for _, value in sorted(row.elements())] for row in (got, right))
        assert values == pytest.approx(right_values, rel=1e-15, abs=0)


def ell_rows(matrix, values):
    rows = [Counter() for _ in range(matrix.rows)]
    for k, (source, value) in enumerate(zip(matrix.sources.tolist(), values.tolist(), strict=True)):
        if value:
            rows[k % matrix.rows][source, value] += 1
        else:
            assert source == k % matrix.rows
    return rows


def sliced_rows(matrix, values):
    """Read what `cpms.sparse.sliced` documents: of four rows in turn, common entries interleaved, then the rest."""
    starts, entries = matrix.indptr.tolist(), zip(matrix.sources.tolist(), values.tolist(), strict=True)
    nodes = len(starts) - 1
    rows = [Counter() for _ in range(nodes)]
    for begin in range(0, nodes, sliced.BLOCK_ROWS):
        block = [begin + int(place) for place in matrix.order[begin : begin + sliced.BLOCK_ROWS]]
        lengths = [starts[row + 1] - starts[row] for row in block]
        assert sorted(block) == list(range(begin, begin + len(block)))
        assert lengths == sorted(lengths)
        for first in range(0, len(block), sliced.SLICE):
            four = block[first : first + sliced.SLICE]
            common = lengths[first] if len(four) == sliced.SLICE else 0
            for row in four * common:
                rows[row][next(entries)] += 1
            for row in four:
                for _ in range(starts[row + 1] - starts[row] - common):
                    rows[row][next(entries)] += 1
    assert next(entries, None) is None
    return rows


def large_graph(weighted):
    random = np.random.default_rng(5)
    sources, targets = random.integers(0, 3000, 9000), random.geometric(0.002, 9000) % 3000
    return Graph.from_edges(sources, targets, random.random(9000) + 0.1 if weighted else None, nodes=3000)


LARGE = [large_graph(weighted=False), large_graph(weighted=True)]


@given(graphs())
@settings(max_examples=60)
def test_columns_of_the_matrix_sum_to_1_or_are_empty(graph):
    sums = np.bincount(graph.sources, weights=edge_values(graph), minlength=graph.nodes)
    np.testing.assert_allclose(sums, graph.out_degree > 0, rtol=1e-14)


@given(graphs())
@example(LARGE[1])
@settings(max_examples=60)
def test_edges_carry_their_share_of_the_weight(graph):
    same_rows(grouped(graph, edge_values(graph)), rows_of(graph))


@given(graphs(), st.sampled_from(FORMATS))
@example(LARGE[0], cpms.CPMS4)
@example(LARGE[1], cpms.FP32)
@settings(max_examples=60)
def test_layouts_hold_the_values_as_stored_and_go_back_to_float64(graph, storage):
    exact = edge_values(graph)
    for layout, rows in ((ell, ell_rows), (sliced, sliced_rows)):
        matrix = layout.build(graph, storage)
        assert rows(matrix, matrix.values.decode()) == grouped(graph, encode(exact, storage).decode())
        plain = matrix.to_float64(graph)
        assert plain.values.format == cpms.FP64
        assert rows(plain, plain.values.decode()) == grouped(graph, exact)


@given(st.lists(st.integers(0, 1 << 17) | st.integers(0, 3), max_size=99), st.sampled_from([1, 2, 7, 32]))
@example([0xFFFF, 0x10000, 0, 1], 4)
def test_blocks_are_in_order_of_their_numbers_and_then_of_their_places(numbers, block):
    found = order_in_blocks(np.array(numbers, np.int64), block).tolist()
    for begin in range(0, len(numbers), block):
        here = numbers[begin : begin + block]
        assert found[begin : begin + block] == sorted(range(len(here)), key=here.__getitem__)


@given(graphs(weighted=False))
@example(LARGE[0])
@settings(max_examples=60)
def test_the_pattern_holds_ones_and_out_degrees(graph):
    ones = [Counter({(source, 1.0): count for (source, _), count in row.items()}) for row in rows_of(graph)]
    divisor = [max(1, degree) for degree in graph.out_degree.tolist()]
    assert transition_values.divisor(graph).tolist() == divisor
    arranged = sliced.build(graph, None)
    assert sliced_rows(arranged, np.ones(graph.edges)) == ones
    assert arranged.to_float64(graph) is arranged


@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
def test_bytes_stored(storage):
    graph = LARGE[0]
    width = int(graph.in_degree.max())
    values = storage.bits() // 8
    assert sliced.build(graph, storage).nbytes == 4 * 3001 + 2 * 3000 + (4 + values) * 9000
    assert ell.build(graph, storage).nbytes == (4 + values) * 3000 * width == ell.needed_bytes(graph, storage)
    assert sliced.build(graph, None).nbytes == 4 * 3001 + 2 * 3000 + 4 * 9000


def test_large_node_numbers_are_unsigned_without_a_copy():
    graph = LARGE[0]
    assert csr.unsigned_sources(graph).dtype == np.uint32
    assert np.shares_memory(csr.unsigned_sources(graph), graph.sources)
    assert csr.unsigned_indptr(graph).dtype == np.uint32


def test_ell_refuses_with_the_bytes_when_padding_exceeds_memory(monkeypatch):
    star = Graph.from_edges(np.arange(1, 5000), np.zeros(4999, int), name="star")
    # 5000 rows of 4999 entries: 4 + 8 bytes stored, 8 more while they are converted.
    needed = 5000 * 4999 * 20
    assert ell.refusal(star, cpms.CPMS4, needed) is None
    sentence = ell.refusal(star, cpms.CPMS4, needed - 1)
    assert f"{needed:,} bytes" in sentence
    assert f"{needed - 1:,} are free" in sentence
    assert "star" in sentence
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 1000)
    with pytest.raises(UnsupportedError, match="use csr"):
        ell.build(star, cpms.CPMS4)
    with pytest.raises(UnsupportedError, match="1,000 are free"):
        cpms.pagerank(star, layout="ell", engine="cpu")


def test_memory_at_hand_is_a_number_of_bytes():
    assert host_memory.free_bytes() > 1 << 20


@pytest.mark.parametrize("name", ["fp64", "cpms4", "fp16-scaled"])
def test_a_graph_without_edges_has_an_empty_matrix(name):
    graph, storage = Graph.from_edges([], [], nodes=3), format_named(name)
    for layout in (ell, sliced):
        matrix = layout.build(graph, storage)
        assert len(matrix.sources) == len(matrix.to_float64(graph).values.decode()) == 0
