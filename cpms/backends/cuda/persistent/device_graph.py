"""A graph in device memory for persistent kernels.

See ``persistent/segmented_sum.cuh`` and ``pagerank/sweep_epilogues.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays.codec import as_float64
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.persistent import ALL_BLOCKED, Strategy
from cpms.backends.cuda.kernels.template import CONTRIBUTIONS, Variant
from cpms.backends.cuda.persistent.strategies import PLAIN, WHAT_PAYS, Wanted, Ways
from cpms.backends.cuda.persistent.warp_ranges import Stretches
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr, reordering
from cpms.problems.pagerank import Problem
from cpms.storage.device import on_device

_NULL = np.uint64(0)
_MORE = 255
"""Of a count that is no byte; as in ``pagerank/nodes.cuh``."""
_TO_SHARES, _FROM_SHARES = CONTRIBUTIONS
_SHORT_STRETCH = 4
_OUTGROWN = {2: 0.5, 8: 1.0}
"""Shares of the cache from which short stretches were faster on an H200, by the bytes of a value."""
_MOST_PARTIALS, _LINE_WORDS = 45, 32
"""As in ``persistent/grid_sync.cuh``."""


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
    wanted : Wanted
        Other ways than over sources, of sweeps of 16 warps; by default one that pays.
    """

    renumber: bool = True
    stretch_steps: int | None = None
    warps: int | None = None
    wanted: Wanted = WHAT_PAYS

    def steps_for(self, nodes: int, value_bytes: int = 2) -> int:
        """Return the steps in a stretch where edges begin at so many nodes, 0 for one long stretch a warp.

        Sweeps gather 2 bytes a node, or 8 where all of them are in float64.
        """
        if self.stretch_steps is not None:
            return self.stretch_steps
        outgrown = value_bytes * nodes > _OUTGROWN[value_bytes] * current().cache_bytes
        return _SHORT_STRETCH if outgrown else 0


DEFAULT = Arrangement()


def _as_bytes(counts: Any) -> Any:
    return counts.clip(0, _MORE).astype(np.uint8)


def barrier(blocks: int) -> tuple[Any, Any]:
    """Return what so many blocks tell each other: room for their totals, and lines of counts; device arrays."""
    arrays = current().arrays
    return arrays.zeros(2 * _MOST_PARTIALS * blocks, np.float64), arrays.zeros(3 * _LINE_WORDS, np.uint32)


@dataclass(frozen=True, eq=False)
class ResidentGraph:
    """Edges and nodes of a problem, and what blocks tell each other.

    Shares, by which values are kept, are x / out-degree, or x itself on dangling nodes. Where another order of
    the nodes is better for gathers, ``order`` holds the node in each place. In a core ``kept`` counts the edges of
    each node that stay in it, where ``degree`` counts all. Where there are ``starts``, first slots of
    rows, nodes may keep what rounding loses, and dangling mass goes where teleport does; see
    ``pagerank/error_feedback.cuh``.
    """

    nodes: int
    damping: float
    edges: Stretches
    degree: Any
    sink: Any
    teleport: Any
    order: Any | None
    kept: Any | None = None
    ways: Ways = PLAIN
    starts: Any | None = None
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
    ) -> ResidentGraph:
        """Arrange a problem's graph on the device, for sweeps that gather so many bytes a value.

        ``rows`` are the graph's, if they are there already; ``converges_fast``: what sweeps leave is known to.
        """
        upload, graph = current().upload, problem.graph
        rows = rows or graph
        degree = padded_csr.out_degree(graph, rows)
        chosen = reordering.chosen(graph, degree) if arrangement.renumber else None

        def placed(values: Any) -> Any:
            return values if chosen is None or len(values) == 1 else values[chosen.order]

        steps = arrangement.steps_for(graph.nodes, value_bytes)
        slots = padded_csr.PaddedCsr.of(rows, chosen)
        edges, slots = Stretches.of(
            *(slots, rows, steps),
            value_bytes=value_bytes,
            warps=arrangement.warps,
            cached=arrangement.wanted.as_cached,
        )
        ways = Ways.of(edges, slots, graph.nodes, value_bytes, arrangement.wanted)
        error_feedback = problem.dangling_follows_teleport and arrangement.wanted.error_feedback(
            ways.way, converges_fast=converges_fast
        )
        return cls(
            nodes=graph.nodes,
            damping=problem.damping,
            edges=ways.read_of(edges),
            degree=placed(degree),
            sink=placed(upload(problem.sink_or_scalar)),
            teleport=placed(upload(problem.teleport_or_scalar)),
            order=None if chosen is None else chosen.order,
            ways=ways,
            starts=slots.starts if error_feedback else None,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        as_bytes = self.nodes if self.ways.way.byte_degrees else 0
        return self.edges.nbytes + int(self.degree.nbytes) + as_bytes + self.ways.nbytes

    @property
    def personal(self) -> bool:
        """Whether nodes differ in what they get of teleport or dangling mass."""
        return bool(self.sink.size > 1 or self.teleport.size > 1)

    def counted(self, way: Strategy) -> tuple[Any, Any]:
        """Return degrees, and of a core the edges that stay in it, as bytes, where a kernel reads these; or nothing."""
        if not way.byte_degrees:
            return _NULL, _NULL
        return self._degree_bytes, _NULL if self.kept is None else self._kept_bytes

    @cached_property
    def _degree_bytes(self) -> Any:
        return _as_bytes(self.degree)

    @cached_property
    def _kept_bytes(self) -> Any:
        return _as_bytes(self.kept)

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """What resident kernels take of the nodes, in its order, behind what they take of the edges."""
        return (
            *(self.degree, self.sink, self.teleport),
            *(np.uint32(self.sink.size > 1), np.uint32(self.teleport.size > 1)),
            *(np.uint32(self.nodes), np.float64(self.damping)),
        )

    @cached_property
    def guess(self) -> tuple[Any, ...]:
        """What a kernel takes of a first x, in its order: slots of rows, what an edge brings, and a bound of shares."""
        starts: Any = self.starts
        count, most = (int(current().to_host(number)) for number in (starts[-1], (starts[1:] - starts[:-1]).max()))
        each, teleport = self.damping / count, 1.0 if self.personal else 1.0 / self.nodes
        return starts, np.float64(each), np.float64((1.0 - self.damping) * teleport + each * most)

    def over(self, way: Strategy) -> tuple[Any, ...]:
        """Return what a kernel takes of the edges, in its order."""
        return *(() if way == ALL_BLOCKED else self.edges.arguments), *self.ways.arguments(way)

    def launch(self, variant: Variant, arguments: tuple[Any, ...]) -> None:
        """Run a resident kernel."""
        current().run_persistent(variant, self.edges.blocks, arguments)

    def shares(self, values: Any, out: Any | None = None) -> Any:
        """Return float64 values of the nodes, of either memory, as shares, zeros behind them; in ``out`` if given."""
        arrays = current().arrays
        given = as_float64(values) if on_device(values) else current().upload(values)
        made = arrays.zeros(vector_length(self.nodes), np.float64) if out is None else out
        self._move(_TO_SHARES, given, made)
        return made

    def values(self, shares: Any) -> Any:
        """Return the nodes' values, on the device."""
        made = current().arrays.empty(self.nodes, np.float64)
        self._move(_FROM_SHARES, shares, made)
        return made

    def _move(self, kernel: Variant, given: Any, made: Any) -> None:
        order = _NULL if self.order is None else self.order
        arguments = order, self.degree, np.uint32(self.nodes), given, made
        current().run(kernel, current().spread(self.nodes), arguments)
