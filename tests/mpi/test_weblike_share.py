"""Web-like graphs in parts: the same for any number of ranks, with the traits of a web, mostly within parts."""

from __future__ import annotations

import numpy as np
import pytest

import cpms
from cpms import Graph
from cpms.backends.mpi.shares import weblike_share
from cpms.base import threads

SPEC = "weblike-parts:parts=5,nodes=4000,edges=21000,seed=3"


def whole(spec, ranks):
    shares = [weblike_share.make(spec, rank, ranks) for rank in range(ranks)]
    ends = [np.concatenate([getattr(share, end) for share in shares]) for end in ("sources", "targets")]
    return Graph.from_edges(*ends, nodes=shares[0].nodes, name=shares[0].name)


@pytest.mark.parametrize("ranks", [2, 3, 5, 7])
def test_the_graph_is_the_same_for_any_number_of_ranks_and_threads(monkeypatch, ranks):
    monkeypatch.setattr(weblike_share, "_CHUNK", 5000)
    with threads.limited(1):
        alone = whole(SPEC, 1)
    with threads.limited(3):
        shared = whole(SPEC, ranks)
    assert shared.name == alone.name == SPEC
    assert shared.indptr.tobytes() == alone.indptr.tobytes()
    assert shared.sources.tobytes() == alone.sources.tobytes()


def test_more_parts_leave_the_links_within_a_part_as_they_are():
    few, many = (weblike_share.make(SPEC.replace("parts=5", f"parts={parts}"), 0, parts) for parts in (2, 5))
    assert (few.sources == many.sources).all()
    inside = (few.targets < 4000) & (many.targets < 4000)
    assert (few.targets[inside] == many.targets[inside]).all()
    assert inside.mean() > 0.94


def test_a_part_is_a_web_and_some_links_lead_out_of_it():
    graph, web = whole(SPEC, 1), cpms.load("weblike:nodes=20000,edges=105000,seed=3")
    assert (graph.nodes, graph.edges) == (web.nodes, web.edges)
    across = graph.sources // 4000 != graph.targets // 4000
    # 20 % to hubs, a quarter of them anywhere, four of five parts another one.
    assert across.mean() == pytest.approx(0.2 * 0.25 * 0.8, abs=0.004)
    assert len(graph.dangling_nodes) == pytest.approx(len(web.dangling_nodes), rel=0.1)
    assert graph.in_degree.max() > 30 * graph.in_degree.mean()
    sweeps = [cpms.pagerank(each, engine="cpu", tol=1e-8).iterations for each in (graph, web)]
    assert abs(sweeps[0] - sweeps[1]) < 15
