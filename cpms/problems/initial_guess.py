"""Initial guesses of a solve: uniform, given by the caller, or with a penalty on nodes without in-edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.real_arrays import doubles
from cpms.base.types import Floats
from cpms.base.validation import real
from cpms.graph.graph import Graph, require_graph
from cpms.storage.device import codec, on_device


def initial_guess(graph: Graph, start: Any | None) -> Floats:
    """Return ``start`` scaled to mass 1, in its own memory, or the uniform distribution for None.

    Raises
    ------
    InputError
        If it is not an array of one number a node, none below 0, of a finite sum above 0.

    Examples
    --------
    >>> initial_guess(Graph.from_edges([0], [1]), [1, 3]).tolist()
    [0.25, 0.75]
    """
    if start is None:
        return np.full(graph.nodes, 1.0 / graph.nodes)  # Line 1.
    given = _numbers(start)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        total = given.sum()
        if given.shape != (graph.nodes,) or not ((given >= 0).all() and 0 < total < math.inf):
            given_as = f"it has shape {tuple(given.shape)} and sum {float(total):g}"
            raise InputError(f"start must hold {graph.nodes} values of at least 0, of a finite sum above 0; {given_as}")
        scaled: Floats = given / total
    return scaled


def penalised_start(graph: Graph, penalty: float = 0.1) -> Floats:
    """Return an initial guess with less mass on nodes without in-edges.

    Their weight is ``penalty``, that of all others 1 - ``penalty``; equation 3 of Belotti and Izzo, "Personalized Page
    Rank GPU acceleration", who use 0.1.

    Parameters
    ----------
    graph : Graph
    penalty : float
        Strictly between 0 and 1.

    Returns
    -------
    ndarray of float64, shape (nodes,)
        Of sum 1; an argument ``start`` of `cpms.pagerank`.

    Raises
    ------
    InputError
        If the penalty does not lie strictly between 0 and 1.

    Examples
    --------
    >>> import cpms
    >>> cpms.penalised_start(cpms.Graph.from_edges([0], [1]), 0.25).tolist()
    [0.25, 0.75]
    """
    require_graph(graph)
    penalty = real("penalty", penalty)
    if not 0.0 < penalty < 1.0:
        raise InputError(f"penalty is {penalty}; it must lie strictly between 0 and 1")
    weights = np.where(graph.in_degree > 0, 1.0 - penalty, penalty)
    first: Floats = weights / weights.sum()
    return first


def _numbers(start: Any) -> Any:
    if on_device(start):
        return codec().as_float64(start)
    return doubles("start", start)
