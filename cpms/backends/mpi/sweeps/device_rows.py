"""The rows of one rank in device memory, with the values that they read of others; see ``multi_gpu/rank_sweep.cu``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.launch_shape import Shape
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.persistent.device_graph import DEFAULT, PersistentGraph
from cpms.backends.cuda.persistent.strategies import DIRECT_GATHER_DATA, StrategyData, StrategyRequest
from cpms.backends.cuda.persistent.warp_ranges import WarpRanges
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.mpi.exchange.device_vectors import RANK_TOTALS, Gathered, Which
from cpms.backends.mpi.exchange.exchange_choice import chosen, exchange
from cpms.backends.mpi.exchange.halo import Halo
from cpms.backends.mpi.exchange.transport import Transport
from cpms.backends.mpi.shares.rows import GraphRows
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.graph.graph import Graph
from cpms.precision.anderson import HISTORY_VECTORS
from cpms.problems.pagerank import Problem

_REQUEST = StrategyRequest(hub_cache=False, in_cache=False)
"""Strategies of ranks: their nodes are not reordered, so no hubs come first, and values of others are never cached."""


class RankTotals(NamedTuple):
    """The totals of a sweep over all ranks; ``lost_mass`` is dangling mass, or mass lost to rounding.

    ``worthwhile`` is whether Anderson combinations of inner sweeps are worthwhile.
    """

    mass: float
    lost_mass: float
    l1: float
    squares: float
    sum: float
    linf: float
    largest: float
    worthwhile: bool

    @classmethod
    def of(cls, by_rank: npt.NDArray[np.float64]) -> RankTotals:
        """Reduce the totals of ranks, in the same order on every rank."""
        rows = by_rank.reshape(-1, RANK_TOTALS)
        return cls(*rows[:, :5].sum(axis=0).tolist(), *rows[:, 5:7].max(axis=0).tolist(), *(rows[0, -1:] > 0).tolist())


class DeviceRows:
    """The rows of a rank of a problem's graph on its device, in the pattern layout.

    Sources are positions in vectors of type `Gathered`. The constructor is collective.

    Parameters
    ----------
    problem : Problem
        Of the whole graph, without weights.
    rows : GraphRows
    transport : Transport
    which : {"direct", "halo", "whole"}, optional
        The exchange: halos by remote stores, halos by messages, or whole vectors by messages. By default remote stores
        where possible, else the exchange with fewer bytes; results are bitwise the same.
    value_bytes : int, optional
        Bytes of a value that most sweeps gather, 2 or 8, for which edges are arranged.

    Attributes
    ----------
    exchange : Exchange
    graph : PersistentGraph
        The rows.
    read_values : int
        The number of values that its rows may read: its own, and those of its halo.

    Raises
    ------
    UnsupportedError
        If the share does not fit in device memory, or has weights.
    """

    def __init__(
        self,
        problem: Problem,
        rows: GraphRows,
        transport: Transport,
        which: Which | None = None,
        *,
        value_bytes: int = 2,
    ) -> None:
        require_pattern(rows)
        self.problem, self.rows, self.transport = problem, rows, transport
        halo = Halo.of(rows, transport.communicator)
        own = Graph(rows.indptr[rows.low : rows.high + 1], rows.sources, None, f"the share of {rows.name} of a rank")
        self.read_values = own.nodes + sum(map(len, halo.reads))
        which = which or chosen(transport, halo, rows.bounds)
        needed = _needed_bytes(rows, rows.nodes if which == "whole" else self.read_values)
        needed += 12 * sum(map(len, halo.sends))
        advice = "use more GPUs, or --local cpu"
        reason = memory_limits.refusal("cuda", own, needed, what=own.name, advice=advice)
        if reason:
            raise UnsupportedError(reason)
        with current().memory_for(own.name, needed):
            self.exchange = exchange(which, transport, halo, rows.bounds)
            self.graph = self._arranged(own, value_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of this rank's part of the matrix."""
        return self.graph.nbytes

    @property
    def shape(self) -> Shape:
        """The launch shape of sweeps."""
        return self.graph.edges.shape

    @property
    def personal(self) -> bool:
        """Whether the teleport or dangling distribution is not uniform."""
        return self.graph.personal

    def of_rows(self, dtype: Any) -> Any:
        """Return a device array of zeros, one for each row of this rank."""
        return current().arrays.zeros(self.exchange.part_length, dtype)

    def launch(self, variant: Variant, source: Gathered, target: Gathered, *arguments: Any) -> None:
        """Queue a kernel that reads the totals of ``source`` and writes this rank's totals to ``target``."""
        graph = self.graph
        received = pack(structs.RECEIVED_TOTALS, by_rank=source.received_totals, ranks=self.transport.ranks)
        given = *self._graph_arguments, *graph.barrier, received, target.own_totals, *arguments
        current().run_persistent(variant, graph.edges.blocks, given)

    @cached_property
    def _graph_arguments(self) -> tuple[Struct, Struct]:
        graph = self.graph
        return graph.edges.argument(graph.nodes), graph.node_argument()

    def totals(self, vector: Gathered) -> Callable[[], RankTotals]:
        """Return a function that waits for the present totals; no exchange may overwrite them before."""
        fetched = current().fetch_async(vector.received_totals)
        return lambda: RankTotals.of(fetched())

    def upload(self, values: Floats, vector: Gathered) -> None:
        """Write this rank's rows of float64 ``values``, shape (nodes,), into its part, as contributions."""
        self.graph.contributions(values[self.rows.low : self.rows.high], vector.own)

    def download(self, own: Any) -> Floats:
        """Return the values of all nodes, from this rank's contributions and those of others; every rank calls this."""
        transport, bounds, part_length = self.transport, self.rows.bounds, self.exchange.part_length
        whole = current().arrays.zeros(transport.ranks * part_length, np.float64)
        whole[transport.rank * part_length :][:part_length] = own
        transport.gather(whole)
        values = current().to_host(whole)
        parts = [values[rank * part_length :][: bounds[rank + 1] - bounds[rank]] for rank in range(transport.ranks)]
        return np.concatenate(parts) * np.maximum(self.rows.leaving, 1)

    def _arranged(self, own: Graph, value_bytes: int) -> PersistentGraph:
        """Bring the rows to the device, arranged for sweeps."""
        arrays, rows, problem = current().arrays, self.rows, self.problem
        # The number of values read is the same for all exchanges, and with it the tiles and the order of sums.
        range_tiles = DEFAULT.tiles_per_range(self.read_values, value_bytes)
        columns = padded_csr.ColumnPositions(self.exchange.positions(rows), self.exchange.values)
        edges, entries, strategy_data = WarpRanges.empty(), padded_csr.PaddedCsr.of(own), DIRECT_GATHER_DATA
        if own.nodes:
            edges, entries = WarpRanges.of(entries, own, range_tiles, columns=columns, in_cache=False)
            if self.exchange.within:
                strategy_data = StrategyData.of(edges, entries, self.exchange.values, value_bytes, _REQUEST)
        return PersistentGraph(
            nodes=own.nodes,
            damping=problem.damping,
            edges=edges,
            degree=arrays.asarray(np.append(rows.leaving[rows.low : rows.high], 0).astype(np.uint32)),
            sink=arrays.asarray(_own(problem.sink_or_scalar, rows)),
            teleport=arrays.asarray(_own(problem.teleport_or_scalar, rows)),
            order=None,
            strategy_data=strategy_data,
            row_begins=entries.starts if self._uses_error_feedback(own, strategy_data) else None,
        )

    def _uses_error_feedback(self, own: Graph, strategy_data: StrategyData) -> bool:
        """Return whether nodes keep rounding errors, which all ranks do or none; a rank without rows follows."""
        if not (self.exchange.within and self.problem.dangling_follows_teleport):
            return False
        wants = _REQUEST.uses_error_feedback(strategy_data.strategy, converges_fast=False)
        return self.transport.agreed(wants or not own.nodes)


def require_pattern(rows: GraphRows) -> None:
    """Refuse shares that ranks on GPUs cannot hold.

    Raises
    ------
    UnsupportedError
        If the share has weights, or the graph more nodes than 32 bits number.
    """
    if rows.weights is not None:
        raise UnsupportedError(
            f"ranks on GPUs keep the pattern alone, but {rows.name} has weights; use --local cpu, or ignore them"
        )
    if rows.nodes >= 2**31:
        raise UnsupportedError(
            f"engine cuda counts nodes below 2^31; {rows.name} has {rows.nodes:,} nodes; use --local cpu"
        )


def _own(values: Floats, rows: GraphRows) -> Floats:
    """Return the values of a rank's rows, followed by a zero, so that the array is never empty."""
    return np.append(values[rows.low : rows.high], 0.0) if len(values) > 1 else values


def _needed_bytes(rows: GraphRows, values: int) -> int:
    """Return about the bytes of a rank: edges, rows, and as vectors x, its successor, and z in 32 bits."""
    own, vector_bytes = rows.high - rows.low, 16 + 4 * HISTORY_VECTORS
    return 12 * (rows.edges + own) + 40 * own + vector_bytes * values + 4 * rows.nodes
