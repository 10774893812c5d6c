"""Mixed-precision iterative refinement over ranks with one GPU each, which exchange by messages.

Residual sweeps exchange 64 bits a node, inner sweeps 8, 16 or 32, and every sweep is a launch and an exchange. Inner
sweeps accumulate the correction. Ranks that store remotely do what one device does; see
`cpms.backends.mpi.sweeps.persistent_ranks`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from cpms.backends.cuda.kernels import multi_gpu, template
from cpms.backends.cuda.kernels.structs import RANK_HISTORY
from cpms.backends.cuda.persistent.refinement import quantiser_argument
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.mpi.exchange.device_vectors import Gathered
from cpms.backends.mpi.exchange.transport import Repeated
from cpms.backends.mpi.sweeps.device_power import AHEAD
from cpms.backends.mpi.sweeps.device_rows import DeviceRows, RankTotals
from cpms.base import work_clock
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import FP32, FloatFormat
from cpms.formats.quantization import rank_seed
from cpms.precision.anderson import DEPTH, HISTORY_VECTORS, PRODUCTS, history_vectors
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance

_NULL = np.uint64(0)


class DeviceRefinement(Refinement):
    """Refinement with the rows of x (as contributions) and of the correction on each rank; methods are collective."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows, self.damping = rows, rows.problem.damping
        self.nbytes = rows.nbytes
        self._x, self._fresh, self._totals = rows.exchange.vector(), rows.exchange.vector(), rows.exchange.rank_totals()
        self._products = rows.exchange.rank_totals(PRODUCTS)
        self._change, self._c = rows.of_rows(np.float64), rows.of_rows(np.float32)
        self._has_c = False
        self._z: tuple[Gathered, ...] = ()
        self._storage: FloatFormat | None = None
        self._residual_kernel = multi_gpu.rank_residual_sweep(rows.shape, refines=True, personal=rows.personal)
        self._residual_graphs, self._inner_graphs = Repeated(rows.transport), Repeated(rows.transport)
        self._correct = multi_gpu.rank_correct(rows.shape)
        rows.exchange.compile(64, self._correct, self._residual_kernel, *template.CONTRIBUTIONS)

    def start(self, values: Floats) -> None:
        """Set the initial guess; every rank passes all values."""
        self._rows.upload(values, self._x)
        self._has_c = False
        self._rows.exchange.ready()

    def warm_up(self, storage: FloatFormat | None) -> None:
        """Allocate vectors and compile kernels of inner sweeps in a format."""
        self._prepare_format(storage or FP32)

    def outer_step(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Do one outer step: a correction, a float64 residual sweep, then inner sweeps on the quantised residual."""
        request = OuterRequest(inner_reduction, 0.0, tol, norm, max_inner + 1)
        return self._outer_step(storage, request, anderson=False)

    def outer_steps(self, storage: FloatFormat | None, request: OuterRequest) -> list[OuterStep]:
        """Do one outer step."""
        return [self._outer_step(storage, request, anderson=self.anderson)]

    def read(self) -> Floats:
        """Return x, in main memory."""
        return self._rows.download(self._x.own)

    def _outer_step(self, storage: FloatFormat | None, request: OuterRequest, *, anderson: bool) -> OuterStep:
        """Do an outer step with one launch for each sweep."""
        began = work_clock.now()
        residual = self._residual_sweep()
        l2 = math.sqrt(residual.squares) if residual.squares >= 0 else math.nan
        found = Sweep(residual.l1, l2, residual.linf, residual.mass)
        sums, seconds, size = [residual.sum], [work_clock.now() - began], found.of(request.norm)
        inner_l1: list[float] = []
        most = min(request.most - 1, inner_max_iterations(request.inner_reduction, self.damping))
        if storage is not None and most > 0 and request.tol <= size < math.inf:
            until = inner_tolerance(request.inner_reduction, request.tol, self.damping, residual.l1, size)
            for totals in self._inner_sweeps(storage, until=until, most=most, anderson=anderson):
                inner_l1.append(totals.l1)
                sums.append(totals.sum)
                seconds.append(work_clock.now() - began)
        self._has_c = bool(inner_l1)
        return OuterStep(found=found, inner_l1=inner_l1, sums=sums, seconds=seconds)

    def _residual_sweep(self) -> RankTotals:
        rows, x, fresh, has_c, totals = self._rows, self._x, self._fresh, self._has_c, self._totals

        def launch() -> None:
            rows.launch(self._correct, x, x, x.own, self._c if has_c else _NULL)
            rows.exchange.queue(x)
            # No norm is below 0, so this sweep always runs.
            arguments = (x.argument, fresh.argument, self._change, np.float64(0.0), np.uint32(0))
            rows.launch(self._residual_kernel, x, totals, *arguments)
            rows.exchange.queue_totals(totals)

        self._residual_graphs.run((x.memory, x.received_totals, fresh.memory, totals.received_totals), (has_c,), launch)
        self._x, self._fresh = fresh, x
        return rows.totals(totals)()

    def _inner_sweeps(self, storage: FloatFormat, *, until: float, most: int, anderson: bool) -> Iterator[RankTotals]:
        """Sweep until ||r||_1 is at most ``until``; yield the totals of each sweep while the next one runs.

        Fewer sweeps are queued than lie between two combinations, so the decision on the next one is in time.
        """
        rows = self._rows
        self._prepare_format(storage)
        arguments = (_quantiser(storage, rows), self._change, self._c, self._z[0].own, np.float64(until))
        rows.launch(multi_gpu.rank_quantise(storage, rows.shape), self._totals, self._z[0], *arguments)
        rows.exchange.queue(self._z[0])
        ahead: deque[Callable[[], RankTotals]] = deque()
        combines = anderson and len(self._z) == HISTORY_VECTORS
        sent = queued = 0
        for seen in range(most):
            while queued < min(most, seen + AHEAD):
                if combines and sent == DEPTH:
                    self._queue_combination(storage)
                    sent = 0
                into = (sent + 1) % (HISTORY_VECTORS if combines else 2)
                self._queue_inner_sweep(storage, sent, into)
                ahead.append(rows.totals(self._z[into]))
                queued += 1
                sent = into
            totals = ahead.popleft()()
            yield totals
            if not totals.l1 > until:
                return
            combines = combines and totals.worthwhile

    def _queue_combination(self, storage: FloatFormat) -> None:
        """Queue the Anderson combination of all z, with the exchanges of its dot products and of its result."""
        rows, first, last = self._rows, self._z[0], self._z[DEPTH]
        history = pack(RANK_HISTORY, own=[z.own for z in self._z], received=[z.received_totals for z in self._z])

        def launch() -> None:
            # Exchanges end on all ranks before the next launch, so both kernels see the totals of each z.
            products, combine = multi_gpu.rank_combination(storage, rows.shape)
            rows.launch(products, last, self._products, history)
            rows.exchange.queue_totals(self._products)
            rows.launch(
                combine, last, first, history, _quantiser(storage, rows), self._products.received_totals, self._c
            )
            rows.exchange.queue(first)

        self._repeat(launch, storage.width)

    def _queue_inner_sweep(self, storage: FloatFormat, sent: int, into: int) -> None:
        """Queue an inner sweep from one z to another, and its exchange."""
        rows, old, new = self._rows, self._z[sent], self._z[into]

        def launch() -> None:
            variant = multi_gpu.rank_inner_sweep(storage, rows.shape, personal=rows.personal)
            rows.launch(variant, old, new, _quantiser(storage, rows), old.argument, new.argument, self._c)
            rows.exchange.queue(new)

        self._repeat(launch, storage.width, sent, into)

    def _repeat(self, launch: Callable[[], None], *what: float) -> None:
        """Replay launches on z, whose addresses change with the format alone."""
        vectors = *(z.memory for z in self._z), *(z.received_totals for z in self._z), self._products.received_totals
        self._inner_graphs.run(vectors, what, launch)

    def _prepare_format(self, storage: FloatFormat) -> None:
        """Allocate z in a format, and compile its kernels."""
        if storage == self._storage:
            return
        self._inner_graphs.clear()
        self._z = ()
        vector = self._rows.exchange.vector
        count = history_vectors(storage)
        self._z = tuple(vector(np.uint8, each_bytes=storage.width // 8) for _ in range(count))
        shape, personal = self._rows.shape, self._rows.personal
        kernels = [
            multi_gpu.rank_quantise(storage, shape),
            multi_gpu.rank_inner_sweep(storage, shape, personal=personal),
            *(multi_gpu.rank_combination(storage, shape) if count == HISTORY_VECTORS else ()),
        ]
        self._rows.exchange.compile(storage.width, *kernels)
        self._storage = storage


def _quantiser(storage: FloatFormat, rows: DeviceRows) -> Struct:
    """Return the kernel argument that quantises z; stochastic rounding has a seed for each rank."""
    return quantiser_argument(storage, rank_seed(storage.seed, rows.transport.rank))
