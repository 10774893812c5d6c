"""Teleport distributions from what a user calls nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpms.engine import Floats
from cpms.errors import InputError
from cpms.graph import Graph
from cpms.main_memory import in_main_memory


def teleport_distribution(
    graph: Graph, personalization: Sequence[int | str] | Mapping[int | str, float] | Floats
) -> Floats:
    """Return the teleport distribution v of sum 1, shape (nodes,).

    Raises
    ------
    InputError
        If a node does not exist or is named twice, or a weight is not finite and at least 0.

    Examples
    --------
    >>> teleport_distribution(Graph.from_edges([0], [1]), [1]).tolist()
    [0.0, 1.0]
    """
    personalization = in_main_memory(personalization)
    if isinstance(personalization, np.ndarray) and personalization.dtype.kind == "f":
        weights = personalization.astype(np.float64)
        if weights.shape != (graph.nodes,):
            raise InputError(f"personalization has shape {weights.shape}; give one weight a node, {graph.nodes}")
    else:
        weights = np.zeros(graph.nodes)
        named = _weights_by_node(personalization)
        indices = [graph.index_of(node) for node in named]
        if len(set(indices)) < len(personalization):
            raise InputError("personalization names a node twice; give each once, or a mapping of node to weight")
        weights[indices] = list(named.values())
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not ((weights >= 0).all() and 0 < total < math.inf):
        raise InputError("personalization weights must be not negative, not all zero, and of finite sum")
    weights /= total
    return weights


def _weights_by_node(personalization: Any) -> dict[int | str, float]:
    try:
        if isinstance(personalization, Mapping):
            return {node: float(weight) for node, weight in personalization.items()}
        if not isinstance(personalization, str):
            return dict.fromkeys(personalization, 1.0)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"personalization is {personalization!r}; give a list of node ids, a mapping of node id to weight, or an array"
    )
