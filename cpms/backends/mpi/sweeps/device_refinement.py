"""Method ``refine`` over ranks with a GPU each: full sweeps exchange 64 bits a node, low sweeps 8, 16 or 32."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from cpms.backends.cuda.kernels import multi_gpu, template
from cpms.backends.cuda.persistent.refinement import (
    quantiser_arguments,
    read_outer_steps,
    report_buffer,
    request_arguments,
)
from cpms.backends.mpi.exchange.device_vectors import Gathered
from cpms.backends.mpi.exchange.transport import Repeated
from cpms.backends.mpi.sweeps.device_power import AHEAD
from cpms.backends.mpi.sweeps.device_rows import DeviceRows, Told
from cpms.base import work_clock
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import FP32, FloatFormat
from cpms.precision.anderson import DEPTH, PRODUCTS, SLOTS, slots_for
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance

_NULL = np.uint64(0)
_SEEDS = 0xD1B54A32D192ED03


class DeviceRefinement(Refinement):
    """x as shares and c, a stretch of each on every rank; every rank calls the same functions."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows, self.damping = rows, rows.problem.damping
        self.nbytes = rows.nbytes
        self._x, self._fresh, self._told = rows.exchange.vector(), rows.exchange.vector(), rows.exchange.numbers()
        self._products = rows.exchange.numbers(PRODUCTS)
        self._change, self._c = rows.of_rows(np.float64), rows.of_rows(np.float32)
        self._has_c = False
        self._z: tuple[Gathered, ...] = ()
        self._storage: FloatFormat | None = None
        self._report = report_buffer()
        self._full = multi_gpu.rank_residual_sweep(rows.shape, refines=True, personal=rows.personal)
        self._full_repeated, self._low_repeated = Repeated(rows.transport), Repeated(rows.transport)
        self._correct = multi_gpu.rank_correct(rows.shape)
        sweeping = [] if rows.exchange.within else [self._correct, self._full]
        rows.exchange.compile(64, *sweeping, *template.CONTRIBUTIONS)

    def start(self, values: Floats) -> None:
        """Begin at values; every rank gives all of them."""
        self._rows.upload(values, self._x)
        self._has_c = False
        self._rows.exchange.ready()

    def warm_up(self, storage: FloatFormat | None) -> None:
        """Have room and kernels for sweeps that read a format."""
        self._use(storage or FP32)

    def round(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, most_low: int
    ) -> OuterStep:
        """Correct, exchange, sweep in float64; then quantise, exchange, sweep, and so on."""
        asked = OuterRequest(inner_reduction, 0.0, tol, norm, most_low + 1)
        if self._rows.exchange.within:
            return self._stay(storage, asked, extrapolate=False)[0]
        return self._round(storage, asked, extrapolate=False)

    def rounds(
        self,
        storage: FloatFormat | None,
        *,
        inner_reduction: float,
        noise_tolerance: float,
        tol: float,
        norm: Norm,
        most: int,
    ) -> list[OuterStep]:
        """Launch once, where a kernel may see to exchanges; else do one round."""
        asked = OuterRequest(inner_reduction, noise_tolerance, tol, norm, most)
        if self._rows.exchange.within:
            return self._stay(storage, asked, extrapolate=self.anderson)
        return [self._round(storage, asked, extrapolate=self.anderson)]

    def read(self) -> Floats:
        """Return x, in main memory."""
        return self._rows.download(self._x)

    def _stay(self, storage: FloatFormat | None, asked: OuterRequest, *, extrapolate: bool) -> list[OuterStep]:
        """Do rounds in one launch."""
        rows, kept = self._rows, storage or self._storage or FP32
        self._use(kept)
        arguments = (
            *request_arguments(asked, self.damping, has_inner=storage is not None),
            *_storing(kept, rows),
            *(self._change, self._c, np.uint32(self._has_c), self._report),
        )
        variant = multi_gpu.persistent_rank_refine(kept, rows.shape, personal=rows.personal)
        z = tuple(self._z[place % len(self._z)] for place in range(SLOTS))
        before = rows.exchange.made()
        vectors = self._x, self._fresh, self._told, self._products, *z
        rows.stay(variant, vectors, np.uint32(len(self._z) if extrapolate else 2), *arguments)
        after = rows.exchange.made()
        found = read_outer_steps(self._report)
        if len(found) % 2:
            self._x, self._fresh = self._fresh, self._x
        self._has_c = bool(found[-1].low)
        low = sum(len(made.low) + bool(made.low) for made in found)
        # What is left are two exchanges a combination; a rank alone makes none at all.
        combined = max(0, after() - before() - 2 * len(found) - low) // 2
        rows.exchange.count_received(self._x, len(found))
        rows.exchange.count_told(self._told, len(found))
        rows.exchange.count_received(z[0], low + combined)
        rows.exchange.count_told(self._products, combined)
        return found

    def _round(self, storage: FloatFormat | None, asked: OuterRequest, *, extrapolate: bool) -> OuterStep:
        """Do a round in launches of its sweeps."""
        began = work_clock.now()
        full = self._full_sweep()
        found = Sweep(full.l1, math.sqrt(full.squares) if full.squares >= 0 else math.nan, full.linf, full.mass)
        sums, seconds, size = [full.sum], [work_clock.now() - began], found.of(asked.norm)
        low: list[float] = []
        most = min(asked.most - 1, inner_max_iterations(asked.inner_reduction, self.damping))
        if storage is not None and most > 0 and asked.tol <= size < math.inf:
            until = inner_tolerance(asked.inner_reduction, asked.tol, self.damping, full.l1, size)
            for told in self._low_sweeps(storage, until=until, most=most, extrapolate=extrapolate):
                low.append(told.l1)
                sums.append(told.sum)
                seconds.append(work_clock.now() - began)
        self._has_c = bool(low)
        return OuterStep(found=found, low=low, sums=sums, seconds=seconds)

    def _full_sweep(self) -> Told:
        rows, x, fresh, has_c, to = self._rows, self._x, self._fresh, self._has_c, self._told

        def launch() -> None:
            rows.launch(self._correct, x, x, x.own, self._c if has_c else _NULL)
            rows.exchange.queue(x)
            # No norm is below 0, so that this sweep always runs.
            arguments = (x.memory, x.own, fresh.own, self._change, np.float64(0.0), np.uint32(0))
            rows.launch(self._full, x, to, *arguments)
            rows.exchange.queue_told(to)

        self._full_repeated.run((x.memory, x.heard, fresh.memory, to.heard), (has_c,), launch)
        self._x, self._fresh = fresh, x
        return rows.told(to)()

    def _low_sweeps(self, storage: FloatFormat, *, until: float, most: int, extrapolate: bool) -> Iterator[Told]:
        """Sweep until ||r||_1 is at most ``until``; yield what each sweep found while the next one runs.

        Whether combining pays is known before it is due again: fewer sweeps are queued than lie between.
        """
        rows = self._rows
        self._use(storage)
        arguments = (*_storing(storage, rows), self._change, self._c, self._z[0].own, np.float64(until))
        rows.launch(multi_gpu.rank_quantise(storage, rows.shape), self._told, self._z[0], *arguments)
        rows.exchange.queue(self._z[0])
        ahead: deque[Callable[[], Told]] = deque()
        combines = extrapolate and len(self._z) == SLOTS
        sent = queued = 0
        for seen in range(most):
            while queued < min(most, seen + AHEAD):
                if combines and sent == DEPTH:
                    self._queue_combination(storage)
                    sent = 0
                into = (sent + 1) % (SLOTS if combines else 2)
                self._queue_low(storage, sent, into)
                ahead.append(rows.told(self._z[into]))
                queued += 1
                sent = into
            told = ahead.popleft()()
            yield told
            if not told.l1 > until:
                return
            combines = combines and told.combines

    def _queue_combination(self, storage: FloatFormat) -> None:
        """Queue what combines all z that are kept, and the exchanges of what it needs and finds."""
        rows, first, last = self._rows, self._z[0], self._z[DEPTH]
        kept = *(z.own for z in self._z), *(z.heard for z in self._z)

        def launch() -> None:
            # Exchanges end on all ranks before the next launch, so what was told of each z is there for both.
            products, combine = multi_gpu.rank_combination(storage, rows.shape)
            rows.launch(products, last, self._products, *kept)
            rows.exchange.queue_told(self._products)
            rows.launch(combine, last, first, *kept, *_storing(storage, rows), self._products.heard, self._c)
            rows.exchange.queue(first)

        self._repeat(launch, storage.width)

    def _queue_low(self, storage: FloatFormat, sent: int, into: int) -> None:
        """Queue a low sweep from one z to another, and its exchange."""
        rows, old, new = self._rows, self._z[sent], self._z[into]

        def launch() -> None:
            variant = multi_gpu.rank_inner_sweep(storage, rows.shape, personal=rows.personal)
            rows.launch(variant, old, new, *_storing(storage, rows), old.memory, new.own, self._c)
            rows.exchange.queue(new)

        self._repeat(launch, storage.width, sent, into)

    def _repeat(self, launch: Callable[[], None], *what: float) -> None:
        """Launch on z, which stay where they are as long as their format is in use."""
        vectors = *(z.memory for z in self._z), *(z.heard for z in self._z), self._products.heard
        self._low_repeated.run(vectors, what, launch)

    def _use(self, storage: FloatFormat) -> None:
        """Have room for z in a format, and kernels for it."""
        if storage == self._storage:
            return
        self._low_repeated.clear()
        self._z = ()
        vector = self._rows.exchange.vector
        slots = slots_for(storage)
        self._z = tuple(vector(np.uint8, each_bytes=storage.width // 8) for _ in range(slots))
        shape, personal = self._rows.shape, self._rows.personal
        sweeping = [
            *(multi_gpu.rank_quantise(storage, shape), multi_gpu.rank_inner_sweep(storage, shape, personal=personal)),
            *(multi_gpu.rank_combination(storage, shape) if slots == SLOTS else ()),
        ]
        if self._rows.exchange.within:
            sweeping = [multi_gpu.persistent_rank_refine(storage, shape, personal=personal)]
        self._rows.exchange.compile(storage.width, *sweeping)
        self._storage = storage


def _storing(storage: FloatFormat, rows: DeviceRows) -> tuple[np.uint32, np.int32, np.uint64]:
    """Return how a kernel stores z; no two ranks round alike where that is random."""
    return quantiser_arguments(storage, (storage.seed + rows.transport.rank * _SEEDS) % 2**64)
