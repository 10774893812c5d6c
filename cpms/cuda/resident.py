"""A graph in device memory for kernels that stay for many sweeps; see ``walk.cuh`` and ``rounds.cuh``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.cuda import arrange, numbering
from cpms.cuda.backend import RESIDENT_THREADS, current
from cpms.cuda.variants import WHOLE_VALUES, Variant
from cpms.cuda.vectors import vector_length
from cpms.engine import Floats, Problem
from cpms.graph import Graph

_WARPS = RESIDENT_THREADS // 32
_STEP_COST = 100
"""What 256 edges cost, in rows."""
_MOST_TOTALS = 6
"""``most_totals`` of ``resident.cuh``."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """Edges in slots, an equal stretch for each warp that stays.

    Parameters
    ----------
    blocks : int
    sources, marks : device arrays
        See `cpms.cuda.arrange.Slots.place`.
    begins, first_rows, first_warps : device arrays of uint32
        First step of each warp and behind the last; row of its first slot; warp in which that begins.
    pieces : device array of uint64
        What warps leave of rows that go on in the next; all ones where there is nothing.
    """

    blocks: int
    sources: Any
    marks: Any
    begins: Any
    first_rows: Any
    first_warps: Any
    pieces: Any

    @classmethod
    def of(cls, slots: arrange.Slots, graph: Graph) -> Stretches:
        """Cut a graph's slots into one stretch a warp; small graphs take fewer blocks."""
        arrays = current().arrays
        sources, marks, _ = slots.place(graph)
        # A lane's eight loads are two of four words; see `Edges` in walk.cuh.
        sources = arrays.ascontiguousarray(sources.reshape(-1, 2, 4, 32).transpose(0, 1, 3, 2)).reshape(-1)
        blocks = max(1, min(current().resident_blocks, -(-slots.steps // _WARPS)))
        warps = blocks * _WARPS
        used = min(warps, slots.steps)
        begins = np.full(warps + 1, slots.steps, np.uint32)
        begins[:used] = _cuts(slots, used)
        first_slots = arrays.asarray((begins[:used].astype(np.int64) * WHOLE_VALUES).astype(np.uint32))
        rows = arrays.searchsorted(slots.starts, first_slots, side="right") - 1
        first = arrays.searchsorted(first_slots, slots.starts[rows], side="right") - 1
        first_rows, first_warps = arrays.zeros(warps, np.uint32), arrays.zeros(warps, np.uint32)
        first_rows[:used], first_warps[:used] = rows, first
        return cls(
            blocks=blocks,
            sources=sources,
            marks=marks,
            begins=arrays.asarray(begins),
            first_rows=first_rows,
            first_warps=first_warps,
            pieces=arrays.full(warps, np.uint64(2**64 - 1), np.uint64),
        )

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        return self.sources, self.marks, self.begins, self.first_rows, self.first_warps, self.pieces


def _cuts(slots: arrange.Slots, warps: int) -> npt.NDArray[np.int64]:
    """Return the first step of each warp: stretches of about equal cost, none of them empty."""
    arrays = current().arrays
    steps = arrays.arange(slots.steps, dtype=np.int64)
    rows_before = arrays.searchsorted(slots.starts, (steps * WHOLE_VALUES).astype(np.uint32), side="left")
    wanted = np.arange(warps, dtype=np.int64) * (slots.steps * _STEP_COST + len(slots.starts)) // max(warps, 1)
    cuts = arrays.searchsorted(steps * _STEP_COST + rows_before, arrays.asarray(wanted), side="left")
    places = np.arange(warps, dtype=np.int64)
    ascending = np.maximum.accumulate(current().to_host(cuts) - places) + places
    return np.minimum(ascending, slots.steps - warps + places)


@dataclass(frozen=True, eq=False)
class ResidentGraph:
    """Edges and nodes of a problem, and what blocks tell each other.

    Shares, by which values are kept, are x / out-degree, or x itself on dangling nodes.
    """

    problem: Problem
    edges: Stretches
    degree: Any
    sink: Any
    teleport: Any
    numbering: numbering.Numbering | None
    partials: Any
    came: Any

    @classmethod
    def of(cls, problem: Problem) -> ResidentGraph:
        """Arrange a problem's graph on the device."""
        arrays, graph = current().arrays, problem.graph
        chosen = numbering.chosen(graph)

        def placed(values: Any) -> Any:
            return arrays.asarray(values if chosen is None or len(values) == 1 else values[chosen.order])

        edges = Stretches.of(arrange.Slots.of(graph, chosen), graph)
        return cls(
            problem=problem,
            edges=edges,
            degree=placed(graph.out_degree.astype(np.uint32)),
            sink=placed(problem.sink_or_scalar),
            teleport=placed(problem.teleport_or_scalar),
            numbering=chosen,
            partials=arrays.zeros(2 * _MOST_TOTALS * edges.blocks, np.float64),
            came=arrays.zeros(1, np.uint32),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return sum(int(part.nbytes) for part in (*self.edges.arrays, self.degree))

    @property
    def personal(self) -> bool:
        """Whether nodes differ in what they get of teleport or dangling mass."""
        return bool(self.sink.size > 1 or self.teleport.size > 1)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments with which every resident kernel begins."""
        return (
            *self.edges.arrays,
            *(self.degree, self.sink, self.teleport),
            *(np.uint32(self.sink.size > 1), np.uint32(self.teleport.size > 1)),
            *(np.uint32(self.problem.graph.nodes), np.float64(self.problem.damping)),
        )

    def launch(self, variant: Variant, arguments: tuple[Any, ...]) -> None:
        """Run a resident kernel; blocks begin to count each other from 0."""
        self.came.fill(0)
        current().run_resident(variant, self.edges.blocks, arguments)

    def shares(self, values: Floats) -> Any:
        """Return float64 values of the nodes as shares, zeros behind them."""
        arrays, nodes = current().arrays, self.problem.graph.nodes
        moved = values if self.numbering is None else values[self.numbering.order]
        made = arrays.zeros(vector_length(nodes), np.float64)
        made[:nodes] = arrays.asarray(moved) / arrays.maximum(self.degree, 1)
        return made

    def values(self, shares: Any) -> Floats:
        """Return the nodes' values, in main memory."""
        nodes = self.problem.graph.nodes
        found = current().to_host(shares[:nodes] * current().arrays.maximum(self.degree, 1))
        return found if self.numbering is None else found[self.numbering.place]
