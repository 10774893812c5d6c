"""Sizes of graphs, as in the paper's Table I, and their degree distributions, as in its Figure 3."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from cpms.experiment.config import Cell, Experiment
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, named

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


class Config(Experiment):
    """The fields of such an experiment."""

    graphs: list[GraphSource] = Field(min_length=1)
    symmetric: Literal["lower", "expand"] = "lower"

    def cells(self) -> list[Cell]:
        """Return one cell for each graph."""
        return [{**named(graph), "symmetric": self.symmetric} for graph in self.graphs]


class Context(OnGraphs):
    """The graph of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Count one graph."""
        graph = self.graph_of(cell, symmetric=cell["symmetric"])
        return {
            **graph_columns(graph),
            "empty_rows": len(graph.dangling_nodes),
            "self_loops": int((graph.sources == graph.targets).sum()),
            "row_quantiles": {str(q): float(v) for q, v in _quantiles(graph.out_degree)},
            "row_histogram": _histogram(graph.out_degree),
            "column_quantiles": {str(q): float(v) for q, v in _quantiles(graph.in_degree)},
            "column_histogram": _histogram(graph.in_degree),
        }


def _quantiles(lengths: np.ndarray[Any, np.dtype[np.int64]]) -> list[tuple[float, float]]:
    return list(zip(_QUANTILES, np.quantile(lengths, _QUANTILES).tolist(), strict=True))


def _histogram(lengths: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, int]:
    """Return the number of rows of length 0, 1, 2 to 3, 4 to 7, …, by the smallest length of each class."""
    classes = np.where(lengths > 0, np.frexp(np.maximum(lengths, 1))[1], 0)
    counts = np.bincount(classes)
    return {str(0 if k == 0 else 2 ** (k - 1)): int(count) for k, count in enumerate(counts)}
