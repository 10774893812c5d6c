"""One rank's rows in device memory, and vectors that ranks make whole; see ``ranks.cu``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.cuda import arrange, room
from cpms.cuda.backend import current
from cpms.cuda.resident import DEFAULT, MOST_TOTALS, ResidentGraph, Stretches
from cpms.cuda.variants import WHOLE_VALUES, Variant
from cpms.cuda.vectors import padded
from cpms.engine import Floats, Problem
from cpms.errors import UnsupportedError
from cpms.graph import Graph
from cpms.mpi.rows import GraphRows
from cpms.mpi.transport import Transport

_TOLD = 8


class Told(NamedTuple):
    """What ranks told each other of a sweep, joined; ``left_over`` is dangling mass, or mass that rounding lost."""

    mass: float
    left_over: float
    l1: float
    squares: float
    sum: float
    linf: float
    largest: float

    @classmethod
    def of(cls, by_rank: npt.NDArray[np.float64]) -> Told:
        """Join the ranks' numbers, in the same order on every rank."""
        rows = by_rank.reshape(-1, _TOLD)
        return cls(*rows[:, :5].sum(axis=0).tolist(), *rows[:, 5:7].max(axis=0).tolist())


@dataclass(frozen=True, eq=False)
class Gathered:
    """Values of all nodes, and what ranks told each other with them, in device memory.

    Parameters
    ----------
    memory : device array
        Each rank's values in a stretch of its own, and zeros behind all.
    whole, own : device arrays
        The stretches of all ranks, and of this one.
    heard, to : device arrays of float64
        What all ranks told, 8 numbers each, and those of this one.
    """

    memory: Any
    whole: Any
    own: Any
    heard: Any
    to: Any


class DeviceRows:
    """A rank's share of a problem's graph on its device, in the pattern layout.

    Sources are places in vectors that are `Gathered`.

    Parameters
    ----------
    problem : Problem
        Of the whole graph, without weights.
    rows : GraphRows
    transport : Transport

    Raises
    ------
    UnsupportedError
        If the share does not fit in device memory, or has weights.
    """

    def __init__(self, problem: Problem, rows: GraphRows, transport: Transport) -> None:
        if rows.weights is not None:
            raise UnsupportedError(
                f"ranks on GPUs keep the pattern alone, but {rows.name} has weights; use --local cpu, or ignore them"
            )
        self.problem, self.rows, self.transport = problem, rows, transport
        self.stretch = padded(int(np.diff(rows.bounds).max()))
        own = Graph(rows.indptr[rows.low : rows.high + 1], rows.sources, None, f"the share of {rows.name} of a rank")
        needed = _needed_bytes(rows.edges, own.nodes, self.stretch * transport.ranks)
        advice = "use more GPUs, or --local cpu"
        reason = room.refusal("cuda", own, needed, what=own.name, advice=advice)
        if reason:
            raise UnsupportedError(reason)
        with current().memory_for(own.name, needed):
            self._graph = self._resident(own)

    @property
    def nbytes(self) -> int:
        """Bytes of this rank's part of the matrix."""
        return self._graph.nbytes

    @property
    def personal(self) -> bool:
        """Whether nodes differ in what they get of teleport or dangling mass."""
        return self._graph.personal

    def gathered(self, dtype: Any = np.float64, *, each_bytes: int = 8) -> Gathered:
        """Return a vector of zeros, of ``each_bytes`` a value."""
        transport, arrays = self.transport, current().arrays
        items = self.stretch * each_bytes // np.dtype(dtype).itemsize
        memory = arrays.zeros(transport.ranks * items + WHOLE_VALUES * each_bytes // np.dtype(dtype).itemsize, dtype)
        heard = arrays.zeros(transport.ranks * _TOLD, np.float64)
        begin = transport.rank * items
        return Gathered(
            memory,
            memory[: transport.ranks * items],
            memory[begin : begin + items],
            heard,
            heard[transport.rank * _TOLD : (transport.rank + 1) * _TOLD],
        )

    def of_rows(self, dtype: Any) -> Any:
        """Return a device array of zeros, one a row of this rank."""
        return current().arrays.zeros(self.stretch, dtype)

    def launch(self, variant: Variant, heard: Gathered, to: Gathered, *arguments: Any) -> None:
        """Queue a kernel that hears what ``heard`` holds and tells what this rank found in ``to``."""
        graph = self._graph
        told = (graph.partials, graph.came, heard.heard, np.uint32(self.transport.ranks), to.to)
        graph.launch(variant, (*graph.arguments, *told, *arguments))

    def exchange(self, vector: Gathered) -> None:
        """Queue the exchange of values and of what ranks told."""
        self.transport.gather(vector.whole, vector.heard)

    def exchange_told(self, vector: Gathered) -> None:
        """Queue the exchange of what ranks told."""
        self.transport.gather(vector.heard)

    def told(self, vector: Gathered) -> Callable[[], Told]:
        """Return how to wait for what was told until now."""
        fetched = current().fetch_later(vector.heard)
        return lambda: Told.of(fetched())

    def upload(self, values: Floats, vector: Gathered) -> None:
        """Put this rank's rows of float64 ``values``, shape (nodes,), into its stretch, as shares."""
        arrays, count = current().arrays, self.rows.high - self.rows.low
        uploaded = arrays.asarray(values[self.rows.low : self.rows.high])
        vector.own[:count] = uploaded / arrays.maximum(self._graph.degree[:count], 1)

    def download(self, vector: Gathered) -> Floats:
        """Return the values of all nodes, from shares that have been exchanged."""
        bounds, whole = self.rows.bounds, current().to_host(vector.whole)
        parts = [
            whole[rank * self.stretch :][: bounds[rank + 1] - bounds[rank]] for rank in range(self.transport.ranks)
        ]
        return np.concatenate(parts) * np.maximum(self.rows.leaving, 1)

    def _resident(self, own: Graph) -> ResidentGraph:
        arrays, rows, problem = current().arrays, self.rows, self.problem
        some = own.nodes > 0
        steps = DEFAULT.steps_for(len(rows.leaving))
        edges = Stretches.of(arrange.Slots.of(own), own, steps, self._columns()) if some else Stretches.none()
        return ResidentGraph(
            problem=Problem(own, problem.damping),
            edges=edges,
            degree=arrays.asarray(np.append(rows.leaving[rows.low : rows.high], 0).astype(np.uint32)),
            sink=arrays.asarray(_own(problem.sink_or_scalar, rows)),
            teleport=arrays.asarray(_own(problem.teleport_or_scalar, rows)),
            order=None,
            place=None,
            partials=arrays.zeros(2 * MOST_TOTALS * edges.blocks, np.float64),
            came=arrays.zeros(1, np.uint32),
        )

    def _columns(self) -> arrange.Columns:
        arrays, bounds = current().arrays, self.rows.bounds.tolist()
        place = arrays.empty(bounds[-1], np.uint32)
        for rank, (low, high) in enumerate(itertools.pairwise(bounds)):
            begin = rank * self.stretch
            place[low:high] = arrays.arange(begin, begin + high - low, dtype=np.uint32)
        return arrange.Columns(place, self.transport.ranks * self.stretch)


def _own(values: Floats, rows: GraphRows) -> Floats:
    """Return what concerns a rank's rows; one more value than these, so that there is a first."""
    return np.append(values[rows.low : rows.high], 0.0) if len(values) > 1 else values


def _needed_bytes(edges: int, rows: int, values: int) -> int:
    return 12 * (edges + rows) + 40 * rows + 24 * values
