"""Launches that come again on the same vectors, as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from cpms.backends.cuda.runtime.current import current

Vector = TypeVar("Vector")
_LAUNCHES_BEFORE_GRAPH = 2
"""Making a graph costs about as much as it saves in a few launches."""


class Replays:
    """What has been launched on a pair of vectors, and the graphs made of it.

    A graph holds addresses, so the vectors whose addresses these are stay alive as long as it does;
    what else it touches must belong to the owner of the replays. Other vectors end the graphs.

    Parameters
    ----------
    agreed : callable, optional
        Says whether a graph is used, given whether one could be made: where several devices work together,
        they all launch graphs or none does.
    """

    def __init__(self, agreed: Callable[[bool], bool] = bool) -> None:
        self._agreed = agreed
        self._vectors: tuple[Any, ...] = ()
        self._known: dict[tuple[float, ...], Any] = {}

    def run(self, vectors: tuple[Any, ...], level: tuple[float, ...], launch: Callable[[], None]) -> None:
        """Do ``launch``, which launches kernels on ``vectors`` and nothing else, or what it did before.

        Parameters
        ----------
        vectors : device arrays, or objects that own some
        level : numbers
            What tells launches on the same vectors apart.
        launch : callable
            Always the same launches for the same vectors and level.
        """
        key = (*map(id, vectors), *level)
        known = self._known.get(key, 0)
        if known == 0:
            self._hold(vectors)
        if known == _LAUNCHES_BEFORE_GRAPH:
            graph = current().captured(launch)
            known = graph if self._agreed(graph is not None) else _LAUNCHES_BEFORE_GRAPH + 1
            self._known[key] = known
        if not isinstance(known, int):
            known.launch()
            return
        if known < _LAUNCHES_BEFORE_GRAPH:
            self._known[key] = known + 1
        launch()

    def prepare(
        self,
        pair: tuple[Vector, Vector],
        memory: Callable[[Vector], Any],
        level: tuple[float, ...],
        launch: Callable[[Vector, Vector], None],
    ) -> None:
        """Make the graphs of ``launch(x, out)`` and ``launch(out, x)`` ahead of `run`; nothing runs.

        `run` will be given the ``memory`` of the vectors. Where graphs cannot be made, it launches.
        """
        for x, out in (pair, pair[::-1]):
            vectors = memory(x), memory(out)
            self._hold(vectors)
            graph = current().captured(partial(launch, x, out))
            if graph is not None:
                self._known[(*map(id, vectors), *level)] = graph

    def _hold(self, vectors: tuple[Any, ...]) -> None:
        if not all(any(vector is held for held in self._vectors) for vector in vectors):
            self._known.clear()
            self._vectors = vectors

    def clear(self) -> None:
        """Let go of vectors and graphs."""
        self._vectors = ()
        self._known.clear()
