"""Which values a rank reads of others, and which of its own they read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.shares.rows import GraphRows

Places = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Halo:
    """The values that ranks send each other for a sweep, each of them once.

    Parameters
    ----------
    reads : list of ndarray of int32
        Of each rank, the rows that this one reads, ascending, counted from that rank's first; of itself none.
    sends : list of ndarray of int32
        For each rank, the rows of this one that it reads, in the same way.
    most : int
        The values that the busiest of all ranks receives or sends; the same on every rank.
    """

    reads: list[Places]
    sends: list[Places]
    most: int

    @classmethod
    def of(cls, rows: GraphRows, communicator: Any) -> Halo:
        """Find what a rank's edges read of others, and tell these; every rank calls this."""
        reads = foreign(rows)
        wanted = np.concatenate(reads)
        counts = np.array([len(part) for part in reads])
        asked = np.empty_like(counts)
        communicator.Alltoall(counts, asked)
        sent = np.empty(int(asked.sum()), np.int32)
        communicator.Alltoallv([wanted, counts], [sent, asked])
        most = max(communicator.allgather(max(len(wanted), len(sent))))
        return cls(reads, np.split(sent, np.cumsum(asked)[:-1]), most)


def foreign(rows: GraphRows) -> list[Places]:
    """Return, of each rank, which of its rows a rank's edges lead from; of its own none.

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
