"""Graphs, exact ranks and distances for tests of cpms.pagerank."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cpms import (
    Graph,
)

EPSILON = 1e-15
"""What rounding may add to a sum of ranks."""


def mixed_graph(nodes=300):
    """Return a graph that converges slowly (a ring) and has dangling nodes, a hub, repeated edges and self-loops."""
    random = np.random.default_rng(9)
    ring = np.arange(nodes // 2)
    hub = np.arange(0, nodes, 5)
    sources = [ring, random.integers(0, nodes - 40, 2 * nodes), hub, np.array([3, 3, 4, 4])]
    targets = [(ring + 1) % len(ring), random.integers(0, nodes, 2 * nodes), 0 * hub, np.array([3, 3, 9, 9])]
    return Graph.from_edges(np.concatenate(sources), np.concatenate(targets), nodes=nodes, name="mixed")


MIXED = mixed_graph()


def exact_ranks(graph, damping, teleport, rule):
    """Solve the linear system in rational numbers, by Gauss's elimination."""
    n = graph.nodes
    damping = Fraction(damping)
    weights = [Fraction(1)] * graph.edges if graph.weights is None else [Fraction(w) for w in graph.weights.tolist()]
    uniform = [Fraction(1, n)] * n
    total = None if teleport is None else sum(Fraction(v) for v in teleport.tolist())
    v = uniform if teleport is None else [Fraction(one) / total for one in teleport.tolist()]
    sink = uniform if rule == "uniform" else v
    leaving = [Fraction(0)] * n
    for source, weight in zip(graph.sources.tolist(), weights, strict=True):
        leaving[source] += weight
    rows = [[Fraction(int(i == j)) for j in range(n)] + [(1 - damping) * v[i]] for i in range(n)]
    for source, target, weight in zip(graph.sources.tolist(), graph.targets.tolist(), weights, strict=True):
        rows[target][source] -= damping * weight / leaving[source]
    for node in (node for node in range(n) if not leaving[node]):
        for i in range(n):
            rows[i][node] -= damping * sink[i]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [one / rows[k][k] for one in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def distance(ranks, exact):
    return float(sum(abs(Fraction(got) - right) for got, right in zip(ranks.tolist(), exact, strict=True)))


def l1(a, b):
    return float(np.abs(a - b).sum())
