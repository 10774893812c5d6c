"""The strategy by which sweeps traverse a graph's edges; see ``persistent/strategies.cuh``."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    COMPRESSED_GATHER,
    DIRECT_GATHER,
    ERROR_FEEDBACK_STRATEGIES,
    HUB_CACHE_GATHER,
    IN_CACHE_GATHER,
    INNER_BLOCKED,
    INNER_TILED_GATHER,
    Strategy,
)
from cpms.backends.cuda.persistent import compressed_indices, propagation_blocking, tiled_gather
from cpms.backends.cuda.persistent.compressed_indices import Codes
from cpms.backends.cuda.persistent.propagation_blocking import Deal
from cpms.backends.cuda.persistent.tiled_gather import Bins
from cpms.backends.cuda.persistent.warp_ranges import Stretches
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr

_FLOAT64_BYTES = 8
_DEALT_BYTES = 32
"""Bytes a slot that must be free for what is dealt and how, and for sorting it."""
_VECTOR_BYTES = 56
"""Bytes a node that must be left for the vectors of a solve."""
_NODE_BYTES = 14
"""What low sweeps that add up stream of a node, as those did by which it was measured beyond which size codes pay."""
_LEAST_HOT = 0.5
"""Share of slots at the nodes of whose 16-bit values there is room, from which having the first nodes' values in shared
memory was faster on an H200; of values in float64 a quarter as many are there."""


class Wanted(NamedTuple):
    """Ways that somebody wants (True), does not want (False), or that are taken where they pay (None).

    There is one way: codes, if wanted, else one of the others; or codes where these pay and none of the others does.
    Graphs in the device's cache have their own, ``cached``, unless another is wanted. With ``carry`` nodes keep what
    rounding loses.
    """

    hot: bool | None = None
    bins: bool | None = None
    deal: bool | None = None
    codes: bool | None = None
    cached: bool | None = None
    carry: bool | None = None

    def error_feedback(self, way: Strategy, *, converges_fast: bool) -> bool:
        """Return whether nodes are to keep what rounding loses: where values are dealt, or what is left fades fast."""
        if way not in ERROR_FEEDBACK_STRATEGIES:
            return False
        return way in (ALL_BLOCKED, INNER_BLOCKED) or converges_fast if self.carry is None else self.carry

    @property
    def as_cached(self) -> bool | None:
        """Whether edges are to be cut for graphs in the cache."""
        return False if self.hot or self.bins or self.deal or self.codes else self.cached


WHAT_PAYS = Wanted()


class Hot(NamedTuple):
    """The first of so many values are in shared memory."""

    values: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        return np.uint32(HUB_SHARED_BYTES), np.uint32(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return 0


class Cached(NamedTuple):
    """The graph is in the cache: there is nothing besides its sources."""

    nbytes: int = 0


class Coded(NamedTuple):
    """Sources are named by codes.

    Parameters
    ----------
    codes : Codes
    following : device array of uint32, shape (2 * steps,)
        The step that a warp walks behind each, and its head.
    """

    codes: Codes
    following: Any

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        return *self.codes.arguments, self.following

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return self.codes.nbytes + int(self.following.nbytes)


class Ways(NamedTuple):
    """What sweeps go over besides sources.

    Parameters
    ----------
    hot : Hot, optional
    bins : Bins, optional
        That list what low sweeps ask for.
    low, full : Deal, optional
        Of what low sweeps, and float64 sweeps, ask for.
    coded : Coded, optional
        In place of sources.
    cached : Cached, optional
    """

    hot: Hot | None = None
    bins: Bins | None = None
    low: Deal | None = None
    full: Deal | None = None
    coded: Coded | None = None
    cached: Cached | None = None

    @classmethod
    def of(
        cls,
        edges: Stretches,
        slots: padded_csr.PaddedCsr,
        nodes: int,
        value_bytes: int = MAX_STAGED_BYTES,
        wanted: Wanted = WHAT_PAYS,
    ) -> Ways:
        """Return the way that is wanted, or pays, and for which a block has room.

        One pays where the graph has outgrown the device's cache, and samples of the edges promise that hardly two
        gather from one place (values are dealt), that lists are short (bins), or that most begin at the first nodes;
        or else where codes are enough smaller than sources.

        Parameters
        ----------
        value_bytes : int
            What most sweeps read of a node: 8 where all are in float64.
        """
        if edges.cached:
            return cls(cached=Cached())
        choice = _Choice(edges, slots, nodes, edges.nbytes > current().cache_bytes)
        if edges.shape == SHARED_MEMORY_SHAPE and not wanted.codes:
            found = cls._of_shared(choice, value_bytes, wanted)
            if found.way != DIRECT_GATHER:
                return found
        return cls(coded=choice.coded(wanted=wanted.codes))

    @classmethod
    def _of_shared(cls, choice: _Choice, value_bytes: int, wanted: Wanted) -> Ways:
        """Return a way by shared memory, if one is wanted or pays."""
        nodes = choice.nodes
        deal = False if wanted.hot or wanted.bins else wanted.deal
        hot = False if wanted.bins else wanted.hot
        if value_bytes > MAX_STAGED_BYTES:
            outgrown = value_bytes * nodes > current().cache_bytes
            full = choice.dealt(value_bytes, wanted=deal) if deal or outgrown else None
            return cls(full=full) if full else cls(hot=choice.hot(wanted=hot))
        low = choice.dealt(MAX_STAGED_BYTES, wanted=deal)
        if low:
            return cls(low=low, full=choice.dealt(_FLOAT64_BYTES, wanted=deal))
        listed = choice.listed(wanted=False if wanted.hot else wanted.bins)
        return cls(bins=listed) if listed else cls(hot=choice.hot(wanted=hot))

    @property
    def way(self) -> Strategy:
        """The way, where low sweeps read values that bins may hold."""
        chosen = (
            *((self.full, ALL_BLOCKED), (self.low, INNER_BLOCKED), (self.bins, INNER_TILED_GATHER)),
            *((self.hot, HUB_CACHE_GATHER), (self.coded, COMPRESSED_GATHER), (self.cached, IN_CACHE_GATHER)),
        )
        return next((way for part, way in chosen if part is not None), DIRECT_GATHER)

    def arguments(self, way: Strategy) -> tuple[Any, ...]:
        """Return what a kernel takes besides sources, in its order."""
        taken = {
            ALL_BLOCKED: (self.full, self.low),
            INNER_BLOCKED: (self.low,),
            INNER_TILED_GATHER: (self.bins,),
            HUB_CACHE_GATHER: (self.hot,),
            COMPRESSED_GATHER: (self.coded,),
        }
        return tuple(argument for part in taken.get(way, ()) if part is not None for argument in part.arguments)

    def read_of(self, edges: Stretches) -> Stretches:
        """Return what sweeps read of the edges: no sources where these have codes."""
        return replace(edges, sources=current().arrays.zeros(1, np.uint32)) if self.coded else edges

    @property
    def degree_bytes(self) -> int:
        """Bytes of a node's degree, as sweeps read it."""
        return 1 if self.way.byte_degrees else 4

    @property
    def slot_bytes(self) -> float:
        """Bytes of a slot's source and mark, on average, where sweeps go over sources."""
        return padded_csr.FLAG_BYTES + self.coded.codes.slot_bytes if self.coded else padded_csr.ENTRY_BYTES

    def streamed_bytes(self, value_bytes: int) -> float | None:
        """Return the bytes that a sweep which reads values of a size streams for edges in bins; None without."""
        if value_bytes == _FLOAT64_BYTES:
            return self.full.streamed_bytes(value_bytes) if self.full else None
        if value_bytes > MAX_STAGED_BYTES:
            return None
        if self.low:
            return self.low.streamed_bytes(value_bytes)
        return self.bins.streamed_bytes if self.bins else None

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return sum(part.nbytes for part in self if part is not None)


