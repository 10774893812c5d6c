"""Teleport distributions from node ids, node names, mappings of nodes to weights, or arrays."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.real_arrays import doubles
from cpms.base.types import DANGLING_RULES, DanglingRule, Floats
from cpms.base.validation import consistent, described, real, require_real
from cpms.graph.graph import Graph
from cpms.storage.device import host_float64

NodeDistribution: TypeAlias = Sequence[int | str] | Mapping[int | str, float] | Floats
"""A distribution as users give it: node ids or names, weights of some nodes, or the weights of all."""


def teleport_distribution(graph: Graph, personalization: NodeDistribution) -> Floats:
    """Return the teleport distribution v of sum 1, shape (nodes,).

    Raises
    ------
    InputError
        If a node does not exist or is named twice, or a weight is not finite and at least 0.

    Notes
    -----
    Floats and truth values in a list or array are weights, one a node; whole numbers and text in a list are ids. A
    sparse vector of SciPy holds weights, too: a row, a column, or of one dimension.

    Examples
    --------
    >>> teleport_distribution(Graph.from_edges([0], [1]), [1]).tolist()
    [0.0, 1.0]
    """
    personalization = _plain(host_float64(personalization), graph.nodes)
    require_real("personalization", personalization)
    if _is_sequence_of_weights(personalization):
        personalization = doubles("personalization", personalization)
    if isinstance(personalization, np.ndarray) and _holds_weights(personalization, graph.nodes):
        weights = np.array(doubles("personalization", personalization))
        if weights.shape != (graph.nodes,):
            raise InputError(f"personalization has shape {weights.shape}; give one weight a node, {graph.nodes}")
    else:
        weights = np.zeros(graph.nodes)
        named = _weights_by_node(personalization)
        indices = [graph.index_of(node) for node, _ in named]
        if len(set(indices)) < len(named):
            raise InputError("personalization names a node twice; give each once, or a mapping of node to weight")
        weights[indices] = [weight for _, weight in named]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        total = weights.sum()
        if not ((weights >= 0).all() and 0 < total < math.inf):
            held = f"personalization weights go from {weights.min():g} on and sum to {total:g}"
            raise InputError(f"{held}; they must be 0 or more, of a finite sum above 0")
        weights /= total
    return weights


def dangling_rule(graph: Graph, dangling: Any) -> DanglingRule | Floats:
    """Return the name of a rule as it is, and all else as the distribution that the mass of dangling nodes goes to.

    Raises
    ------
    InputError
        As `teleport_distribution` does.

    Examples
    --------
    >>> dangling_rule(Graph.from_edges([0], [1]), "uniform"), dangling_rule(Graph.from_edges([0], [1]), {0: 2}).tolist()
    ('uniform', [1.0, 0.0])
    """
    if isinstance(dangling, str):
        rule: DanglingRule = dangling  # type: ignore[assignment]  # `Problem` refuses other names.
        return rule
    try:
        return teleport_distribution(graph, dangling)
    except InputError as error:
        raise InputError(f"dangling, {error}; or give 'teleport' or 'uniform'") from None


def nodes_named(text: str) -> list[str]:
    """Return the nodes named on a command line: separated by commas, with quotes around a name that has commas.

    Examples
    --------
    >>> nodes_named('3,Rio'), nodes_named('"Doe, J",Rio')
    (['3', 'Rio'], ['Doe, J', 'Rio'])
    """
    return next(csv.reader([text], skipinitialspace=True)) or [text]


def dangling_named(text: str) -> str | list[str] | Floats:
    """Return what a command line names as ``dangling``: a rule, the weights in a ``.npy`` file, or nodes.

    Raises
    ------
    InputError
        If the file cannot be read as an array of numbers.

    Examples
    --------
    >>> dangling_named("uniform"), dangling_named("3,Rio")
    ('uniform', ['3', 'Rio'])
    """
    if text in DANGLING_RULES:
        return text
    if not text.endswith(".npy"):
        return nodes_named(text)
    try:
        return doubles("dangling", np.load(text, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"dangling: {text} is no .npy file of one weight a node ({error})") from None


def _plain(given: Any, nodes: int) -> Any:
    """Return a sparse vector as an array of floats, an array of objects as a list, and all else as it is."""
    if hasattr(given, "tocoo"):
        if given.shape not in ((nodes,), (1, nodes), (nodes, 1)):
            raise InputError(f"personalization has shape {given.shape}; give one weight a node, {nodes}")
        weights = consistent(given).toarray().ravel()
        require_real("personalization", weights)
        return doubles("personalization", weights)
    return given.tolist() if isinstance(given, np.ndarray) and given.dtype == object else given


def _is_sequence_of_weights(values: Any) -> bool:
    """Return whether a sequence holds only floats and truth values, which are weights and no ids.

    Raises
    ------
    InputError
        If it holds ids as well.
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes | bytearray | memoryview) or not values:
        return False
    weights = [isinstance(value, float | bool | np.floating | np.bool_) for value in values]
    if any(weights) and not all(weights):
        weight, other = values[weights.index(True)], values[weights.index(False)]
        raise InputError(
            f"personalization holds {described(weight)}, which is a weight, and {described(other)}, which is an id; "
            "give one float a node (1.0 in place of 1), a list of ids alone, or a mapping of node id to weight"
        )
    return all(weights)


def _holds_weights(values: npt.NDArray[Any], nodes: int) -> bool:
    """Return whether an array holds one weight a node, as floats and masks do, and not ids."""
    if values.dtype.kind in "fb":
        return True
    if values.dtype.kind in "iu" and values.shape == (nodes,):
        raise InputError(
            f"personalization is an array of {nodes} integers, which may be ids or one weight a node; "
            "give a list of ids, or weights as floats"
        )
    return False


def _weights_by_node(personalization: Any) -> list[tuple[int | str, float]]:
    try:
        if isinstance(personalization, Mapping) or hasattr(
            personalization, "items"
        ):  # A pandas Series has ``items`` and is no Mapping.
            items = list(personalization.items())
            return [(node, real("weight", weight)) for node, weight in items]
        if not isinstance(personalization, str | bytes | bytearray):
            nodes = tuple(personalization)
            hash(nodes)  # An id can be hashed.
            return [(node, 1.0) for node in nodes]
    except InputError as error:
        raise InputError(f"personalization: {error}") from None
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(
        f"personalization is {described(personalization)}; "
        "give a list of node ids, a mapping of node id to weight, or an array"
    )
