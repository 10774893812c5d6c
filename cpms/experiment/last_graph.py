"""The graph of the cells at hand."""

from __future__ import annotations

from typing import Any

from cpms.graph import Graph
from cpms.loading import load


class LastGraph:
    """Loads a graph once for the cells that follow one another on it, and lets go of it before the next is loaded.

    Examples
    --------
    >>> held = LastGraph()
    >>> held.load("grid:rows=2,columns=3") is held.load("grid:rows=2,columns=3")
    True
    """

    def __init__(self) -> None:
        self._held: tuple[str, Graph] | None = None

    def load(self, name: str, **options: Any) -> Graph:
        """Return the graph of that name; ``options`` are those of `cpms.load`, the same in every cell."""
        if self._held is None or self._held[0] != name:
            self._held = None
            self._held = name, load(name, **options)
        return self._held[1]
