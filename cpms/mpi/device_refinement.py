"""Method ``refine`` over ranks with a GPU each: full sweeps exchange 64 bits a node, low sweeps 8, 16 or 32."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from cpms.cuda import variants
from cpms.engine import Floats, Norm, Refinement, Round, Sweep
from cpms.format import FloatFormat
from cpms.mpi.device_power import AHEAD
from cpms.mpi.device_rows import DeviceRows, Told
from cpms.mpi.gathered import Gathered
from cpms.mpi.transport import Repeated
from cpms.quantising import WIDE_EXPONENT_BITS, headroom

_NULL = np.uint64(0)
_SEEDS = 0xD1B54A32D192ED03


class DeviceRefinement(Refinement):
    """x as shares and c, a stretch of each on every rank; every rank calls the same functions."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows = rows
        self.nbytes = rows.nbytes
        self._x, self._fresh, self._told = rows.exchange.vector(), rows.exchange.vector(), rows.exchange.numbers()
        self._change, self._c = rows.of_rows(np.float64), rows.of_rows(np.float32)
        self._has_c = False
        self._z: tuple[Gathered, ...] = ()
        self._storage: FloatFormat | None = None
        self._full = variants.ranks_full(rows.shape, refines=True, personal=rows.personal)
        self._full_repeated, self._low_repeated = Repeated(rows.transport), Repeated(rows.transport)
        self._correct = variants.ranks_correct(rows.shape)
        rows.exchange.compile(64, self._correct, self._full, *variants.SHARES)

    def start(self, values: Floats) -> None:
        """Begin at values; every rank gives all of them."""
        self._rows.exchange.ready()
        self._rows.upload(values, self._x)
        self._has_c = False

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Correct, exchange, sweep in float64; then quantise, exchange, sweep, and so on."""
        began = time.perf_counter()
        full = self._full_sweep()
        found = Sweep(full.l1, math.sqrt(full.squares) if full.squares >= 0 else math.nan, full.linf, full.mass)
        sums, seconds, size = [full.sum], [time.perf_counter() - began], found.of(norm)
        low: list[float] = []
        if storage is not None and most_low > 0 and tol <= size < math.inf:
            until = max(gain * full.l1, 0.5 * tol * full.l1 / size)
            for told, ended in self._low_sweeps(storage, until=until, most=most_low):
                low.append(told.l1)
                sums.append(told.sum)
                seconds.append(ended - began)
        self._has_c = bool(low)
        return Round(found=found, low=low, sums=sums, seconds=seconds)

    def read(self) -> Floats:
        """Return x, in main memory."""
        return self._rows.download(self._x)

    def _full_sweep(self) -> Told:
        rows, x, fresh, has_c, to = self._rows, self._x, self._fresh, self._has_c, self._told

        def launch() -> None:
            rows.launch(self._correct, x, x, x.own, self._c if has_c else _NULL)
            rows.exchange.queue(x)
            rows.full_sweep(self._full, x, fresh, to, self._change)

        self._full_repeated.run((x.memory, x.heard, fresh.memory, to.heard), (has_c,), launch)
        self._x, self._fresh = fresh, x
        return rows.told(to)()

    def _low_sweeps(self, storage: FloatFormat, *, until: float, most: int) -> Iterator[tuple[Told, float]]:
        """Sweep until ||r||_1 is at most ``until``; yield what each sweep found, and when by the host's clock."""
        rows = self._rows
        self._use(storage)
        arguments = (*_storing(storage, rows), self._change, self._c, self._z[0].own, np.float64(until))
        rows.launch(variants.ranks_quantise(storage, rows.shape), self._told, self._z[0], *arguments)
        rows.exchange.queue(self._z[0])
        yield from (self._stay if rows.exchange.within else self._look_on)(storage, until=until, most=most)

    def _stay(self, storage: FloatFormat, *, until: float, most: int) -> Iterator[tuple[Told, float]]:
        """Sweep in as few launches as hold all sweeps."""
        rows, done = self._rows, 0
        variant = variants.ranks_low(storage, rows.shape, personal=rows.personal)
        while done < most:
            old, new = self._z[done % 2], self._z[(done + 1) % 2]
            made = rows.sweeps(variant, old, new, *_storing(storage, rows), self._c, most=most - done)
            ended = time.perf_counter() - made[-1][1]
            yield from ((told, ended + spent) for told, spent in made)
            done += len(made)
            if not made[-1][0].l1 > until:
                return

    def _look_on(self, storage: FloatFormat, *, until: float, most: int) -> Iterator[tuple[Told, float]]:
        """Look at each sweep while the next one runs."""
        rows = self._rows
        ahead: deque[Callable[[], Told]] = deque()
        queued = 0
        for seen in range(most):
            while queued < min(most, seen + AHEAD):
                old, new = self._z[queued % 2], self._z[(queued + 1) % 2]
                self._queue_low(storage, old, new)
                ahead.append(rows.told(new))
                queued += 1
            told = ahead.popleft()()
            yield told, time.perf_counter()
            if not told.l1 > until:
                return

    def _queue_low(self, storage: FloatFormat, old: Gathered, new: Gathered) -> None:
        """Queue a low sweep and its exchange."""
        rows = self._rows

        def launch() -> None:
            variant = variants.ranks_low(storage, rows.shape, personal=rows.personal)
            rows.sweep(variant, old, new, *_storing(storage, rows), self._c)

        vectors = (old.memory, old.heard, new.memory, new.heard)
        self._low_repeated.run(vectors, (storage.width,), launch)

    def _use(self, storage: FloatFormat) -> None:
        """Have room for z in a format, and kernels for it."""
        if storage == self._storage:
            return
        self._low_repeated.clear()
        self._z = ()
        vector = self._rows.exchange.vector
        self._z = tuple(vector(np.uint8, each_bytes=storage.width // 8) for _ in range(2))
        shape = self._rows.shape
        low = variants.ranks_low(storage, shape, personal=self._rows.personal)
        self._rows.exchange.compile(storage.width, variants.ranks_quantise(storage, shape), low)
        self._storage = storage


def _storing(storage: FloatFormat, rows: DeviceRows) -> tuple[np.uint32, np.int32, np.uint64]:
    """Return how a kernel stores z; no two ranks round alike where that is random."""
    seed = (storage.seed + rows.transport.rank * _SEEDS) % 2**64
    scaled = storage.exponent_bits != WIDE_EXPONENT_BITS
    return np.uint32(scaled), np.int32(storage.bias - headroom(storage)), np.uint64(seed)
