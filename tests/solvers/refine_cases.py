"""Graphs, exact answers and a shorthand of a solve for tests of method refine."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import cpms
from cpms import Graph
from cpms.problems.pagerank import Problem

ENGINES = ["reference", "cpu", pytest.param("cuda_fused", marks=pytest.mark.gpu)]


def random_graph(nodes, edges, **options):
    random = np.random.default_rng(nodes)
    sources, targets = random.integers(0, nodes, edges), random.geometric(20 / nodes, edges) % nodes
    return Graph.from_edges(sources, targets, nodes=nodes, **options)


def with_cycle(nodes):
    random = np.random.default_rng(3)
    sources = np.concatenate([np.arange(nodes), random.integers(0, nodes, 3 * nodes)])
    return Graph.from_edges(sources, np.append((np.arange(nodes) + 1) % nodes, random.integers(0, nodes, 3 * nodes)))


HUB = 3000
ADVERSARIAL = {
    "one node": Graph.from_edges([], [], nodes=1),
    "one loop": Graph.from_edges([0], [0]),
    "star inwards": Graph.from_edges(np.arange(1, HUB), np.zeros(HUB - 1, int)),
    "star outwards": Graph.from_edges(np.zeros(HUB - 1, int), np.arange(1, HUB)),
    "star both ways": Graph.from_edges(
        np.append(np.arange(1, HUB), np.zeros(HUB - 1, int)), np.append(np.zeros(HUB - 1, int), np.arange(1, HUB))
    ),
    "chain": Graph.from_edges(np.arange(2999), np.arange(1, 3000)),
    "ring": Graph.from_edges(np.arange(3000), (np.arange(3000) + 1) % 3000),
    "two components": Graph.from_edges(
        [*range(500), *range(500, 1000), 500], [*[(k + 1) % 500 for k in range(500)], *[500] * 500, 700]
    ),
    "all dangling": Graph.from_edges([], [], nodes=3000),
    "none dangling": with_cycle(5000),
    "giant hub": Graph.from_edges(
        np.concatenate([np.tile(np.arange(20_000), 5), np.full(20_000, 7), np.arange(20_000)]),
        np.concatenate([np.full(100_000, 7), np.arange(20_000), (np.arange(20_000) * 31) % 20_000]),
    ),
    "isolated nodes": Graph.from_edges([0, 1, 2, 50_000], [1, 2, 0, 0], nodes=100_000),
    "repeated edges and loops": Graph.from_edges([0] * 40 + [1, 1, 2, 2], [1] * 40 + [1, 0, 2, 2], nodes=4),
    "random": random_graph(6000, 30_000),
}


def exact(problem):
    """Return the solution from a sparse factorisation: x is a sum of (I - damping P)^-1 v and the same of w."""
    graph, n = problem.graph, problem.graph.nodes
    share = problem.damping / np.maximum(graph.out_degree, 1)[graph.sources]
    p = scipy.sparse.csc_array(scipy.sparse.coo_array((share, (graph.targets, graph.sources)), shape=(n, n)))
    factors = scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(scipy.sparse.eye_array(n, format="csc") - p))
    of_v = factors.solve(np.broadcast_to(problem.teleport_or_scalar, n).copy())
    of_w = factors.solve(np.broadcast_to(problem.sink_or_scalar, n).copy())
    nodes, damping = graph.dangling_nodes, problem.damping
    x = of_v + damping * of_v[nodes].sum() / (1 - damping * of_w[nodes].sum()) * of_w
    return x / x.sum()


@cache
def exact_ranks(name):
    """Return the solution of an adversarial graph, factorised once: that takes longer than all else."""
    return exact(Problem(ADVERSARIAL[name]))


def solve(graph, engine, **options):
    return cpms.pagerank(graph, method="refine", engine=engine.name, **options)
