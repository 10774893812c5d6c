"""Float64 power iteration over ranks with a GPU each, which exchange by messages: a sweep is a kernel and an exchange.

Ranks that store remotely sweep in one launch; see `cpms.backends.mpi.sweeps.persistent_ranks`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from cpms.backends.cuda.kernels import multi_gpu, template
from cpms.backends.cuda.persistent.refinement import NORMS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.backends.mpi.exchange.device_vectors import Gathered
from cpms.backends.mpi.exchange.transport import Repeated
from cpms.backends.mpi.sweeps.device_rows import DeviceRows, RankTotals
from cpms.base import work_clock
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Operator, Sweep, Sweeps
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem

AHEAD = 2
"""Sweeps queued before the host reads the totals of the first, so that the device is never idle.

A superfluous sweep sees the totals of the last one, and changes nothing. The number is at most that of the alternating
vectors: totals must be fetched before they are overwritten.
"""
_MOST = 64
"""Sweeps of a call, after which the solver reports progress."""
_NULL = np.uint64(0)


class DevicePower(Operator[Gathered]):
    """The operator of one rank's rows on its device; all methods are collective."""

    def __init__(self, problem: Problem, rows: DeviceRows) -> None:
        self.problem, self.rows = problem, rows
        self.storage: Format = FP64
        self.nbytes = rows.nbytes
        self._sweep_kernel = multi_gpu.rank_residual_sweep(rows.shape, refines=False, personal=rows.personal)
        self._repeated = Repeated(rows.transport)
        self._pool = VectorPool(rows.exchange.vector)
        self._pool.pair()  # Ranks make vectors together, but drop theirs at any time.
        self._correct = multi_gpu.rank_correct(rows.shape)
        rows.exchange.compile(64, self._correct, self._sweep_kernel, *template.CONTRIBUTIONS)

    def load(self, values: Floats) -> Gathered:
        """Return a vector of values; every rank passes all of them."""
        vector = self.empty()
        self.rows.exchange.ready()
        self.rows.upload(values, vector)
        self.rows.launch(self._correct, vector, vector, vector.own, _NULL)
        self.rows.exchange.queue(vector)
        current().synchronize()
        return vector

    def empty(self) -> Gathered:
        """Return a vector, in pooled memory, so that captured CUDA graphs remain valid."""
        return self._pool.vector()

    def sweep(self, x: Gathered, out: Gathered, level: Level, step: int) -> Sweep:
        """Sweep once."""
        return self.sweeps(x, out, level, step, norm="l1", tol=0.0, most=1).found[0]

    def sweeps(
        self,
        x: Gathered,
        out: Gathered,
        level: Level,  # noqa: ARG002
        step: int,  # noqa: ARG002
        *,
        norm: Norm,
        tol: float,
        most: int,
    ) -> Sweeps:
        """Sweep until a change is below ``tol``, with the host one sweep behind the device."""
        began = work_clock.now()
        found: list[Sweep] = []
        seconds: list[float] = []
        ahead: deque[Callable[[], RankTotals]] = deque()
        queued, most = 0, min(most, _MOST)
        while True:
            while queued < min(most, len(found) + AHEAD):
                old, new = (x, out) if queued % 2 == 0 else (out, x)
                # The first sweep runs whatever the last change was.
                self._queue(old, new, tol if queued else 0.0, NORMS.index(norm))
                ahead.append(self.rows.totals(new))
                queued += 1
            totals = ahead.popleft()()
            found.append(Sweep(totals.l1, totals.squares**0.5, totals.linf, totals.mass))
            seconds.append(work_clock.now() - began)
            if not found[-1].of(norm) >= tol or len(found) == most:
                return Sweeps(found, seconds)

    def _queue(self, old: Gathered, new: Gathered, tol: float, norm: int) -> None:
        """Queue a sweep and its exchange."""

        def launch() -> None:
            arguments = (old.argument, new.argument, _NULL, np.float64(tol), np.uint32(norm))
            self.rows.launch(self._sweep_kernel, old, new, *arguments)
            self.rows.exchange.queue(new)

        self._repeated.run((old.memory, old.received_totals, new.memory, new.received_totals), (tol, norm), launch)

    def scale(self, x: Gathered, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply in place."""
        x.memory[:] *= factor
        x.received_totals[:] *= factor

    def read(self, x: Gathered, segments: int) -> Floats:  # noqa: ARG002
        """Return the values of all nodes, in main memory."""
        return self.rows.download(x.own)
