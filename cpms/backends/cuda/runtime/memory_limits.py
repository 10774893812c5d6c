"""Limits of a device: graphs whose counts exceed 32 bits, or whose solve exceeds free memory."""

from __future__ import annotations

from cpms.backends.cuda.runtime.current import current
from cpms.graph.graph import Graph

_NODES_BELOW, _ENTRIES_BELOW = 2**31, 2**32 - 2048


def is_countable(nodes: int, edges: int) -> bool:
    """Return whether 32 bits count nodes, with a sign, and edges with an entry for each empty row and padding.

    Examples
    --------
    >>> is_countable(2**31 - 1, 2**30), is_countable(2**31, 0), is_countable(1, 2**32 - 2048)
    (True, False, False)
    """
    return nodes < _NODES_BELOW and edges + nodes < _ENTRIES_BELOW


def refusal(engine: str, graph: Graph, needed: int, *, what: str, advice: str) -> str | None:
    """Return a sentence if a graph does not fit into 32-bit counts or free device memory; None if it does.

    Parameters
    ----------
    engine : str
    graph : Graph
    needed : int
        Bytes of device memory, about.
    what : str
        Their purpose.
    advice : str
        The remedy that the sentence offers.
    """
    if not is_countable(graph.nodes, graph.edges):
        return (
            f"engine {engine} counts nodes below 2^31 and edges and nodes below 2^32; {graph.name} has "
            f"{graph.nodes:,} nodes and {graph.edges:,} edges"
        )
    free = current().free_bytes()
    if needed <= free:
        return None
    return f"engine {engine} needs about {needed:,} bytes of device memory for {what}, but {free:,} are free; {advice}"
