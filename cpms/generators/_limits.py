"""Refusals that generators share."""

from __future__ import annotations

import psutil

from cpms.errors import InputError

_BYTES_AN_EDGE = 20
"""Two lists of 4-byte ids, two more while they are grouped, and one to spare."""
_BYTES_A_NODE = 40


def check_size(name: str, nodes: float, edges: float) -> None:
    """Refuse a graph that is empty or would not fit in the memory at hand.

    Raises
    ------
    InputError
        With the bytes needed and free.
    """
    if nodes < 1 or edges < 0:
        raise InputError(f"{name} would have {nodes:g} nodes and {edges:g} edges; it needs at least one node")
    needed = _BYTES_A_NODE * nodes + _BYTES_AN_EDGE * edges
    free = psutil.virtual_memory().available
    if needed > free:
        raise InputError(
            f"{name} with {nodes:,.0f} nodes and {edges:,.0f} edges needs {needed:,.0f} bytes; {free:,} are free"
        )


def check_share(name: str, **shares: float) -> None:
    """Refuse a share outside 0 to 1.

    Raises
    ------
    InputError
        Naming the share.
    """
    for key, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise InputError(f"{name}: {key} is {value}; it must lie between 0 and 1")
