"""Stand-ins for the paper's graphs: labelled, and with the counts they should have at sizes that tests can afford."""

import numpy as np
import pytest

import cpms
from cpms.sources.generators.standin import STAND_INS

PAPER = {
    *("adaptive", "delaunay_n22", "europe_osm", "hugebubbles-00020", "rgg_n_2_24_s0", "road_usa", "Stanford"),
    *("wb-edu", "web-BerkStan", "web-Google"),
}


def standin(name, size):
    graph = cpms.load(f"standin:{name},size={size}")
    assert graph.stand_in_for == name
    assert graph.name.startswith("standin:")
    return graph


def test_all_ten_have_one():
    assert set(STAND_INS) == PAPER


@pytest.mark.parametrize("refinements", [1, 2, 3, 5, 6])
def test_adaptive_has_exact_counts(refinements):
    graph = standin("adaptive", refinements)
    side = 2**refinements
    assert graph.nodes == 26 * side**2
    assert graph.edges == 26 * 2 * side * (side - 1) + 38 * side
    if refinements >= 2:
        assert len(graph.dangling_nodes) == graph.nodes // 16


def test_adaptive_counts_are_the_papers_at_full_size():
    side = 2**9
    assert (26 * side**2, 26 * 2 * side * (side - 1) + 38 * side) == (6_815_744, 13_624_320)
    assert 26 * side**2 // 16 == 425_984


def test_delaunay_has_the_share_of_empty_rows():
    graph = standin("delaunay_n22", 14)
    assert len(graph.dangling_nodes) / graph.nodes == pytest.approx(558_839 / 4_194_304, rel=0.05)
    assert cpms.pagerank(graph).iterations == pytest.approx(27, abs=2)


def test_rgg_converges_like_the_papers():
    assert cpms.pagerank(standin("rgg_n_2_24_s0", 15)).iterations == pytest.approx(104, abs=3)


def test_bubbles_have_three_neighbours_and_the_share_of_empty_rows():
    graph = standin("hugebubbles-00020", 400)
    degree = graph.in_degree + graph.out_degree
    assert degree.max() == 3
    assert np.mean(degree == 3) > 0.99
    assert len(graph.dangling_nodes) / graph.nodes == pytest.approx(0.165, abs=0.003)


def test_berkstan_has_a_hub_and_few_empty_rows():
    graph = standin("web-BerkStan", 20)
    assert graph.in_degree.max() > 0.095 * graph.nodes
    assert len(graph.dangling_nodes) < 0.03 * graph.nodes


@pytest.mark.parametrize(
    ("name", "size", "nodes", "edges", "empty_share"),
    [
        ("europe_osm", 2, 2 * 114_599, 2 * 119_666, 3_721 / 114_599),
        ("road_usa", 3, 3 * 129_164, 3 * 165_435, 0.267),
    ],
)
def test_copies_of_roads(cpms_data, name, size, nodes, edges, empty_share):
    graph = standin(name, size)
    assert (graph.nodes, graph.edges) == (nodes, edges)
    assert len(graph.dangling_nodes) / nodes == pytest.approx(empty_share, abs=0.001)


def test_stanford_is_the_transpose(cpms_data):
    graph, web = standin("Stanford", 1), cpms.load("cnr-2000")
    assert np.array_equal(graph.in_degree, web.out_degree)
    assert np.array_equal(graph.out_degree, web.in_degree)
