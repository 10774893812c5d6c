"""Choice of the strategy by which persistent sweeps traverse a graph's edges; see ``persistent/strategies.cuh``.

A sweep is a sparse matrix-vector product whose gathers of x limit its speed. Graphs in the device's cache take a
segmented sum in cache; larger ones take deterministic propagation blocking, a tiled gather or a hub cache, and a direct
gather otherwise. The choice rests on sampled locality (`cpms.backends.cuda.arrays.access_sampling`), so it costs little
beside building the layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.launch_shape import (
    BLOCKING_SHARED_BYTES,
    HUB_SHARED_BYTES,
    MAX_STAGED_BYTES,
    PANEL_SHARED_BYTES,
    SHARED_MEMORY_SHAPE,
)
from cpms.backends.cuda.kernels.persistent import (
    ALL_BLOCKED,
    DIRECT_GATHER,
    ERROR_FEEDBACK_STRATEGIES,
    HUB_CACHE_GATHER,
    IN_CACHE_GATHER,
    INNER_BLOCKED,
    INNER_TILED_GATHER,
    Strategy,
)
from cpms.backends.cuda.kernels.structs import PROPAGATION_BLOCKING
from cpms.backends.cuda.persistent import propagation_blocking, tiled_gather
from cpms.backends.cuda.persistent.propagation_blocking import PropagationBlocking
from cpms.backends.cuda.persistent.tiled_gather import Panels
from cpms.backends.cuda.persistent.warp_ranges import WarpRanges
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr

_FLOAT64_BYTES = 8
_BLOCKING_BYTES = 32
"""Bytes an entry that must be free to build propagation blocking: its values and indices, and the sort."""
_VECTOR_BYTES = 56
"""Bytes a node that must stay free for the vectors of a solve."""
_MIN_HUB_SHARE = 0.5
"""Share of entries whose 16-bit values fit into the hub cache, from which the hub cache was faster on an H200. Of
float64 values, a quarter as many fit.
"""


class StrategyRequest(NamedTuple):
    """Strategies that are required (True), excluded (False), or chosen where they are worthwhile (None).

    A graph has one strategy. Graphs in the device's cache take ``in_cache`` unless another strategy is required. With
    ``error_feedback`` nodes keep their rounding errors.
    """

    hub_cache: bool | None = None
    tiled_gather: bool | None = None
    propagation_blocking: bool | None = None
    in_cache: bool | None = None
    error_feedback: bool | None = None

    def uses_error_feedback(self, strategy: Strategy, *, converges_fast: bool) -> bool:
        """Return whether nodes keep rounding errors: by default under propagation blocking or fast convergence."""
        if strategy not in ERROR_FEEDBACK_STRATEGIES:
            return False
        if self.error_feedback is None:
            return strategy in (ALL_BLOCKED, INNER_BLOCKED) or converges_fast
        return self.error_feedback

    @property
    def cut_for_cache(self) -> bool | None:
        """Whether warp ranges are cut for graphs in the cache; None leaves it to the graph's size."""
        others = self.hub_cache, self.tiled_gather, self.propagation_blocking
        return False if any(others) else self.in_cache


AUTO = StrategyRequest()


