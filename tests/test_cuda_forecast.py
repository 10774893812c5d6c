"""How many sweeps a solve will take, by its first ones."""

import pytest

import cpms
from cpms import Graph
from cpms.cuda import forecast


@pytest.mark.parametrize("damping", [0.5, 0.85, 0.95])
@pytest.mark.parametrize(
    "spec", ["uniform:scale=10", "rmat:scale=10,edge_factor=8,seed=1", "weblike:nodes=3000,edges=9000"]
)
def test_the_forecast_is_near_what_power_iteration_takes(spec, damping):
    graph = cpms.load(spec)
    taken = len(cpms.pagerank(graph, damping=damping, method="power", tol=1e-10).history)
    assert min(0.65 * taken, 160) <= forecast.sweeps(graph, damping) <= 1.1 * taken


@pytest.mark.parametrize("graph", [Graph.from_edges([], [], nodes=3), Graph.from_edges([0, 1], [1, 0])])
def test_graphs_that_are_solved_at_once_take_one(graph):
    assert forecast.sweeps(graph, 0.85) == 1
