"""Graphs and queries for tests of batches by CUDA kernels."""

from types import SimpleNamespace

import numpy as np
from hypothesis import HealthCheck, settings

from cpms import Graph
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.batch.refinement import CudaRefinementBatch
from cpms.backends.cuda.reduction.trimming import Cost
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.solvers.batch_refine import OuterState
from cpms.solvers.refine import History

LEAVE_OUT_ALL = Cost(
    level=0.0, narrow_level=0.0, launch=0.0, solve_entry=0.0, solve_entry_one_block=0.0, external_node=0.0
)
few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def spread(nodes, edges, power_of_targets):
    random = np.random.default_rng(1)
    targets = (nodes * random.random(edges) ** power_of_targets).astype(np.int64)
    return Graph.from_edges(random.integers(0, nodes, edges), targets, nodes=nodes)


def back_and_forth(nodes, edges):
    random = np.random.default_rng(2)
    ends = random.integers(0, nodes, edges)
    others = (ends + random.integers(1, 4, edges)) % (nodes + nodes // 10)
    return Graph.from_edges(np.concatenate([ends, others]), np.concatenate([others, ends]))


def with_leaves(graph):
    """Return a graph with a leaf more for every second node."""
    linking = np.arange(0, graph.nodes, 2)
    targets = np.concatenate([graph.targets, graph.nodes + linking])
    return Graph.from_edges(np.concatenate([graph.sources, linking]), targets)


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=70),
    "hub over turns": Graph.from_edges(np.arange(1, 20_000), np.zeros(19_999, int)),
    "two hubs": Graph.from_edges(np.arange(20_000) % 1500, np.arange(20_000) % 2 * 1499, nodes=1500),
    "skewed": spread(400, 9000, 4),
    "small": spread(120, 1500, 4),
    "few edges": spread(900, 200, 1),
    "back and forth": back_and_forth(300, 700),
    "back and forth with leaves": with_leaves(back_and_forth(300, 700)),
    "rows that end with tasks": Graph.from_edges(np.arange(2048) % 512, np.arange(2048) // 512, nodes=512),
}


def queries_on(graph, count):
    """Return every third query on all nodes, the others on a few."""
    random = np.random.default_rng(count)
    made = []
    for place in range(count):
        nodes = np.sort(random.choice(graph.nodes, min(graph.nodes, 3 if place % 3 else graph.nodes), replace=False))
        weights = random.random(len(nodes)) + 0.1
        made.append(Query(nodes, weights / weights.sum()))
    return made


def whole_batch(problem):
    """Return one that sweeps all nodes."""
    return CudaRefinementBatch(problem, BatchCore.whole(problem))


def round_of(batch, plans, *, most, tol=1e-11):
    """Do a full sweep and the low sweeps that follow; return what each query's found."""
    found = batch.residual_sweep()
    logs = [History(Stopping(tol, max_iterations=each)) for each in most]
    courses = [OuterState(SimpleNamespace(plan=plan), log) for plan, log in zip(plans, logs, strict=True)]
    goals = [course.goal(sweep, batch.problem.damping) for course, sweep in zip(courses, found, strict=True)]
    return [(sweep, low) for sweep, (low, _) in zip(found, batch.inner_sweeps(goals), strict=True)]


def uniform(graph):
    return np.full(graph.nodes, 1.0 / graph.nodes)
