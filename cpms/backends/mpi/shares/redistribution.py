"""Redistribution of edges by target: an all-to-all exchange sends each rank the edges into its rows.

Row ranges balance the numbers of edges. A rank groups its edges as any graph's are (`cpms.graph.csr_build`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.exchange.world import count_here
from cpms.backends.mpi.shares.rows import Bounds, GraphRows, cut
from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.types import Floats
from cpms.graph import csr_build
from cpms.graph.compensated_sums import WeightSums
from cpms.graph.edge_arrays import Ints
from cpms.graph.read_record import ReadRecord
from cpms.sparse.sliced import BLOCK_ROWS


def given_numbers(spec: str, keys: tuple[str, ...], advice: str) -> dict[str, int]:
    """Return the numbers of a graph's specification, each key at most once; ``advice`` says what it may be.

    Examples
    --------
    >>> given_numbers("uniform:nodes=10, edges=30", ("nodes", "edges"), "")
    {'nodes': 10, 'edges': 30}
    """
    given: dict[str, int] = {}
    for item in spec.partition(":")[2].split(","):
        found = re.fullmatch(r"\s*(\w+)\s*=\s*(\d{1,18})\s*", item)
        if not found or found[1] not in keys or found[1] in given:
            raise InputError(f"{spec}: {item!r} is not understood; {advice}")
        given[found[1]] = int(found[2])
    return given


@dataclass
class Share:
    """The edges that one rank has read; the concatenation over ranks has the order of the file.

    Parameters
    ----------
    sources, targets : ndarray of int32 (int64 from 2**31 nodes on)
        Ids from 0.
    weights : ndarray of float64, optional
        On every rank or on none.
    nodes : int
        Of the whole graph.
    name : str
    first_id : int
    stand_in_for : str, optional
    read : ReadRecord, optional
        As in `cpms.Graph`.
    """

    sources: Ints
    targets: Ints
    weights: Floats | None
    nodes: int
    name: str
    first_id: int = 0
    stand_in_for: str | None = None
    read: ReadRecord | None = None


def exchanged(share: Share, communicator: Any) -> GraphRows:
    """Return this rank's rows; collective, with at most two copies of a rank's edges in memory.

    The share's arrays are given up on the way.
    """
    from mpi4py import MPI

    nodes = share.nodes
    _require_memory(share, communicator)
    block_edges = np.bincount(share.targets // BLOCK_ROWS, minlength=-(-nodes // BLOCK_ROWS))
    communicator.Allreduce(MPI.IN_PLACE, block_edges, MPI.SUM)
    bounds = cut(block_edges, nodes, communicator.size)
    if communicator.size == 1:
        return _rows(share, share.sources, share.targets, share.weights, bounds, communicator)
    # NumPy sorts numbers of 16 bits in linear time.
    ids = np.uint16 if communicator.size <= 2**16 else np.int64
    owner = np.searchsorted(bounds[1:-1], share.targets, side="right").astype(ids)
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=communicator.size)
    del owner
    sources = _sent(share.sources[order], counts, communicator)
    share.sources = share.sources[:0]
    targets = _sent(share.targets[order], counts, communicator)
    share.targets = share.targets[:0]
    weights = None if share.weights is None else _sent(share.weights[order], counts, communicator)
    share.weights = None
    return _rows(share, sources, targets, weights, bounds, communicator)


def _require_memory(share: Share, communicator: Any) -> None:
    """Refuse a graph whose arrays over all nodes do not fit in memory for each rank of this host."""
    ranks = count_here(communicator)
    needed_bytes = ranks * graph_bytes(share.nodes, 0, weighted=share.weights is not None)
    advice = "where most ids have no edges, --whole --ids compact drops these"
    require_memory(
        needed_bytes, f"{share.name}: {share.nodes:,} nodes, of which each of {ranks} ranks keeps sums,", advice
    )


def _rows(
    share: Share, sources: Ints, targets: Ints, weights: Floats | None, bounds: Bounds, communicator: Any
) -> GraphRows:
    nodes = share.nodes
    indptr, grouped, grouped_weights = csr_build.by_target(sources, targets, weights, nodes)
    return GraphRows(
        indptr,
        grouped,
        grouped_weights,
        share.name,
        share.first_id,
        stand_in_for=share.stand_in_for,
        read=share.read,
        bounds=bounds,
        rank=communicator.rank,
        leaving=_summed(np.bincount(grouped, minlength=nodes), communicator),
        leaving_weight=_out_weight(grouped, grouped_weights, nodes, communicator),
    )


def _sent(values: npt.NDArray[Any], counts: Ints, communicator: Any) -> npt.NDArray[Any]:
    """Send each rank its part of ``values``, and return the received parts in the order of ranks."""
    arriving = np.empty_like(counts)
    communicator.Alltoall(counts, arriving)
    received = np.empty(int(arriving.sum()), values.dtype)
    communicator.Alltoallv([values, counts], [received, arriving])
    return received


def _summed(values: npt.NDArray[Any], communicator: Any) -> npt.NDArray[Any]:
    from mpi4py import MPI

    communicator.Allreduce(MPI.IN_PLACE, values, MPI.SUM)
    return values


def _out_weight(sources: Ints, weights: Floats | None, nodes: int, communicator: Any) -> Floats | None:
    """Return the out-weight of each node; ranks add in turn, so that the order of sums is that of the file."""
    if weights is None:
        return None
    sums = WeightSums(nodes)
    rank, size = communicator.rank, communicator.size
    if rank > 0:
        communicator.Recv(sums.parts, source=rank - 1)
    sums.add(sources, weights)
    if rank < size - 1:
        communicator.Send(sums.parts, dest=rank + 1)
    communicator.Bcast(sums.parts, root=size - 1)
    return sums.rounded()
