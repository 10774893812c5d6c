"""CUDA graphs of the launches of a sweep, captured at their second repetition on the same vectors and replayed after.

A sweep of a small graph is a few short kernels, whose launches one by one cost more than they run. A graph is launched
once for all of them; capture costs about as much as it saves in a few launches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cpms.backends.cuda.runtime.current import current
from cpms.base.types import Vector

_LAUNCHES_BEFORE_GRAPH = 2
"""Launches on the same vectors before their graph is captured."""


class CudaGraphs:
    """The graphs of launches on a pair of vectors.

    A graph holds addresses, so this object holds the vectors with these addresses. Other arrays of the launches must
    belong to the owner of this object. Launches on other vectors discard the graphs.

    Parameters
    ----------
    agreed : callable, optional
        Returns whether a graph is used, given whether capture succeeded: several devices that work together must all
        launch graphs, or none.
    """

    def __init__(self, agreed: Callable[[bool], bool] = bool) -> None:
        self._agreed = agreed
        self._vectors: tuple[Any, ...] = ()
        self._graphs: dict[tuple[float, ...], Any] = {}

    def run(self, vectors: tuple[Any, ...], level: tuple[float, ...], launch: Callable[[], None]) -> None:
        """Call ``launch``, which launches kernels on ``vectors`` and does nothing else, or replay its graph.

        Parameters
        ----------
        vectors : device arrays, or objects that own some
        level : numbers
            Distinguishes different launches on the same vectors.
        launch : callable
            Always the same launches for the same vectors and level.
        """
        key = (*map(id, vectors), *level)
        state = self._graphs.get(key, 0)
        if state == 0:
            self._hold(vectors)
        if state == _LAUNCHES_BEFORE_GRAPH:
            graph = current().capture(launch)
            state = graph if self._agreed(graph is not None) else _LAUNCHES_BEFORE_GRAPH + 1
            self._graphs[key] = state
        if not isinstance(state, int):
            state.launch()
            return
        if state < _LAUNCHES_BEFORE_GRAPH:
            self._graphs[key] = state + 1
        launch()

    def prepare(
        self,
        pair: tuple[Vector, Vector],
        memory: Callable[[Vector], Any],
        level: tuple[float, ...],
        launch: Callable[[Vector, Vector], None],
    ) -> None:
        """Capture the graphs of ``launch(x, out)`` and ``launch(out, x)`` before the first `run`; no kernel runs.

        `run` gets the ``memory`` of the vectors. Where capture fails, it launches the kernels.
        """
        for x, out in (pair, pair[::-1]):
            vectors = memory(x), memory(out)
            self._hold(vectors)
            graph = current().capture(partial(launch, x, out))
            if graph is not None:
                self._graphs[(*map(id, vectors), *level)] = graph

    def _hold(self, vectors: tuple[Any, ...]) -> None:
        if not all(any(vector is held for held in self._vectors) for vector in vectors):
            self._graphs.clear()
            self._vectors = vectors

    def clear(self) -> None:
        """Release vectors and graphs."""
        self._vectors = ()
        self._graphs.clear()
