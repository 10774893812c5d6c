"""The graph in CSR by target, and how it is built."""

from __future__ import annotations

from cpms.base.moved import moved

__getattr__, __dir__ = moved(
    "cpms.graph",
    dict.fromkeys(("Duplicates", "Graph", "SelfLoops", "read_only", "require_graph"), "cpms.graph.graph"),
)
