"""Choices that hold for every kind of file, by any number of threads: ids without gaps, both directions of edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms import InputError
from cpms.base import threads
from cpms.graph.edge_list import graph_of_read
from cpms.sources.readers import assemble as module
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.options import ReadOptions

EDGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=50)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(module, "_PART", 3)


def assembled(edges, *, nodes=61, both_ways=False, count=2, **options):
    sources, targets, weights = (np.array(column) for column in zip(*edges, strict=True))
    given_edges = sources.astype(np.int32), targets.astype(np.int32), weights.astype(float)
    with threads.limited(count):
        return assemble(
            *(*given_edges, ReadOptions(**options)),
            nodes=nodes,
            name="g",
            label="g.txt",
            first_id=1,
            both_ways=both_ways,
        )


@given(EDGES, st.integers(1, 3))
def test_compact_ids_are_those_of_a_sort(edges, count):
    made = [assembled(edges, count=count, ids="compact")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_IDS", -1000)
        made.append(assembled(edges, ids="compact"))
    touched = sorted({node for source, target, _ in edges for node in (source, target)})
    for found in made:
        assert (found.nodes, found.first_id) == (len(touched), 0)
        assert found.names.tolist() == [node + 1 for node in touched]
        ends = [[touched[place] for place in ids] for ids in (found.sources, found.targets)]
        assert list(zip(*ends, strict=True)) == [edge[:2] for edge in edges]


@given(EDGES, st.integers(1, 3))
def test_other_directions_follow_the_edges_in_their_order_self_loops_once(edges, count):
    found = assembled(edges, both_ways=True, count=count)
    expected = edges + [(target, source, weight) for source, target, weight in edges if source != target]
    columns = found.sources.tolist(), found.targets.tolist(), found.weights.tolist()
    assert list(zip(*columns, strict=True)) == expected


@pytest.mark.parametrize(("edge", "says"), [((9, 1), "names node 9, but the last is 4"), ((-1, 1), "the id -1")])
def test_an_id_that_is_no_node_is_refused_though_ids_are_compact(edge, says):
    with pytest.raises(InputError, match=f"g.txt: .*{says}"):
        assembled([(0, 1, 1), (*edge, 1)], nodes=5, ids="compact")


FEW_NODES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=50)


@given(FEW_NODES, st.integers(1, 3))
def test_the_first_edge_between_two_nodes_is_kept_in_both_directions(edges, count):
    first = {}
    for source, target, weight in edges:
        first.setdefault((min(source, target), max(source, target)), float(weight))
    made = graph_of_read(assembled(edges, both_ways=True, count=count, duplicates="drop"))
    found = zip(made.sources.tolist(), made.targets.tolist(), made.weights.tolist(), strict=True)
    assert sorted(found) == sorted({(*way, weight) for (a, b), weight in first.items() for way in ((a, b), (b, a))})
