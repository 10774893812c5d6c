"""Stand-ins for the ten graphs of the CPMS paper: same kind, same size, always labelled as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.graph.graph import Graph
from cpms.sources.generators._adaptive import adaptive
from cpms.sources.generators._hilbert import curve_index
from cpms.sources.generators._limits import MOST_NODES, check_size
from cpms.sources.generators.copies import of_graph
from cpms.sources.generators.delaunay import delaunay
from cpms.sources.generators.rgg import rgg
from cpms.sources.generators.weblike import weblike

_SHUFFLED_BLOCK = 1024


@dataclass(frozen=True)
class StandIn:
    """How one paper graph is replaced: what ``size`` counts, its full value, and the maker."""

    counts: str
    full: int
    make: Callable[[int], Graph]


def standin(*, name: str, size: int | None = None) -> Graph:
    """Return the stand-in for a graph of the paper, at full size or a smaller one.

    Parameters
    ----------
    name : str
        The paper graph's name, such as ``adaptive``.
    size : int, optional
        Full size by default; what it counts depends on the graph (see `STAND_INS`): the exponent of two, refinements,
        copies, or rows.

    Examples
    --------
    >>> graph = standin(name="adaptive", size=4)
    >>> graph.name, graph.stand_in_for, graph.nodes
    ('standin:adaptive,size=4', 'adaptive', 6656)
    """
    if name not in STAND_INS:
        raise InputError(unknown("standin", name, STAND_INS))
    chosen = STAND_INS[name]
    wanted = chosen.full if size is None else size
    if wanted < 1:
        raise InputError(f"standin {name}: size is {wanted}; it counts {chosen.counts} and must be 1 or more")
    label = f"standin:{name}" + ("" if size in (None, chosen.full) else f",size={size}")
    return replace(chosen.make(wanted), name=label, stand_in_for=name)


def _dataset(name: str) -> Graph:
    from cpms.sources.loading import load

    return load(name, symmetric="lower")


def _road_usa(copies: int) -> Graph:
    """Return copies of usroads, its numbers shuffled within blocks of 1024."""
    graph = _dataset("usroads")
    generator = np.random.default_rng(7)
    label = np.arange(graph.nodes, dtype=np.int32)
    for begin in range(0, graph.nodes, _SHUFFLED_BLOCK):
        generator.shuffle(label[begin : begin + _SHUFFLED_BLOCK])
    return of_graph(_lower(label[graph.sources], label[graph.targets], graph.nodes), copies, name="road_usa")


def _hugebubbles(rows: int) -> Graph:
    """Return a brick-wall lattice whose cells follow a Hilbert curve, one in five moved at random."""
    columns = max(2, rows * 4431 // 4784)
    check_size("hugebubbles", rows * columns, 3 * rows * columns, most_nodes=MOST_NODES)
    y, x = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
    order = np.argsort(curve_index(x, y, max(rows, columns).bit_length()))
    place = np.empty(rows * columns, np.int32)
    place[order] = np.arange(rows * columns, dtype=np.int32)
    generator = np.random.default_rng(1)
    moved = np.flatnonzero(generator.random(rows * columns) < 0.2)
    place[moved] = place[generator.permutation(moved)]
    cell = place.reshape(rows, columns)
    joined = (np.arange(rows - 1)[:, None] + np.arange(columns)) % 2 == 0
    left = np.concatenate([cell[:, 1:].ravel(), cell[1:][joined]])
    right = np.concatenate([cell[:, :-1].ravel(), cell[:-1][joined]])
    return _lower(left, right, rows * columns)


def _stanford(copies: int) -> Graph:
    """Return cnr-2000 transposed: that file, too, stores entry (i, j) for the link from j to i."""
    web = of_graph(_dataset("cnr-2000"), copies, name="cnr-2000")
    return Graph.from_edges(web.targets, web.sources, nodes=web.nodes)


def _web_berkstan(thousands: int) -> Graph:
    nodes = 685_230 * thousands // 685
    return weblike(nodes=nodes, edges=7_600_595 * thousands // 685, dangling=0.007, top_hub=0.1)


def _lower(a: np.ndarray, b: np.ndarray, nodes: int) -> Graph:  # type: ignore[type-arg]
    return Graph.from_edges(np.maximum(a, b), np.minimum(a, b), nodes=nodes)


STAND_INS = {
    "adaptive": StandIn("refinements", 9, lambda size: adaptive(size, name="adaptive", stand_in_for="adaptive")),
    "delaunay_n22": StandIn("the exponent of 2", 22, lambda size: delaunay(scale=size)),
    "europe_osm": StandIn("copies", 444, lambda size: of_graph(_dataset("luxembourg_osm"), size, name="europe_osm")),
    "hugebubbles-00020": StandIn("rows", 4784, _hugebubbles),
    "rgg_n_2_24_s0": StandIn("the exponent of 2", 24, lambda size: rgg(scale=size)),
    "road_usa": StandIn("copies", 185, _road_usa),
    "Stanford": StandIn("copies", 1, _stanford),
    "wb-edu": StandIn("copies", 18, lambda size: of_graph(_dataset("cnr-2000"), size, name="wb-edu")),
    "web-BerkStan": StandIn("thousands of nodes", 685, _web_berkstan),
    "web-Google": StandIn("copies", 1, lambda size: of_graph(_dataset("web-Google-scc"), size, name="web-Google")),
}
"""The paper's ten graphs, and how each is replaced."""
