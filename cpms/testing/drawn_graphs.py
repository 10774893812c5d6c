"""Shapes of small graphs that `cpms.testing` draws: chains, stars, hubs, components, isolated and dangling nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from cpms.graph.graph import Graph

Edges = tuple[list[int], list[int]]


def drawn_graph(draw: st.DrawFn, max_nodes: int, weighted: st.SearchStrategy[bool]) -> Graph:
    """Return a small graph of one of the shapes, with weights where a strategy says so."""
    nodes = draw(st.integers(1, max_nodes))
    sources, targets = draw(st.sampled_from(_SHAPES))(draw, nodes)
    has_weights = draw(weighted)
    weight = st.sampled_from([1.0, 2.0, 0.25]) | st.floats(1e-3, 1e3)
    weights = draw(st.lists(weight, min_size=len(sources), max_size=len(sources))) if has_weights else None
    return Graph.from_edges(sources, targets, weights, nodes=nodes)


def drawn_graph_with_a_core(draw: st.DrawFn) -> Graph:
    """Return a graph with nodes before, on and behind cycles, whose numbers are mixed."""
    before, inside, behind = (draw(st.integers(low, 12)) for low in (0, 2, 0))
    nodes = before + inside + behind
    pairs = [(before + k, before + (k + 1) % inside) for k in range(inside)]
    for a, b in draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=80)):
        both_inside = before <= min(a, b) and max(a, b) < before + inside
        pairs.append((a, b) if both_inside else (min(a, b), max(a, b)))
    pairs = [(a, b) for a, b in pairs if a != b or before <= a < before + inside]
    named = draw(st.permutations(range(nodes)))
    return Graph.from_edges([named[a] for a, _ in pairs], [named[b] for _, b in pairs], nodes=nodes)


def _any_edges(draw: st.DrawFn, nodes: int) -> Edges:
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=4 * nodes))
    return [source for source, _ in pairs], [target for _, target in pairs]


def _chain(draw: st.DrawFn, nodes: int) -> Edges:  # noqa: ARG001
    return list(range(nodes - 1)), list(range(1, nodes))


def _star_inwards(draw: st.DrawFn, nodes: int) -> Edges:  # noqa: ARG001
    return list(range(1, nodes)), [0] * (nodes - 1)


def _star_outwards(draw: st.DrawFn, nodes: int) -> Edges:  # noqa: ARG001
    return [0] * (nodes - 1), list(range(1, nodes))


def _hub(draw: st.DrawFn, nodes: int) -> Edges:
    sources, targets = _any_edges(draw, nodes)
    hub = draw(st.integers(0, nodes - 1))
    return sources + list(range(nodes)) + [hub] * nodes, targets + [hub] * nodes + list(range(nodes))


def _two_components(draw: st.DrawFn, nodes: int) -> Edges:
    first = max(1, nodes // 2)
    sources, targets = _any_edges(draw, first)
    if nodes > first:
        more_sources, more_targets = _any_edges(draw, nodes - first)
        sources += [first + node for node in more_sources]
        targets += [first + node for node in more_targets]
    return sources, targets


def _isolated_nodes(draw: st.DrawFn, nodes: int) -> Edges:
    return _any_edges(draw, max(1, nodes // 3))


def _all_dangling(draw: st.DrawFn, nodes: int) -> Edges:  # noqa: ARG001
    return [], []


def _none_dangling(draw: st.DrawFn, nodes: int) -> Edges:
    sources, targets = _any_edges(draw, nodes)
    node = st.integers(0, nodes - 1)
    return sources + list(range(nodes)), targets + draw(st.lists(node, min_size=nodes, max_size=nodes))


_SHAPES: list[Callable[[Any, int], Edges]] = [
    *(_any_edges, _chain, _star_inwards, _star_outwards, _hub),
    *(_two_components, _isolated_nodes, _all_dangling, _none_dangling),
]