class HubCache(NamedTuple):
    """Shared memory holds the values of the first nodes, the hubs after degree reordering.

    ``values`` is the length of x.
    """

    values: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Kernel arguments, in order."""
        return np.uint32(HUB_SHARED_BYTES), np.uint32(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return 0


class InCache(NamedTuple):
    """The graph fits in the cache; the strategy needs nothing besides sources."""

    nbytes: int = 0


class StrategyData(NamedTuple):
    """Device data of a graph's strategy, besides its sources.

    Parameters
    ----------
    hub_cache : HubCache, optional
    panels : Panels, optional
        Of the tiled gather of inner sweeps.
    inner_blocking, residual_blocking : PropagationBlocking, optional
        Of inner sweeps, and of float64 residual sweeps.
    in_cache : InCache, optional
    """

    hub_cache: HubCache | None = None
    panels: Panels | None = None
    inner_blocking: PropagationBlocking | None = None
    residual_blocking: PropagationBlocking | None = None
    in_cache: InCache | None = None

    @classmethod
    def of(
        cls,
        edges: WarpRanges,
        entries: padded_csr.PaddedCsr,
        nodes: int,
        value_bytes: int = MAX_STAGED_BYTES,
        request: StrategyRequest = AUTO,
    ) -> StrategyData:
        """Build the strategy that is required or worthwhile, among those whose shared memory a block has.

        A strategy is worthwhile where the graph exceeds the device's cache and sampled edges promise scattered gathers
        (propagation blocking), short lists of octets (tiled gather) or most sources among the first nodes (hub
        cache).

        Parameters
        ----------
        value_bytes : int
            Size of the values that most sweeps gather: 8 where all are in float64.
        """
        if edges.in_cache:
            return cls(in_cache=InCache())
        if edges.shape != SHARED_MEMORY_SHAPE:
            return cls()
        choice = _Choice(edges, entries, nodes, edges.nbytes > current().cache_bytes)
        return cls._in_shared_memory(choice, value_bytes, request)

    @classmethod
    def _in_shared_memory(cls, choice: _Choice, value_bytes: int, request: StrategyRequest) -> StrategyData:
        """Build a strategy that stages values in shared memory, if one is required or worthwhile."""
        nodes = choice.nodes
        blocking = False if request.hub_cache or request.tiled_gather else request.propagation_blocking
        hub_cache = False if request.tiled_gather else request.hub_cache
        if value_bytes > MAX_STAGED_BYTES:
            outgrown = value_bytes * nodes > current().cache_bytes
            residual = choice.blocking(value_bytes, required=blocking) if blocking or outgrown else None
            if residual:
                return cls(residual_blocking=residual)
            return cls(hub_cache=choice.hub_cache(required=hub_cache))
        inner = choice.blocking(MAX_STAGED_BYTES, required=blocking)
        if inner:
            return cls(inner_blocking=inner, residual_blocking=choice.blocking(_FLOAT64_BYTES, required=blocking))
        panels = choice.panels(required=False if request.hub_cache else request.tiled_gather)
        return cls(panels=panels) if panels else cls(hub_cache=choice.hub_cache(required=hub_cache))

    @property
    def strategy(self) -> Strategy:
        """The strategy, for inner sweeps whose values fit its shared memory."""
        by_part = (
            (self.residual_blocking, ALL_BLOCKED),
            (self.inner_blocking, INNER_BLOCKED),
            (self.panels, INNER_TILED_GATHER),
            (self.hub_cache, HUB_CACHE_GATHER),
            (self.in_cache, IN_CACHE_GATHER),
        )
        return next((strategy for part, strategy in by_part if part is not None), DIRECT_GATHER)

    def arguments(self, strategy: Strategy, rows: int) -> tuple[Any, ...]:
        """Return the kernel arguments of a strategy besides `WarpRanges`, in order, for so many rows."""
        if strategy == ALL_BLOCKED:
            both = self.residual_blocking, self.inner_blocking
            return tuple(pack(PROPAGATION_BLOCKING) if each is None else each.argument for each in both)
        if strategy == INNER_BLOCKED and self.inner_blocking:
            return (self.inner_blocking.argument,)
        if strategy == INNER_TILED_GATHER and self.panels:
            return (self.panels.argument(rows),)
        return self.hub_cache.arguments if strategy == HUB_CACHE_GATHER and self.hub_cache else ()

    @property
    def degree_bytes(self) -> int:
        """Bytes of a node's degree, as sweeps read it."""
        return 1 if self.strategy.byte_degrees else 4

    def streamed_bytes(self, value_bytes: int) -> float | None:
        """Return the bytes that blocking or panels stream a sweep for values of a size; None without either."""
        if value_bytes == _FLOAT64_BYTES:
            return self.residual_blocking.streamed_bytes(value_bytes) if self.residual_blocking else None
        if value_bytes > MAX_STAGED_BYTES:
            return None
        if self.inner_blocking:
            return self.inner_blocking.streamed_bytes(value_bytes)
        return self.panels.streamed_bytes if self.panels else None

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return sum(part.nbytes for part in self if part is not None)


DIRECT_GATHER_DATA = StrategyData()


@dataclass(frozen=True)
class _Choice:
    """Builds one strategy, where it is required or worthwhile."""

    edges: WarpRanges
    entries: padded_csr.PaddedCsr
    nodes: int
    exceeds_cache: bool

    def blocking(self, value_bytes: int, *, required: bool | None) -> PropagationBlocking | None:
        if not self._may(required, BLOCKING_SHARED_BYTES):
            return None
        entries, blocks = self._sources.size, self.edges.blocks
        fits = current().free_bytes() >= _BLOCKING_BYTES * entries + _VECTOR_BYTES * self.nodes
        is_worthwhile = required or (
            fits and propagation_blocking.has_long_cells(entries, self.nodes, value_bytes) and self._scattered
        )
        if not is_worthwhile:
            return None
        return PropagationBlocking.of(self._sources, self.entries, self.nodes, blocks, value_bytes)

    def panels(self, *, required: bool | None) -> Panels | None:
        if not self._may(required, PANEL_SHARED_BYTES):
            return None
        if not (required or tiled_gather.is_worthwhile(self._sources)):
            return None
        return Panels.of(self._sources, self.edges.row_end_flags, self.entries, self.edges.blocks)

    def hub_cache(self, *, required: bool | None) -> HubCache | None:
        if not self._may(required, HUB_SHARED_BYTES):
            return None
        hubs = HUB_SHARED_BYTES // MAX_STAGED_BYTES
        is_worthwhile = required or access_sampling.fraction_below(self._sources, hubs) >= _MIN_HUB_SHARE
        return HubCache(vector_length(self.nodes)) if is_worthwhile else None

    def _may(self, required: bool | None, shared: int) -> bool:
        return current().max_shared_bytes >= shared and (self.exceeds_cache if required is None else required)

    @cached_property
    def _sources(self) -> Any:
        return padded_csr.from_lanes(self.edges.sources, 32)

    @cached_property
    def _scattered(self) -> bool:
        return propagation_blocking.is_scattered(self._sources, self.entries.edges)
