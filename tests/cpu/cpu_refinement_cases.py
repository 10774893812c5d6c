"""Graphs and problems for tests of refinement on processors."""

from __future__ import annotations

import numpy as np

from cpms import Graph


def random_graph(nodes, edges, seed=5):
    random = np.random.default_rng(seed)
    sources, targets = random.integers(0, nodes, edges), random.geometric(30 / nodes, edges) % nodes
    return Graph.from_edges(sources, targets, nodes=nodes)
