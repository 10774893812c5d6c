"""Estimated number of sweeps of a solve, emulated on this machine and on a GPU."""

import numpy as np
import pytest

import cpms
from cpms import Graph
from cpms.backends.cuda.reduction import convergence_estimate
from cpms.backends.cuda.spmv.padded_csr import out_degree, uploaded
from cpms.certify.residual import apply_operator
from cpms.problems.pagerank import Problem


def forecast_of(graph, damping):
    return convergence_estimate.sweeps(*uploaded(graph), out_degree(graph), damping)


@pytest.mark.parametrize("damping", [0.5, 0.85, 0.95])
@pytest.mark.parametrize(
    "spec", ["uniform:scale=10", "rmat:scale=10,edge_factor=8,seed=1", "weblike:nodes=3000,edges=9000"]
)
def test_the_forecast_is_near_what_power_iteration_takes(device, spec, damping):
    graph = cpms.load(spec)
    taken = len(cpms.pagerank(graph, damping=damping, method="power", tol=1e-10).history)
    assert min(0.65 * taken, 160) <= forecast_of(graph, damping) <= 1.1 * taken


@pytest.mark.parametrize("graph", [Graph.from_edges([], [], nodes=3), Graph.from_edges([0, 1], [1, 0])])
def test_graphs_that_are_solved_at_once_take_one(device, graph):
    assert forecast_of(graph, 0.85) == 1


def test_paths_take_as_many_as_damping_asks_for(device):
    assert forecast_of(Graph.from_edges(range(99), range(1, 100)), 0.85) == 117


@pytest.mark.parametrize("longest", [0, 31, 32, 33, 700])
def test_what_the_first_sweeps_change_is_what_the_certifier_finds(device, monkeypatch, longest):
    random = np.random.default_rng(longest)
    sources, targets = random.integers(0, 600, 1500), random.integers(0, 700, 1500)  # the last hundred dangle
    hub = random.integers(0, 600, longest), np.full(longest, 650)
    graph = Graph.from_edges(np.append(sources, hub[0]), np.append(targets, hub[1]), nodes=700)
    seen = []
    monkeypatch.setattr(convergence_estimate, "extrapolate", lambda changes: seen.extend(changes) or 1)
    forecast_of(graph, 0.85)
    x, expected = np.full(700, 1 / 700), []
    while len(expected) < len(seen):
        y = apply_operator(Problem(graph), x)
        expected.append(np.abs(y - x).sum())
        x = y
    assert len(seen) == 24
    np.testing.assert_allclose(seen, expected, rtol=1e-9, atol=1e-15)
