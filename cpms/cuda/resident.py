"""A graph in device memory for kernels that stay for many sweeps; see ``walk.cuh`` and ``rounds.cuh``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.cuda import arrange, bins, numbering
from cpms.cuda.backend import current
from cpms.cuda.bins import Bins
from cpms.cuda.segmented import doubles
from cpms.cuda.shape import BINNED, BINNED_BYTES, SHAPES, Shape
from cpms.cuda.variants import SHARES, WHOLE_VALUES, Variant
from cpms.cuda.vectors import vector_length
from cpms.engine import Problem
from cpms.segmented import on_device

_TO_SHARES, _FROM_SHARES = SHARES
_SHORT_STRETCH = 4
_OUTGROWN = {2: 0.5, 8: 1.0}
"""Shares of the cache from which short stretches were faster on an H200, by the bytes of a value."""
_MOST_TOTALS = 6
"""``most_totals`` of ``resident.cuh``."""
_NODE_BYTES = 16
"""What a low sweep streams of a node."""


@dataclass(frozen=True)
class Arrangement:
    """How a graph lies in device memory; what each choice buys is for experiments to tell.

    Parameters
    ----------
    renumber : bool
        Order nodes by out-degree where samples of the edges promise fewer memory transactions.
    stretch_steps : int, optional
        Steps of 256 edges in a stretch, 2 or more, which warps take in turn, so that all work near each
        other; 0 is one long stretch a warp. By default short ones where the values that sweeps gather have
        outgrown the device's cache, which halves the time of a sweep on a random geometric graph.
    warps : int, optional
        Warps a multiprocessor, one of `SHAPES`. By default as samples of the edges promise.
    bins : bool, optional
        Whether low sweeps of 16 warps take edges in bins; see `cpms.cuda.bins`. By default where the graph has
        outgrown the device's cache and samples of the edges promise short lists.
    """

    renumber: bool = True
    stretch_steps: int | None = None
    warps: int | None = None
    bins: bool | None = None

    def steps_for(self, nodes: int, value_bytes: int = 2) -> int:
        """Return the steps in a stretch where edges begin at so many nodes, 0 for one long stretch a warp.

        Sweeps gather 2 bytes a node, or 8 where all of them are in float64.
        """
        if self.stretch_steps is not None:
            return self.stretch_steps
        outgrown = value_bytes * nodes > _OUTGROWN[value_bytes] * current().cache_bytes
        return _SHORT_STRETCH if outgrown else 0


DEFAULT = Arrangement()


@dataclass(frozen=True, eq=False)
class Stretches:
    """Edges in slots, cut into stretches of steps for warps that stay.

    Parameters
    ----------
    shape : Shape
        Of the kernels.
    blocks, each, steps : int
        Of the kernels; and how many warps of a block have a stretch.
    sources, marks : device arrays
        See `cpms.cuda.arrange.Slots.place`.
    begins, first_rows, first_stretches : device arrays of uint32
        First step of each stretch and behind the last; row of its first slot; stretch in which that begins.
    pieces : device array of uint64
        What stretches leave of rows that go on in the next; all ones where there is nothing.
    """

    shape: Shape
    blocks: int
    each: int
    steps: int
    sources: Any
    marks: Any
    begins: Any
    first_rows: Any
    first_stretches: Any
    pieces: Any

    @classmethod
    def of(
        cls,
        slots: arrange.Slots,
        graph: arrange.Rows,
        stretch_steps: int,
        *,
        warps: int | None = None,
        columns: arrange.Columns | None = None,
    ) -> Stretches:
        """Cut a graph's slots; small graphs take fewer blocks."""
        arrays = current().arrays
        sources, marks, _ = slots.place(graph, columns)
        shape = SHAPES[warps or _warps_for(sources, graph.nodes)]
        most_blocks = current().resident_blocks(shape)
        sources = arrange.for_lanes(sources, 32)
        if stretch_steps == 0:
            most = most_blocks * shape.warps
            begins = _cuts(slots.rows_before(), min(most, slots.steps))
        else:
            begins = np.arange(0, slots.steps, stretch_steps)
        count = len(begins)
        # One block a multiprocessor where that is enough: a warp that shares its scheduler with few is done sooner.
        few = count <= current().processors * shape.warps
        blocks = max(1, min(most_blocks, current().processors if few else count, count))
        first_slots = arrays.asarray((begins * WHOLE_VALUES).astype(np.uint32))
        rows = arrays.searchsorted(slots.starts, first_slots, side="right") - 1
        first = arrays.searchsorted(first_slots, slots.starts[rows], side="right") - 1
        return cls(
            shape=shape,
            blocks=blocks,
            each=min(shape.warps, -(-count // blocks)),
            steps=slots.steps,
            sources=sources,
            marks=marks,
            begins=arrays.asarray(np.append(begins, slots.steps).astype(np.uint32)),
            first_rows=rows.astype(np.uint32),
            first_stretches=first.astype(np.uint32),
            pieces=arrays.full(count, np.uint64(2**64 - 1), np.uint64),
        )

    @classmethod
    def none(cls) -> Stretches:
        """Return what a kernel walks of a graph without rows."""
        arrays = current().arrays
        begins, rows, first = (arrays.zeros(1, np.uint32) for _ in range(3))
        sources, marks = arrays.zeros(WHOLE_VALUES, np.uint32), arrays.zeros(WHOLE_VALUES // 8, np.uint16)
        return cls(SHAPES[16], 1, 1, 1, sources, marks, begins, rows, first, arrays.zeros(0, np.uint64))

    def bins(self, slots: arrange.Slots, wanted: bool | None = None) -> Bins | None:
        """Return these edges in bins, or None where these do not pay or a block has no room for them."""
        fits = wanted is None and self.nbytes <= current().cache_bytes
        if wanted is False or fits or self.shape != BINNED or not current().holds_bins:
            return None
        sources = arrange.from_lanes(self.sources, 32)
        return Bins.of(sources, slots, self.blocks) if wanted or bins.pay(sources) else None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        rows = self.first_rows, self.first_stretches
        counts = np.uint32(len(self.pieces)), np.uint32(self.steps), np.uint32(self.each)
        return self.sources, self.marks, self.begins, *rows, *counts, self.pieces

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in self.arguments)


def _cuts(rows_before: npt.NDArray[np.int64], warps: int) -> npt.NDArray[np.int64]:
    """Return the first step of each warp: stretches of about equal cost, none of them empty.

    Examples
    --------
    >>> _cuts(np.array([0, 1, 2, 3, 256]), 2).tolist()
    [0, 3]
    """
    steps = len(rows_before) - 1
    cost = np.arange(steps + 1) * arrange.STEP_COST + rows_before
    places = np.arange(warps)
    cuts = np.searchsorted(cost[:-1], places * cost[-1] // max(warps, 1))
    ascending: npt.NDArray[np.int64] = np.maximum.accumulate(cuts - places) + places
    return np.minimum(ascending, steps - warps + places)


def _warps_for(sources: Any, nodes: int) -> int:
    """Return the warps a multiprocessor that sweep slots of these sources, in steps, the fastest.

    Few leave each more of the first-level cache, and meet sooner: where sectors of 16-bit values that gathers fetch are
    more bytes than those that streams bring, or all of it fits in the device's cache. Else many have more on its way.
    """
    streamed = arrange.SLOT_BYTES * sources.size + _NODE_BYTES * nodes
    if streamed <= current().cache_bytes:
        return 16
    return 16 if arrange.gathered_bytes(sources, 2) > streamed else 24


def barrier(blocks: int) -> tuple[Any, Any]:
    """Return what so many blocks tell each other: room for their totals, and counts of who came; device arrays."""
    arrays = current().arrays
    return arrays.zeros(2 * _MOST_TOTALS * blocks, np.float64), arrays.zeros(2, np.uint32)


@dataclass(frozen=True, eq=False)
class ResidentGraph:
    """Edges and nodes of a problem, and what blocks tell each other.

    Shares, by which values are kept, are x / out-degree, or x itself on dangling nodes. Where another order of
    the nodes is better for gathers, ``order`` holds the node in each place. In a core ``kept`` counts the edges of
    each node that stay in it, where ``degree`` counts all.
    """

    nodes: int
    damping: float
    edges: Stretches
    degree: Any
    sink: Any
    teleport: Any
    order: Any | None
    kept: Any | None = None
    bins: Bins | None = None
    barrier: tuple[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "barrier", barrier(self.edges.blocks))

    @classmethod
    def of(cls, problem: Problem, arrangement: Arrangement = DEFAULT, value_bytes: int = 2) -> ResidentGraph:
        """Arrange a problem's graph on the device, for sweeps that gather so many bytes a value."""
        arrays, graph = current().arrays, problem.graph
        chosen = numbering.chosen(graph) if arrangement.renumber else None

        def placed(values: Any) -> Any:
            return arrays.asarray(values if chosen is None or len(values) == 1 else values[chosen.order])

        steps = arrangement.steps_for(graph.nodes, value_bytes)
        slots = arrange.Slots.of(graph, chosen)
        edges = Stretches.of(slots, graph, steps, warps=arrangement.warps)
        return cls(
            nodes=graph.nodes,
            damping=problem.damping,
            edges=edges,
            degree=placed(graph.out_degree.astype(np.uint32)),
            sink=placed(problem.sink_or_scalar),
            teleport=placed(problem.teleport_or_scalar),
            order=None if chosen is None else arrays.asarray(chosen.order),
            bins=edges.bins(slots, arrangement.bins) if value_bytes <= BINNED_BYTES else None,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return self.edges.nbytes + int(self.degree.nbytes) + (self.bins.nbytes if self.bins else 0)

    @property
    def personal(self) -> bool:
        """Whether nodes differ in what they get of teleport or dangling mass."""
        return bool(self.sink.size > 1 or self.teleport.size > 1)

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments with which every resident kernel begins."""
        return (
            *self.edges.arguments,
            *(self.degree, self.sink, self.teleport),
            *(np.uint32(self.sink.size > 1), np.uint32(self.teleport.size > 1)),
            *(np.uint32(self.nodes), np.float64(self.damping)),
        )

    def launch(self, variant: Variant, arguments: tuple[Any, ...]) -> None:
        """Run a resident kernel."""
        current().run_resident(variant, self.edges.blocks, arguments)

    def shares(self, values: Any, out: Any | None = None) -> Any:
        """Return float64 values of the nodes, of either memory, as shares, zeros behind them; in ``out`` if given."""
        arrays = current().arrays
        given = doubles(values) if on_device(values) else arrays.asarray(values)
        made = arrays.zeros(vector_length(self.nodes), np.float64) if out is None else out
        self._move(_TO_SHARES, given, made)
        return made

    def values(self, shares: Any) -> Any:
        """Return the nodes' values, on the device."""
        made = current().arrays.empty(self.nodes, np.float64)
        self._move(_FROM_SHARES, shares, made)
        return made

    def _move(self, kernel: Variant, given: Any, made: Any) -> None:
        order = np.uint64(0) if self.order is None else self.order
        arguments = order, self.degree, np.uint32(self.nodes), given, made
        current().run(kernel, current().spread(self.nodes), arguments)
