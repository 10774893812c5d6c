"""Both methods over ranks that write into each other's memory: the persistent kernels of one device, with exchanges.

A launch runs many sweeps, and ranks exchange within it by one-sided stores (``pagerank/ranks.cuh``). A sweep costs
what it costs on one device of a rank's rows, and one remote store for each value that another rank reads. A vector is
this rank's rows and, behind them, the values that these read of other ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import multi_gpu, template
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.persistent import power
from cpms.backends.cuda.persistent.refinement import CudaRefinement, Launch, is_uniform, report_buffer
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.backends.mpi.exchange.device_vectors import Gathered
from cpms.backends.mpi.exchange.peer_exchange import DirectExchange
from cpms.backends.mpi.sweeps.device_rows import DeviceRows
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweeps
from cpms.contracts.refinement import OuterStep
from cpms.formats.formats import FloatFormat
from cpms.formats.quantization import rank_seed
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem


@dataclass(frozen=True, eq=False)
class RankPower(power.FusedOperator):
    """Power iteration in float64 over ranks; all methods are collective."""

    rows: DeviceRows = field(kw_only=True)
    exchanged_s: list[float] = field(default_factory=list, kw_only=True)
    """Seconds of each launch in exchanges and waits for other ranks."""

    @classmethod
    def of(cls, problem: Problem, rows: DeviceRows) -> RankPower:
        """Prepare the kernel, and the pool's two vectors: ranks make vectors together, but drop theirs at any time."""
        operator = cls(problem, rows.graph, report_buffer(), rows=rows)
        operator._pool.pair()
        current().compile([operator.kernel, *template.CONTRIBUTIONS])
        return operator

    def load(self, values: Floats) -> Gathered:
        """Return a vector of values; every rank passes all of them."""
        vector: Gathered = self.empty()
        self.rows.exchange.ready()
        self.rows.upload(values, vector)
        return vector

    def empty(self) -> Gathered:
        """Return a vector."""
        vector: Gathered = self._pool.vector()
        return vector

    def sweeps(self, x: Any, out: Any, level: Level, step: int, *, norm: Norm, tol: float, most: int) -> Sweeps:
        """Launch many sweeps at once."""
        made = super().sweeps(x, out, level, step, norm=norm, tol=tol, most=most)
        self._exchange.count_within(8, 1 + len(made.found))
        self.exchanged_s.append(self._exchange.spent()[0])
        return made

    def launch(self, request: Struct, x: Any, out: Any, *more: Any) -> None:
        """Launch the kernel on two vectors."""
        super().launch(request, x.memory, out.memory, self._exchange.rank_argument((x, out)), *more)

    @cached_property
    def kernel(self) -> Variant:
        """The kernel of one device, for ranks."""
        return multi_gpu.of_ranks(super().kernel)

    def scale(self, x: Any, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply this rank's values; a launch begins with an exchange."""
        x.own[:] *= factor

    def read(self, x: Any, segments: int) -> Floats:  # noqa: ARG002
        """Return the values of all nodes, in main memory."""
        return self.rows.download(x.own)

    @cached_property
    def _pool(self) -> VectorPool[Gathered]:
        return VectorPool(self.rows.exchange.vector)

    @property
    def _exchange(self) -> DirectExchange:
        return _direct(self.rows)


class RankRefinement(CudaRefinement):
    """Refinement over ranks; all methods are collective.

    Attributes
    ----------
    exchanged_s : list of float
        Seconds of each launch in exchanges and waits for other ranks.
    """

    def __init__(self, rows: DeviceRows) -> None:
        self._rows, self._exchange = rows, _direct(rows)
        self._x = self._exchange.vector(), self._exchange.vector()
        self._histories: list[tuple[Any, Any, Any]] = []
        self.exchanged_s: list[float] = []
        super().__init__(rows.graph)

    def start(self, values: Floats, *, from_rounded: bool | None = None) -> None:
        """Begin at the values of all nodes, which every rank passes."""
        own = slice(self._rows.rows.low, self._rows.rows.high)
        super().start(values[own], from_rounded=is_uniform(values) if from_rounded is None else from_rounded)
        self._exchange.ready()

    def start_uniform(self, nodes: int) -> None:
        """Begin at the uniform distribution."""
        self.start(np.full(nodes, 1.0 / nodes), from_rounded=True)

    def read(self) -> Floats:
        """Return x, in main memory."""
        return self._rows.download(self._contributions[: self._exchange.part_length])

    def read_device(self) -> Any:
        """Return x on the device."""
        return current().upload(self.read())

    def _iterates(self) -> tuple[Any, Any]:
        return self._x[0].memory, self._x[1].memory

    def _zero_history(self, storage: FloatFormat, vectors: int) -> Any:
        made = self._exchange.history(vectors, storage.width // 8)
        self._histories.append(made)
        return made[1]

    def _exchanged(self, sent: Any) -> tuple[Struct, ...]:
        routes = next(routes for _, memory, routes in self._histories if memory is sent)
        return (self._exchange.rank_argument(self._x, (sent, routes)),)

    def _rounded_start(self) -> Struct:
        counts = self._rows.transport.communicator.allgather(self.graph.row_entries)
        entries, longest = zip(*counts, strict=True)
        return self.graph.rounded_start_of(sum(entries), max(longest), self._rows.rows.nodes)

    def _seed(self, storage: FloatFormat) -> int:
        return rank_seed(storage.seed, self._rows.transport.rank)

    def _variant(self, storage: FloatFormat, *, error_feedback: bool) -> Variant:
        return multi_gpu.of_ranks(super()._variant(storage, error_feedback=error_feedback))

    def _launch(self, launch: Launch, request: Struct, start: Struct, vectors: int) -> list[OuterStep]:
        found = super()._launch(launch, request, start, vectors)
        seconds, of_history = self._exchange.spent()
        self.exchanged_s.append(seconds)
        self._exchange.count_within(8, sum(not step.from_rounded for step in found))
        self._exchange.count_within(launch.sent.nbytes // launch.vectors // self._exchange.longest, of_history)
        return found


def _direct(rows: DeviceRows) -> DirectExchange:
    found: DirectExchange = rows.exchange  # type: ignore[assignment]  # `device_choice` has looked.
    return found
