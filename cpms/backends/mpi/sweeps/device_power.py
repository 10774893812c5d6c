"""Float64 power iteration over ranks with a GPU each: a sweep is one kernel and one exchange."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import numpy as np

from cpms.backends.cuda.kernels import multi_gpu, template
from cpms.backends.cuda.persistent.refinement import NORMS, read_outer_steps, report_buffer
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.backends.mpi.exchange.device_vectors import Gathered
from cpms.backends.mpi.exchange.transport import Repeated
from cpms.backends.mpi.sweeps.device_rows import DeviceRows, Told
from cpms.base import work_clock
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Operator, Sweep, Sweeps
from cpms.contracts.refinement import OuterStep
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem

AHEAD = 2
"""Sweeps queued before the host looks at the first: while it does, the device has work.

A sweep that turns out to be one too many finds so in what ranks told, and changes nothing. No more than the
vectors that take turns: what ranks told must have been fetched before it is written over.
"""
_MOST = 64
"""Sweeps between two looks of the solver, which reports progress then."""
_NULL = np.uint64(0)


class DevicePower(Operator[Gathered]):
    """One rank's rows on its device; every rank calls the same functions."""

    def __init__(self, problem: Problem, rows: DeviceRows) -> None:
        self.problem, self.rows = problem, rows
        self.storage: Format = FP64
        self.nbytes = rows.nbytes
        self._full = multi_gpu.rank_residual_sweep(rows.shape, refines=False, personal=rows.personal)
        self._repeated = Repeated(rows.transport)
        self._pool = VectorPool(rows.exchange.vector)
        self._pool.pair()  # Ranks make vectors together: a solve has these two, whenever each lets go of them.
        self._correct = multi_gpu.rank_correct(rows.shape)
        self._power = multi_gpu.persistent_rank_power(rows.shape, personal=rows.personal)
        self._report = report_buffer()
        sweeping = self._power if rows.exchange.within else self._full
        rows.exchange.compile(64, self._correct, sweeping, *template.CONTRIBUTIONS)

    def load(self, values: Floats) -> Gathered:
        """Return a vector; every rank gives all of the values."""
        vector = self.empty()
        self.rows.exchange.ready()
        self.rows.upload(values, vector)
        self.rows.launch(self._correct, vector, vector, vector.own, _NULL)
        self.rows.exchange.queue(vector)
        current().synchronize()
        return vector

    def empty(self) -> Gathered:
        """Return a vector: in memory of one that is gone, where graphs of the last solve know it."""
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
        """Sweep until a change is below ``tol``: in one launch, or the host looks at each while the next one runs."""
        began = work_clock.now()
        if self.rows.exchange.within:
            made = self._stay(x, out, norm=norm, tol=tol, most=min(most, _MOST))
            ended = list(itertools.accumulate(each.seconds[-1] for each in made))
            launched = work_clock.now() - began - ended[-1]
            return Sweeps([each.found for each in made], [launched + spent for spent in ended])
        found: list[Sweep] = []
        seconds: list[float] = []
        ahead: deque[Callable[[], Told]] = deque()
        queued, most = 0, min(most, _MOST)
        while True:
            while queued < min(most, len(found) + AHEAD):
                old, new = (x, out) if queued % 2 == 0 else (out, x)
                # The first goes on whatever the last change was.
                self._queue(old, new, tol if queued else 0.0, NORMS.index(norm))
                ahead.append(self.rows.told(new))
                queued += 1
            told = ahead.popleft()()
            found.append(Sweep(told.l1, told.squares**0.5, told.linf, told.mass))
            seconds.append(work_clock.now() - began)
            if not found[-1].of(norm) >= tol or len(found) == most:
                return Sweeps(found, seconds)

    def _stay(self, x: Gathered, out: Gathered, *, norm: Norm, tol: float, most: int) -> list[OuterStep]:
        """Sweep in one launch; the seconds of each are on a clock of the device."""
        arguments = np.float64(tol), np.uint32(NORMS.index(norm)), np.uint32(most), self._report
        self.rows.stay(self._power, (x, out), *arguments)
        made = read_outer_steps(self._report)
        self.rows.exchange.count_received(x, len(made))
        return made

    def _queue(self, old: Gathered, new: Gathered, tol: float, norm: int) -> None:
        """Queue a sweep and its exchange."""

        def launch() -> None:
            arguments = (old.memory, old.own, new.own, _NULL, np.float64(tol), np.uint32(norm))
            self.rows.launch(self._full, old, new, *arguments)
            self.rows.exchange.queue(new)

        self._repeated.run((old.memory, old.heard, new.memory, new.heard), (tol, norm), launch)

    def scale(self, x: Gathered, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply in place."""
        x.memory[:] *= factor
        x.heard[:] *= factor

    def to_float64(self, x: Gathered, out: Gathered) -> tuple[DevicePower, Gathered, Gathered]:
        """Return everything as it is: it is float64."""
        return self, x, out

    def read(self, x: Gathered, segments: int) -> Floats:  # noqa: ARG002
        """Return the values of all nodes, in main memory."""
        return self.rows.download(x)
