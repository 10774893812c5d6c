"""A cache of one graph and of its float64 solutions, and the columns of a row that describe its graph.

Cells of one graph follow one another, so one graph in memory is enough.
"""

from __future__ import annotations

from typing import Any

from cpms.api import pagerank
from cpms.base.errors import InputError
from cpms.base.types import DanglingRule, Floats
from cpms.experiment.config import Cell
from cpms.experiment.graph_files import read_options
from cpms.experiment.rows import digests
from cpms.graph.graph import Graph
from cpms.sources.loading import load
from cpms.sources.readers.stream import is_pipe


class LastGraph:
    """Loads a graph once for consecutive cells, and frees it before the next graph is loaded.

    Examples
    --------
    >>> held = LastGraph()
    >>> held.load("grid:rows=2,columns=3") is held.load("grid:rows=2,columns=3")
    True
    """

    def __init__(self) -> None:
        self._held: tuple[tuple[str, dict[str, Any]], Graph] | None = None
        self._digest: str | None = None
        self._exact: dict[tuple[float, float, str], Floats] = {}

    def load(self, name: str, **options: Any) -> Graph:
        """Return the graph of that name, read with these options of `cpms.load`."""
        if self._held is None or self._held[0] != (name, options):
            self._held = self._digest = None
            self._exact.clear()
            if is_pipe(name):
                raise InputError(f"{name}: is a pipe, which cannot be read twice; write it into a file, and give that")
            self._held = (name, options), load(name, **options)
        return self._held[1]

    def digest(self, name: str) -> str | None:
        """Return the digest of the loaded graph, computed once; None if its name differs.

        Examples
        --------
        >>> held = LastGraph()
        >>> _ = held.load("grid:rows=2,columns=3")
        >>> held.digest("grid:rows=2,columns=3") is None, held.digest("grid:rows=2,columns=4")
        (False, None)
        """
        if self._held is None or self._held[0][0] != name:
            return None
        if self._digest is None:
            self._digest = digests.of_graph(self._held[1])
        return self._digest

    def exact(self, tol: float, damping: float = 0.85, dangling: DanglingRule = "teleport") -> Floats:
        """Return the ranks of the loaded graph in float64 at ``tol``, computed once.

        Power iteration on engine ``auto`` computes them, and `cpms.certify` their residual.

        Examples
        --------
        >>> held = LastGraph()
        >>> _ = held.load("grid:rows=2,columns=3")
        >>> held.exact(1e-14) is held.exact(1e-14)
        True
        """
        assert self._held is not None  # noqa: S101  # A graph is loaded before its solution is requested.
        key = tol, damping, dangling
        if key not in self._exact:
            self._exact[key] = pagerank.pagerank(self._held[1], damping=damping, tol=tol, dangling=dangling).ranks
        return self._exact[key]


class OnGraphs:
    """The context of kinds on graphs, which keeps the graph of consecutive cells."""

    def __init__(self, config: object) -> None:
        del config
        self.graph = LastGraph()

    def graph_of(self, cell: Cell, **options: Any) -> Graph:
        """Return the graph of a cell, read with the options of its kind; its own ``read_options`` have precedence."""
        return self.graph.load(cell["graph"], **{**options, **read_options(cell)})


def graph_columns(graph: Graph) -> dict[str, Any]:
    """Return the columns of a row that describe its graph.

    Examples
    --------
    >>> graph_columns(load("grid:rows=2,columns=3"))
    {'graph_name': 'grid:rows=2,columns=3', 'stand_in_for': None, 'nodes': 6, 'edges': 7}
    """
    names = {"graph_name": graph.name, "stand_in_for": graph.stand_in_for}
    return {**names, "nodes": graph.nodes, "edges": graph.edges}