PLAIN = Ways()


@dataclass(frozen=True)
class _Choice:
    edges: Stretches
    slots: padded_csr.PaddedCsr
    nodes: int
    large: bool

    def dealt(self, value_bytes: int, *, wanted: bool | None) -> Deal | None:
        if not self._may(wanted, BLOCKING_SHARED_BYTES):
            return None
        slots, blocks = self._sources.size, self.edges.blocks
        room = current().free_bytes() >= _DEALT_BYTES * slots + _VECTOR_BYTES * self.nodes
        is_worthwhile = wanted or (
            room and propagation_blocking.has_long_cells(slots, self.nodes, value_bytes) and self._scattered
        )
        return Deal.of(self._sources, self.slots, self.nodes, blocks, value_bytes) if is_worthwhile else None

    def listed(self, *, wanted: bool | None) -> Bins | None:
        if not self._may(wanted, PANEL_SHARED_BYTES):
            return None
        is_worthwhile = wanted or tiled_gather.pay(self._sources)
        return Bins.of(self._sources, self.edges.marks, self.slots, self.edges.blocks) if is_worthwhile else None

    def hot(self, *, wanted: bool | None) -> Hot | None:
        if not self._may(wanted, HUB_SHARED_BYTES):
            return None
        first = HUB_SHARED_BYTES // MAX_STAGED_BYTES
        is_worthwhile = wanted or access_sampling.fraction_below(self._sources, first) >= _LEAST_HOT
        return Hot(vector_length(self.nodes)) if is_worthwhile else None

    def coded(self, *, wanted: bool | None) -> Coded | None:
        streamed = self.edges.nbytes + _NODE_BYTES * self.nodes
        if not (streamed > current().cache_bytes if wanted is None else wanted):
            return None
        arrays = current().arrays
        heads = compressed_indices.find_heads(self._sources, self.nodes)
        if not (wanted or compressed_indices.pay(heads, self.nodes)):
            return None
        made = Codes.of(self._sources, self.nodes, heads)
        begins = current().to_host(self.edges.begins).astype(np.int64)
        behind = arrays.asarray(
            compressed_indices.following(begins, self.edges.blocks * self.edges.shape.warps).astype(np.uint32)
        )
        pairs = arrays.empty((made.steps, 2), np.uint32)
        pairs[:, 0], pairs[:, 1] = behind, made.heads[behind]
        return Coded(made, pairs.reshape(-1))

    def _may(self, wanted: bool | None, shared: int) -> bool:
        return current().max_shared_bytes >= shared and (self.large if wanted is None else wanted)

    @cached_property
    def _sources(self) -> Any:
        return padded_csr.from_lanes(self.edges.sources, 32)

    @cached_property
    def _scattered(self) -> bool:
        return propagation_blocking.is_scattered(self._sources, self.slots.edges)
