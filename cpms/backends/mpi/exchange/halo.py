"""The halo of a rank: the values that its rows read of other ranks, and those of its own that others read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.shares.rows import GraphRows

RowIndices = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Halo:
    """The values that ranks send each other for a sweep, each once.

    Parameters
    ----------
    reads : list of ndarray of int32
        For each rank, its rows that this rank reads, ascending, relative to its first row; none for itself.
    sends : list of ndarray of int32
        For each rank, the rows of this rank that it reads, in the same form.
    most : int
        The number of values of the busiest rank, received or sent; the same on every rank.
    """

    reads: list[RowIndices]
    sends: list[RowIndices]
    most: int

    @classmethod
    def of(cls, rows: GraphRows, communicator: Any) -> Halo:
        """Find the rows that a rank's edges read of others, and exchange these lists; every rank calls this."""
        reads = foreign(rows)
        read_rows = np.concatenate(reads)
        counts = np.array([len(part) for part in reads])
        send_counts = np.empty_like(counts)
        communicator.Alltoall(counts, send_counts)
        sent = np.empty(int(send_counts.sum()), np.int32)
        communicator.Alltoallv([read_rows, counts], [sent, send_counts])
        most = max(communicator.allgather(max(len(read_rows), len(sent))))
        return cls(reads, np.split(sent, np.cumsum(send_counts)[:-1]), most)


def foreign(rows: GraphRows) -> list[RowIndices]:
    """Return, for each rank, its rows that are sources of this rank's edges; none for itself.

    Examples
    --------
    >>> from cpms import Graph
    >>> from cpms.backends.mpi.shares.rows import of_graph
    >>> ring = Graph.from_edges([4095, 0, 2047, 9, 9], [0, 1, 2048, 2050, 2051])
    >>> [[part.tolist() for part in foreign(of_graph(ring, rank, 2))] for rank in (0, 1)]
    [[[], [2047]], [[9, 2047], []]]
    """
    read = np.zeros(rows.nodes, np.bool_)
    read[rows.sources] = True
    read[rows.low : rows.high] = False
    return [np.flatnonzero(read[low:high]).astype(np.int32) for low, high in itertools.pairwise(rows.bounds.tolist())]
