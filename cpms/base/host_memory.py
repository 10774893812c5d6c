"""Refuse what would not fit, before allocating it."""

from __future__ import annotations

from cpms.base.errors import InputError
from cpms.base.process_memory import free_bytes

_NODE_BYTES = 32  # two row-start arrays and two cursors of int64 while `from_edges` runs


def memory_at_hand_bytes() -> int:
    """Return the bytes of main memory that this process can have without swapping."""
    return free_bytes()


def graph_bytes(nodes: int, edges: int, *, weighted: bool) -> int:
    """Return the peak bytes of an edge list and the graph that is built from it.

    Four index arrays and, with weights, three float64 arrays an edge live at the same time.

    Examples
    --------
    >>> graph_bytes(10, 100, weighted=False)
    1920
    """
    index_bytes = 4 if nodes < 2**31 else 8
    return nodes * _NODE_BYTES + edges * (4 * index_bytes + (24 if weighted else 0))


def require_memory(needed_bytes: int, what: str, advice: str = "use a machine with more memory") -> None:
    """Raise `InputError` if ``needed_bytes`` exceed the memory at hand."""
    free = memory_at_hand_bytes()
    if needed_bytes > free:
        raise InputError(f"{what} needs {needed_bytes:,} bytes, but {free:,} are free; {advice}")
