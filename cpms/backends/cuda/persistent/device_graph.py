"""A graph in device memory for persistent kernels: one cooperative launch runs many sweeps.

Holds the pattern of the transition matrix as warp ranges of tiles, degrees, teleport and dangling distributions, and
the workspace of the grid barrier. Degree reordering and the gather strategy are chosen by sampled locality. A
persistent launch saves a kernel launch and a host round trip a sweep. See ``persistent/segmented_sum.cuh`` and
``pagerank/sweep_epilogues.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays.codec import as_float64
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.persistent import ALL_BLOCKED, Strategy
from cpms.backends.cuda.kernels.template import CONTRIBUTIONS, Variant
from cpms.backends.cuda.persistent.equal_ranges import equal_ranges
from cpms.backends.cuda.persistent.strategies import AUTO, DIRECT_GATHER_DATA, StrategyData, StrategyRequest
from cpms.backends.cuda.persistent.warp_ranges import WarpRanges
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr, reordering
from cpms.problems.pagerank import Problem
from cpms.storage.device import on_device

_NULL = np.uint64(0)
_OVERFLOW_DEGREE = 255
"""Marks a degree that does not fit in a byte; as in ``pagerank/nodes.cuh``."""
_TO_CONTRIBUTIONS, _FROM_CONTRIBUTIONS, _FILL_UNIFORM, _DEGREE_BYTES = CONTRIBUTIONS
_SHORT_RANGE = 4
_OUTGROWN = {2: 0.5, 8: 1.0}
"""Parts of the cache that values must exceed for short warp ranges to be faster on an H200, by the bytes of a value."""
_MAX_PARTIALS, _LINE_WORDS = 45, 32
"""Most numbers that a block adds to a reduction over the grid (``persistent/grid_sync.cuh``), and words of a line."""


@dataclass(frozen=True)
class Arrangement:
    """Layout of a graph in device memory; experiments measure each choice.

    Parameters
    ----------
    reorder : bool
        Order nodes by out-degree where sampled edges promise fewer memory transactions.
    range_tiles : int, optional
        Tiles of 256 edges in a warp range, 2 or more; warps process ranges in turn, so that all gather from nearby
        nodes at a time. 0 is one long range a warp. By default ranges are short where the gathered values exceed the
        device's cache.
    warps : int, optional
        Warps a multiprocessor, a key of `cpms.backends.cuda.kernels.launch_shape.SHAPES`. By default chosen by
        sampled edges.
    request : StrategyRequest
        Gather strategy of sweeps with 16 warps; by default a worthwhile one.
    balanced : bool
        Balance warps by the cache lines that their gathers touch too, and let the blocks of graphs in the device's
        cache begin with rows. Otherwise sweeps gather directly, in the graph's order, over equal shares of rows and
        tiles; `request` and `reorder` do not matter.
    """

    reorder: bool = True
    range_tiles: int | None = None
    warps: int | None = None
    request: StrategyRequest = AUTO
    balanced: bool = True

    def tiles_per_range(self, nodes: int, value_bytes: int = 2) -> int:
        """Return the tiles of a warp range in a graph of ``nodes`` sources; 0 for one long range a warp.

        Sweeps gather 2 bytes a node, or 8 where all of them are in float64.
        """
        if self.range_tiles is not None:
            return self.range_tiles
        outgrown = value_bytes * nodes > _OUTGROWN[value_bytes] * current().cache_bytes
        return _SHORT_RANGE if outgrown else 0


DEFAULT = Arrangement()
_QUICK = Arrangement(reorder=False, balanced=False)
"""The arrangement that takes the least time: a direct gather over equal shares of the edges."""
_MIN_WORK = 1 << 27
"""Edges, times solves, from which better sweeps repay the samples and passes of `DEFAULT`: on an H100 those take 5 to
10 ms, and make solves a tenth faster in the mean.
"""


def arrangement_for(edges: int, solves: int) -> Arrangement:
    """Return the layout with the least time in all of preparation and so many solves.

    Examples
    --------
    >>> arrangement_for(10**6, 1).balanced, arrangement_for(10**6, 1000) == DEFAULT
    (False, True)
    """
    return DEFAULT if edges * solves >= _MIN_WORK else _QUICK


def _as_bytes(counts: Any) -> Any:
    made = current().arrays.empty(len(counts), np.uint8)
    arguments = counts, np.uint32(len(counts)), np.uint32(_OVERFLOW_DEGREE), made
    current().run(_DEGREE_BYTES, current().grid_size(len(counts)), arguments)
    return made


def barrier(blocks: int) -> tuple[Any, Any]:
    """Return the workspace of the grid barrier for ``blocks`` blocks: partial sums, and lines of arrival counts."""
    arrays = current().arrays
    return arrays.zeros(2 * _MAX_PARTIALS * blocks, np.float64), arrays.zeros(3 * _LINE_WORDS, np.uint32)


@dataclass(frozen=True, eq=False)
class PersistentGraph:
    """A graph in the layout of persistent kernels, and the workspace of the grid barrier, in device memory.

    Values are stored as contributions x / out-degree, or as x itself on dangling nodes. ``order`` is the node at each
    position, if nodes are reordered. In a trimmed core ``internal_degree`` counts the edges of each node within the
    core, and ``degree`` all of its edges. ``row_begins``, the first entry of each row, is present where nodes may keep
    rounding errors and dangling mass follows teleport; see ``pagerank/error_feedback.cuh``.
    """

    nodes: int
    damping: float
    edges: WarpRanges
    degree: Any
    sink: Any
    teleport: Any
    order: Any | None
    internal_degree: Any | None = None
    strategy_data: StrategyData = DIRECT_GATHER_DATA
    row_begins: Any | None = None
    barrier: tuple[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "barrier", barrier(self.edges.blocks))

    @classmethod
    def of(
        cls,
        problem: Problem,
        arrangement: Arrangement = DEFAULT,
        value_bytes: int = 2,
        *,
        rows: padded_csr.Rows | None = None,
        converges_fast: bool = False,
    ) -> PersistentGraph:
        """Arrange a problem's graph on the device, for sweeps that gather ``value_bytes`` a value.

        ``rows`` are the graph's rows on the device, if present. ``converges_fast`` is the convergence estimate's
        result.
        """
        upload, graph = current().upload, problem.graph
        rows = rows or padded_csr.DeviceRows.of(graph)
        degree = padded_csr.out_degree(graph, rows)
        chosen = reordering.chosen(graph, degree) if arrangement.balanced and arrangement.reorder else None

        def placed(values: Any) -> Any:
            return values if chosen is None or len(values) == 1 else values[chosen.order]

        tiles = arrangement.tiles_per_range(graph.nodes, value_bytes)
        if arrangement.balanced:
            edges, entries = WarpRanges.of(
                *(padded_csr.PaddedCsr.of(rows, chosen), rows, tiles),
                value_bytes=value_bytes,
                warps=arrangement.warps,
                in_cache=arrangement.request.cut_for_cache,
            )
            row_begins = entries.starts
            strategy_data = StrategyData.of(edges, entries, graph.nodes, value_bytes, arrangement.request)
        else:
            on_card = padded_csr.DeviceRows.of(rows)
            edges, row_begins = equal_ranges(on_card, tiles, value_bytes=value_bytes, warps=arrangement.warps)
            strategy_data = DIRECT_GATHER_DATA
        error_feedback = problem.dangling_follows_teleport and arrangement.request.uses_error_feedback(
            strategy_data.strategy, converges_fast=converges_fast
        )
        return cls(
            nodes=graph.nodes,
            damping=problem.damping,
            edges=edges,
            degree=placed(degree),
            sink=placed(upload(problem.sink_or_scalar)),
            teleport=placed(upload(problem.teleport_or_scalar)),
            order=None if chosen is None else chosen.order,
            strategy_data=strategy_data,
            row_begins=row_begins if error_feedback else None,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        as_bytes = self.nodes if self.strategy_data.strategy.byte_degrees else 0
        return self.edges.nbytes + int(self.degree.nbytes) + as_bytes + self.strategy_data.nbytes

    @property
    def personal(self) -> bool:
        """Whether teleport or dangling mass is distributed non-uniformly."""
        return bool(self.sink.size > 1 or self.teleport.size > 1)

    def node_argument(self, strategy: Strategy | None = None) -> Struct:
        """Return the kernel argument of the nodes, with degrees as bytes for strategies that read these."""
        as_bytes = strategy is not None and strategy.byte_degrees
        return pack(
            structs.NODES,
            degree=self.degree,
            sink=self.sink,
            teleport=self.teleport,
            sink_stride=self.sink.size > 1,
            teleport_stride=self.teleport.size > 1,
            count=self.nodes,
            damping=self.damping,
            internal_degree=self.internal_degree,
            degree_bytes=self._degree_bytes if as_bytes else None,
            internal_degree_bytes=self._internal_degree_bytes if as_bytes else None,
        )

    @cached_property
    def _degree_bytes(self) -> Any:
        return _as_bytes(self.degree)

    @cached_property
    def _internal_degree_bytes(self) -> Any | None:
        return None if self.internal_degree is None else _as_bytes(self.internal_degree)

    @cached_property
    def rounded_start(self) -> Struct:
        """The kernel argument of a rounded start: first entries of rows, inflow per edge, a bound of contributions."""
        return self.rounded_start_of(*self.row_entries, self.nodes)

    @property
    def row_entries(self) -> tuple[int, int]:
        """The entries of all rows, and of the longest."""
        begins: Any = self.row_begins
        if not self.nodes:
            return 0, 0
        return int(current().to_host(begins[-1:])[0]), int(current().to_host((begins[1:] - begins[:-1]).max()))

    def rounded_start_of(self, count: int, longest: int, nodes: int) -> Struct:
        """Return the argument of a rounded start where all rows have so many entries, and the longest so many."""
        per_entry, teleport = self.damping / count, 1.0 if self.personal else 1.0 / nodes
        largest = (1.0 - self.damping) * teleport + per_entry * longest
        return pack(structs.ROUNDED_START, row_begins=self.row_begins, per_edge=per_entry, largest=largest)

    def arguments(self, strategy: Strategy) -> tuple[Any, ...]:
        """Return the kernel arguments of edges and nodes, in order."""
        edges = () if strategy == ALL_BLOCKED else (self.edges.argument(self.nodes),)
        return *edges, *self.strategy_data.arguments(strategy, self.nodes), self.node_argument(strategy)

    def launch(self, variant: Variant, arguments: tuple[Any, ...]) -> None:
        """Launch a persistent kernel."""
        current().run_persistent(variant, self.edges.blocks, arguments)

    def contributions(self, values: Any, out: Any | None = None) -> Any:
        """Return float64 values of the nodes, in host or device memory, as contributions, zero-padded.

        The result is ``out`` if given.
        """
        arrays = current().arrays
        source = as_float64(values) if on_device(values) else current().upload(values)
        out_vector = arrays.zeros(vector_length(self.nodes), np.float64) if out is None else out
        self._move(_TO_CONTRIBUTIONS, source, out_vector)
        return out_vector

    def uniform(self) -> Any:
        """Return the uniform distribution on the device."""
        made = current().arrays.empty(self.nodes, np.float64)
        current().run(_FILL_UNIFORM, current().grid_size(self.nodes), (np.uint32(self.nodes), made))
        return made

    def values(self, contributions: Any) -> Any:
        """Return the nodes' values on the device."""
        out_vector = current().arrays.empty(self.nodes, np.float64)
        self._move(_FROM_CONTRIBUTIONS, contributions, out_vector)
        return out_vector

    def _move(self, kernel: Variant, source: Any, out_vector: Any) -> None:
        order = _NULL if self.order is None else self.order
        arguments = order, self.degree, np.uint32(self.nodes), source, out_vector
        current().run(kernel, current().grid_size(self.nodes), arguments)
