"""Graphs built in device memory are those that processors build, emulated on this machine and on a GPU."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import DeviceGraph, Graph, InputError, PageRank, UnsupportedError
from cpms.backends.cuda.kernels import template
from cpms.graph.edge_updates import with_edges

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
IDS = ("int32", "int64", "uint32", "uint64", "int16", "uint8")


@pytest.fixture(autouse=True)
def compiled_together(device):
    device.compile([*template.PACKS_OF_EDGES.values(), *template.ROWS_OF_EDGES])
    device.compile(template.EDGE_UPDATES)


@st.composite
def edges(draw):
    nodes = draw(st.integers(1, 30))
    ends = draw(st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=80))
    return nodes, [source for source, _ in ends], [target for _, target in ends]


def same(made, expected):
    assert (made.nodes, made.edges, made.weights) == (expected.nodes, expected.edges, None)
    for name in ("indptr", "sources", "out_degree", "in_degree", "dangling_nodes"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
        assert getattr(made, name).dtype == getattr(expected, name).dtype
    assert not made.indptr.flags.writeable


@few
@given(edges(), st.sampled_from(["keep", "drop"]), st.sampled_from(["keep", "drop"]), st.sampled_from(IDS), st.data())
def test_edges_make_the_graph_that_processors_make(device, drawn, duplicates, self_loops, dtype, data):
    nodes, sources, targets = drawn
    options = {"duplicates": duplicates, "self_loops": self_loops}
    first_id = data.draw(st.sampled_from([0, 1] if dtype[0] == "u" else [0, 1, -7]))
    if data.draw(st.booleans()) or not sources:
        options["nodes"] = nodes
    given_ids = [(np.array(ids, np.int64) + first_id).astype(dtype) for ids in (sources, targets)]
    made = DeviceGraph.from_edges(*map(device.upload, given_ids), first_id=first_id, **options)
    same(made, Graph.from_edges(sources, targets, **options))
    assert made.node_id(0) == first_id


@few
@given(edges())
def test_rows_are_taken_as_they_are(device, drawn):
    nodes, sources, targets = drawn
    expected = Graph.from_edges(sources, targets, nodes=nodes)
    same(DeviceGraph.from_csr(expected.indptr, device.upload(expected.sources)), expected)
    same(DeviceGraph.of(expected), expected)


def test_what_the_caller_writes_later_changes_nothing(device):
    sources = device.upload(np.array([0, 1, 2], np.int32))
    rows = DeviceGraph.from_csr([0, 1, 2, 3], sources)
    listed = DeviceGraph.from_edges(sources, device.upload(np.array([1, 2, 0], np.int32)))
    sources[:] = 0
    assert rows.sources.tolist() == [0, 1, 2]
    assert listed.sources.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("sources", "targets", "options"),
    [
        ([0, 1], [1], {}),
        ([0, -1], [1, 0], {}),
        ([0, 1], [1, 0], {"first_id": 1}),
        ([0, 5], [1, 0], {"nodes": 5}),
        ([], [], {}),
        ([0], [1], {"nodes": 0}),
        ([0.5], [1], {}),
        ([[0]], [[1]], {}),
        (["a"], ["b"], {}),
        ([2**60], [0], {}),
        ([0], [1], {"duplicates": "merge"}),
        ([0], [1], {"self_loops": "sum"}),
        ([0], [1], {"names": ["a"]}),
        ([0], [1], {"name": 5}),
    ],
)
def test_edges_are_refused_as_processors_refuse_them(device, sources, targets, options):
    with pytest.raises(InputError) as expected:
        Graph.from_edges(np.array(sources), np.array(targets), **options)
    with pytest.raises(InputError) as found:
        DeviceGraph.from_edges(np.array(sources), np.array(targets), **options)
    assert str(found.value) == str(expected.value)


def test_what_has_no_place_on_the_device_is_refused(device):
    with pytest.raises(UnsupportedError, match="no weights"):
        DeviceGraph.from_edges([0], [1], [2.0])
    with pytest.raises(UnsupportedError, match="no weights"):
        DeviceGraph.of(Graph.from_edges([0], [1], [2.0]))
    with pytest.raises(UnsupportedError, match="sums are weights"):
        DeviceGraph.from_edges([0, 0], [1, 1], duplicates="sum")
    with pytest.raises(UnsupportedError, match=r"fewer than 2\^31 nodes"):
        DeviceGraph.from_edges([2**31], [0])
    same(DeviceGraph.from_edges([0, 1], [1, 1], duplicates="sum"), Graph.from_edges([0, 1], [1, 1]))


@pytest.mark.parametrize(
    ("indptr", "sources", "match"),
    [
        ([0], [], "empty"),
        ([], [], "empty"),
        ([0, 2, 1, 3], [0, 1, 2], "ascend"),
        ([1, 2], [0, 0], "ascend"),
        ([0, 1], [0, 0], "ascend"),
        ([0, 1], [1], "node 1"),
        ([0, 1], [-1], "node -1"),
        ([0.0, 1.0], [0], "integers"),
    ],
)
def test_rows_that_are_none_are_refused(device, indptr, sources, match):
    with pytest.raises(InputError, match=match):
        DeviceGraph.from_csr(np.array(indptr), np.array(sources))


@few
@given(edges(), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=40), st.data())
def test_changed_edges_make_the_graph_that_processors_make(device, drawn, added, data):
    nodes, sources, targets = drawn
    graph = Graph.from_edges(sources, targets, nodes=nodes)
    new = np.array(added, np.int64).reshape(-1, 2).T % nodes
    stored = np.column_stack([graph.sources, graph.targets])
    removed = stored[data.draw(st.permutations(range(len(stored))))[: data.draw(st.integers(0, len(stored)))]].T
    before = DeviceGraph.of(graph)
    expected, made = with_edges(graph, new, removed), before.with_edges(new, removed)
    same(made, expected)
    same(before, graph)


def test_changes_far_apart_are_merged_by_many_warps(device):
    random = np.random.default_rng(8)
    nodes = 5000
    graph = Graph.from_edges(*random.integers(0, nodes, (2, 20_000)), nodes=nodes)
    for count in (1, 700, 20_000):  # The last removes all edges of most runs of a warp.
        gone = random.choice(graph.edges, count, replace=False)
        new = random.integers(0, nodes, (2, count // 2))
        removed = graph.sources[gone], graph.targets[gone]
        on_device = tuple(map(device.upload, new)), tuple(map(device.upload, removed))
        same(DeviceGraph.of(graph).with_edges(*on_device), with_edges(graph, new, removed))


@pytest.mark.parametrize(
    ("added", "removed", "text"),
    [
        (([0], [3]), None, "node 3 is not in graph; its ids are 0 to 2"),
        (None, ([2], [0]), "has no edge from 2 to 0"),
        (None, ([0] * 3, [1] * 3), "from 0 to 1 2 times, fewer than edges_removed"),
        (([0], [1], [2.0]), None, "the graph has none"),
    ],
)
def test_changes_that_cannot_be_are_refused(device, added, removed, text):
    graph = DeviceGraph.of(Graph.from_edges([0, 0, 1], [1, 1, 2]))
    with pytest.raises(InputError, match=text):
        graph.with_edges(added, removed)
    same(graph, Graph.from_edges([0, 0, 1], [1, 1, 2]))


def test_an_update_changes_the_graph_where_the_engine_holds_it(fused_engine):
    random = np.random.default_rng(9)
    graph = Graph.from_edges(*random.integers(1, 301, (2, 3000)), first_id=1, nodes=300)
    prepared = PageRank(graph, engine=fused_engine.name)
    first = prepared.solve()
    for count in (1, 40):
        gone = random.choice(graph.edges, count, replace=False)
        changes = random.integers(1, 301, (2, count)), (graph.sources[gone] + 1, graph.targets[gone] + 1)
        graph = with_edges(graph, *changes)
        found = prepared.update(*changes)
        same(found.graph, graph)
        assert isinstance(found.graph, DeviceGraph)
        assert found.graph.first_id == 1
        expected = cpms.pagerank(graph, engine="cpu")
        assert np.abs(found.ranks - expected.ranks).sum() <= found.error_bound + expected.error_bound
        assert 1 < found.iterations < first.iterations
    with pytest.raises(InputError, match="node 301 is not in graph"):
        prepared.update(([301], [1]))
    same(prepared.graph, graph)
