"""Power iteration over ranks: each multiplies its rows, and an all-gather completes the vector in every sweep.

Rows are multiplied in several parts, so that the exchange of one part overlaps the product of the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.exchange import device
from cpms.backends.mpi.exchange.world import ranks_here
from cpms.backends.mpi.shares.rows import Bounds, GraphRows
from cpms.backends.mpi.sweeps.finish import COLUMNS, finish
from cpms.backends.mpi.sweeps.local_product import Product, product
from cpms.base import threads
from cpms.base.types import Floats
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse import transition_values
from cpms.sparse.sliced import BLOCK_ROWS

ROW_PARTS = 2
"""The parts of a rank's rows; the exchange of one overlaps the product of the next.

Ranks that all share a machine's memory have one part: MPI then copies only while a rank waits, so nothing overlaps.
"""


@dataclass(eq=False)
class Vector:
    """Values of all nodes, as the layout stores them, and the dangling mass."""

    values: Floats
    dangling: float = 0.0


@dataclass(frozen=True, eq=False)
class MpiOperator(Operator[Vector]):
    """One rank's rows of P, and the row ranges of all ranks.

    A sweep's only communication is ``Allgatherv``, of the parts of the rows and of sums over blocks of rows. Every rank
    adds these sums in the same order, and blocks do not depend on the number of ranks, so results are bitwise the same
    for any number. A partition by columns would need ``Reduce_scatter`` of as many bytes, with sums that depend on it.

    Parameters
    ----------
    problem : Problem
    storage : Format
    rows : GraphRows
        The problem's graph.
    communicator : mpi4py communicator
    product : Product
    divisor : ndarray of uint32
        The divisors of all nodes, or empty where values are stored.
    sums : ndarray of float64, shape (blocks, COLUMNS)
    lanes : int
        Threads that this rank uses.
    parts : int
        See `ROW_PARTS`.
    waited : list of float
        Seconds in which this rank waited for others, sweep by sweep.
    """

    problem: Problem
    storage: Format
    rows: GraphRows
    communicator: Any
    product: Product
    divisor: npt.NDArray[np.uint32]
    sums: Floats
    lanes: int
    parts: int
    waited: list[float] = field(default_factory=list)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of this rank's part of the matrix."""
        return self.product.nbytes

    @property
    def received_bytes(self) -> int:
        """Bytes that this rank receives in a sweep."""
        rows, blocks = self.rows, -(-self.rows.bounds // BLOCK_ROWS)
        own_blocks = int(blocks[rows.rank + 1] - blocks[rows.rank])
        return 8 * (rows.nodes - (rows.high - rows.low) + COLUMNS * (len(self.sums) - own_blocks))

    def load(self, values: Floats) -> Vector:
        """Return a vector of values; every rank passes all of them."""
        mass = float(values[self.rows.leaving == 0].sum())
        return Vector(values / self.divisor if len(self.divisor) else values.copy(), mass)

    def empty(self) -> Vector:
        """Return a vector."""
        return Vector(np.empty(self.problem.graph.nodes))

    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:  # noqa: ARG002
        """Multiply part by part, start the exchange of each, and reduce the sums over ranks."""
        problem, rows, requests = self.problem, self.rows, []
        with threads.limited(self.lanes):
            for part in self._row_parts():
                low, high = int(part[rows.rank, 0]), int(part[rows.rank, 1])
                self.product.multiply(x.values, out.values, low, high)
                finish(
                    *(x.values, out.values, self.divisor, rows.leaving),
                    *(1.0 - problem.damping, problem.teleport_or_scalar),
                    *(problem.damping * x.dangling, problem.sink_or_scalar, self.sums, low, high),
                )
                requests += self._gather(out.values, part[:, 0], part[:, 1])
        blocks = -(-rows.bounds // BLOCK_ROWS)
        requests += self._gather(self.sums.reshape(-1), COLUMNS * blocks[:-1], COLUMNS * blocks[1:])
        began = time.perf_counter()
        for request in requests:
            request.Wait()
        self.waited.append(time.perf_counter() - began)
        l1, squares, _, mass, out.dangling = self.sums.sum(axis=0).tolist()
        return Sweep(l1, float(np.sqrt(squares)), float(self.sums[:, 2].max()), mass)

    def scale(self, x: Vector, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply in place."""
        x.values *= factor
        x.dangling *= factor

    def read(self, x: Vector, segments: int) -> Floats:  # noqa: ARG002
        """Return the vector, which every rank has whole."""
        return x.values * self.divisor if len(self.divisor) else x.values

    def _row_parts(self) -> Iterator[Bounds]:
        """Yield the row ranges of each part, shape (ranks, 2)."""
        bounds, parts = self.rows.bounds, self.parts
        blocks = -(-np.diff(bounds) // BLOCK_ROWS)
        for part in range(parts):
            ends = [bounds[:-1] + BLOCK_ROWS * (blocks * before // parts) for before in (part, part + 1)]
            yield np.minimum(np.stack(ends, axis=1), bounds[1:, None])

    def _gather(self, values: Floats, begins: Bounds, ends: Bounds) -> list[Any]:
        """Start to receive each rank's part of ``values``."""
        if self.communicator.size == 1:
            return []
        from mpi4py import MPI

        return [self.communicator.Iallgatherv(MPI.IN_PLACE, [values, (ends - begins, begins), MPI.DOUBLE])]


def prepare(
    problem: Problem, rows: GraphRows, layout: str, local: Engine, communicator: Any, lanes: int | None = None
) -> MpiOperator:
    """Prepare sweeps of a problem from this rank's rows; collective.

    A rank uses ``lanes`` threads, by default its share of the processors.
    """
    lanes = lanes or max(1, threads.available() // ranks_here())
    if local.name not in ("cpu", "serial"):
        device.share(communicator)
    multiplied = product(local, rows, problem.damping, layout)
    divisor = transition_values.divisor(rows) if multiplied.of_contributions else np.empty(0, np.uint32)
    sums = np.zeros((-(-rows.nodes // BLOCK_ROWS), COLUMNS))
    parts = ROW_PARTS if multiplied.in_parts and ranks_here() < communicator.size else 1
    return MpiOperator(replace(problem, graph=rows), FP64, rows, communicator, multiplied, divisor, sums, lanes, parts)
