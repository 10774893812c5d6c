"""Arnoldi's method in device memory: the host enqueues steps ahead, and reads their results a few steps later.

For vectors of one format, a step has five launches (``krylov/arnoldi.cu``). Their arguments are packed once, and the
few that differ from step to step change in place. The results of several steps reach main memory in one asynchronous
transfer. Orthogonalisation, rotations and the decision to end a cycle are made on the device, where launches behind the
last step do nothing. The host chooses the bits of a vector when it enqueues the step, by a residual that is a few steps
old. Residuals of GMRES do not grow, so these bits are at least as many as needed. Vectors in layers of block floats
(`cpms.solvers.linear.stored_basis`) are read in as many layers as the present residual needs, since the device chooses
these.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.krylov import ARNOLDI_PARTS, arnoldi_pass
from cpms.backends.cuda.kernels.structs import ARNOLDI, MOST_LAYERS, MOST_SLABS
from cpms.backends.cuda.kernels.template import WHOLE_VALUES, Variant
from cpms.backends.cuda.krylov.basis import SLAB_VECTORS, Basis, LayeredBasis, Run
from cpms.backends.cuda.runtime.backend import MAX_ASYNC_NUMBERS, THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import filled
from cpms.base.errors import UnsupportedError
from cpms.contracts.arnoldi import CANCELLED, ArnoldiCycle, ArnoldiStep, ArnoldiSteps, StoredAs
from cpms.contracts.linear_solve import SolveTask
from cpms.formats.block_float import BlockFloatFormat
from cpms.solvers.linear.gmres import least_squares
from cpms.solvers.linear.stored_basis import OF_DOTS, SPARE, digits_needed, layers_of

_STATE = ("mode", "columns", "square", "size", "side", "enough", "cancelled", "most", "floor", "read")
_ENTRY = ("residual", "passes", "right", "cosine", "sine", "read")
MOST_STEPS = (MAX_ASYNC_NUMBERS - len(_STATE)) // len(_ENTRY)
"""Most steps of a cycle, whose state and results reach main memory in one asynchronous copy."""
_MOST_CHOSEN = 2 * MOST_SLABS * SLAB_VECTORS
"""Most layers of all vectors of a launch; ``krylov/stored_basis.cuh`` has the same number."""
_FIRST, _SECOND, _ENDED, _ANY = range(4)
"""Modes: a first and a second pass of Gram-Schmidt, a cycle that has ended, and launches that work in every mode."""
_QUEUED_STEPS = 4
"""Steps that are enqueued at once; as many more are enqueued before the host waits for their results."""


class _Launch:
    """A kernel on vectors of one format, with packed arguments of which few change from launch to launch."""

    def __init__(self, variant: Variant, blocks: int, packed: Any) -> None:
        self._packed, self._count, self._slab, self._out = packed, packed["count"], packed["slab"], packed["out"]
        self._launch = current().launcher(variant, blocks, packed)
        self._layouts: list[Any] = []

    def on(self, runs: list[Run], count: int) -> None:
        """Launch the kernel on those of the first ``count`` vectors that are in these runs: one run, or all layers."""
        self._packed["first"], self._packed["layers"] = runs[0].first, len(runs)
        self._count[: len(runs)] = [min(run.end, count) - run.first for run in runs]
        layouts = [run.layout for run in runs]
        if layouts != self._layouts:
            self._layouts, self._packed["stride"] = layouts, runs[0].slabs[0].stride
            for layer, run in enumerate(runs):
                self._slab[layer, : len(run.slabs)] = [slab.address for slab in run.slabs]
        self._launch()

    def into(self, places: list[int]) -> None:
        """Launch the kernel to write the layers of a vector to these addresses."""
        self._out[: len(places)], self._packed["layers"] = places, len(places)
        self._launch()


class CudaArnoldi(ArnoldiSteps):
    """The basis of a task on the device, and the steps that extend it.

    Parameters
    ----------
    operator : LinearOperator
        Its ``prepared`` returns the launches of a product.
    task : SolveTask
        Its formats are some of those in `cpms.backends.cuda.kernels.krylov.arnoldi_fits`.
    most : int
        Most steps of a cycle, up to `MOST_STEPS`.
    """

    def __init__(self, operator: Any, task: SolveTask, most: int) -> None:
        backend, self._rows = current(), min(most, task.size)
        self._operator, self._task = operator, task
        padded = -(-task.size // WHOLE_VALUES) * WHOLE_VALUES
        self._blocks, self._blocks_of_dots = (backend.grid_size(padded, each=4, per_processor=each) for each in (6, 4))
        self._padded_w = backend.arrays.zeros(padded, np.float64)
        self._w = self._padded_w[: task.size]
        self._numbers = backend.arrays.zeros(len(_STATE) + len(_ENTRY) * self._rows, np.float64)
        self._columns = backend.arrays.zeros((self._rows, self._rows), np.float64)
        self._of_vectors = backend.arrays.zeros((2, self._rows + 1), np.float64)
        self._counter = backend.arrays.zeros(1, np.uint32)
        layer = layers_of(task.formats)
        fits = (self._rows + 1) * MOST_LAYERS <= _MOST_CHOSEN
        self._layer = layer if isinstance(layer, BlockFloatFormat) and fits else None
        most_read = (self._rows + 1) * (1 if self._layer is None else MOST_LAYERS)
        self._basis = Basis(padded, self._rows + 1)
        if self._layer is not None:
            self._basis = LayeredBasis(padded, self._rows + 1, self._layer)
            self._sum = backend.arrays.zeros(padded, np.float64)
        self._partials = backend.arrays.zeros(most_read * self._blocks, np.float64)
        self._launches: dict[Any, _Launch] = {}
        self._products: dict[Any, tuple[Any, Callable[[], None]]] = {}
        arrays = {"partials": self._partials, "parts": self._of_vectors[0], "squares": self._of_vectors[1]}
        arrays |= {"columns": self._columns, "state": self._numbers, "entries": self._numbers[len(_STATE) :]}
        arrays |= {"counter": self._counter, "w": self._padded_w}
        sizes = {"rows": self._rows, "padded": padded, "blocks": self._blocks_of_dots, "layers": 1, "spared": OF_DOTS}
        width = 0 if self._layer is None else self._layer.width
        self._packed = filled(ARNOLDI, **arrays, **sizes, width=width)
        self.stage_bytes: dict[str, int] = {}
        """The bytes that each of `stages` reads and writes, set by it."""

    def begin(self, r: Any, size: float, cycle: ArnoldiCycle) -> None:
        """Upload the limits of the cycle, and store r / ||r|| as the first vector."""
        self._cycle, self._size, self._residual = cycle, size, size
        self._careful, self._done = False, 0
        self._waiting: deque[Callable[[], Any]] = deque()
        state = {"size": size, "side": size, "enough": cycle.enough, "cancelled": CANCELLED, "most": cycle.most}
        state["floor"] = cycle.floor * size * 2.0**-SPARE
        self._numbers[: len(_STATE)] = current().upload(np.array([state.get(name, 0.0) for name in _STATE]))
        self._basis.cut(0)
        self.bits = self._basis.bits
        self._w[...] = r
        self._store(_ANY)

    def run(self) -> list[ArnoldiStep]:
        """Enqueue steps ahead, and return the results of the oldest ones."""
        while self._done < self._cycle.most:
            while len(self._waiting) < 2 and self._queued < self._cycle.most:
                self._queue()
            if not self._waiting:
                break
            numbers = self._waiting.popleft()()
            state = dict(zip(_STATE, numbers, strict=False))
            entries = numbers[len(_STATE) :].reshape(-1, len(_ENTRY))
            found = [self._step_of(entry) for entry in entries[self._done : int(state["columns"])]]
            self._done += len(found)
            if found:
                self._residual = found[-1].residual
            if state["mode"] == _SECOND:
                self._repeat()
            elif state["mode"] == _ENDED:
                self._waiting.clear()
                self._cycle = self._cycle._replace(most=self._done)
            if found:
                return found
        return []

    def _step_of(self, entry: Any) -> ArnoldiStep:
        bits = None if self._layer is None else int(entry[5]) * self._layer.width
        return ArnoldiStep(float(entry[0]), int(entry[1]), bits)

    def update(self, x: Any) -> None:
        """Add M V y to x; the host solves the triangular system for y."""
        count, backend = self._done, current()
        columns = list(backend.to_host(self._columns[:count]))
        entries = backend.to_host(self._numbers[len(_STATE) :]).reshape(-1, len(_ENTRY))
        y = least_squares(columns, entries[:count, 2].tolist())
        if y is None:
            return
        self._of_vectors[0, :count] = backend.upload(-y)
        self._padded_w[...] = 0.0
        self._combine(_ANY, count)
        preconditioner = self._task.preconditioner
        correction = self._w if preconditioner is None else preconditioner.apply(self._w)
        self._task.stored.combine([correction], [1.0], x)

    @property
    def _queued(self) -> int:
        """Number of steps that are enqueued or done: each stores one vector more."""
        return len(self.bits) - 1

    def _queue(self) -> None:
        """Enqueue a few steps, and a transfer of their results."""
        count = min(_QUEUED_STEPS, self._cycle.most - self._queued)
        for _ in range(count):
            self._step()
        numbers = self._numbers[: len(_STATE) + len(_ENTRY) * self._queued]
        self._waiting.append(current().fetch_async(numbers))

    def _step(self) -> None:
        self._multiply()
        for mode in (_FIRST, _SECOND) if self._careful else (_FIRST,):
            self._pass(mode)
        self._store(_FIRST)

    def _multiply(self) -> None:
        """Enqueue the product with the last vector."""
        run = self._basis.runs[-1]
        v = run.vector if self._layer is None else self._sum
        if self._task.preconditioner is not None:
            z = self._task.preconditioner.apply(self._task.stored.convert(v, None, run.segments)[: self._task.size])
            self._task.stored.apply(z, self._w, read_matrix=self._task.read)
            return
        key = run.storage, run.segments
        if key not in self._products:
            self._products[key] = self._operator.prepared(v, self._w, self._task.read, run.segments)
        address = run.address if self._layer is None else current().address(v)
        packed, launch = self._products[key]
        packed["x"] = address
        launch()

    def stages(self) -> dict[str, Callable[[], None]]:
        """Return a launch of each part of the step after the last one alone, in their order.

        Launches read the vectors that the steps of a cycle have left in memory, and change none but w and the last of
        them. In a step, the last block of the combination also rotates the new column; here it does not. The task has
        no preconditioner.
        """
        backend, count = current(), self._done + 1
        self._waiting.clear()
        self._basis.cut(self._done)
        backend.clear(self._numbers[:1])
        store = self._next(_FIRST)
        store()
        found: dict[str, Callable[[], None]] = {
            "product": self._multiply,
            "dots": partial(self._dots, _FIRST),
            "coefficients": partial(self._sum_dots, _FIRST),
            "combination": partial(self._combine, _FIRST, count, rotates=False),
            "store": store,
        }
        # The device chooses the layers that a step reads, so that one step is done to count them.
        state = self._numbers[: len(_STATE)].copy()
        self._multiply()
        self._pass(_FIRST)
        if backend.to_host(self._numbers[:1])[0] == _SECOND:
            raise UnsupportedError("parts are timed of a step with one pass of Gram-Schmidt, and this one has two")
        entry = backend.to_host(self._numbers[len(_STATE) :]).reshape(-1, len(_ENTRY))[self._done]
        self._numbers[: len(_STATE)] = state
        found["dots"]()
        of_dots = float(backend.to_host(self._numbers[: len(_STATE)])[-1])
        self._numbers[: len(_STATE)] = state
        self.stage_bytes = self._bytes(int(of_dots), int(entry[5] - of_dots))
        return found

    def _bytes(self, of_dots: int, of_combination: int) -> dict[str, int]:
        """Return the bytes of the parts of a step, given how many vectors, or layers of them, two parts read."""
        length = self._basis.length
        of_all, last, w = sum(self.bits) * length // 8, self.bits[-1] * length // 8, 8 * length
        layer, total, v = 0, 0, self.bits[-1] * self._task.size // 8
        if self._layer is not None:
            layer, total, v = self._layer.width * length // 8, w, 8 * self._task.size
        return {
            "product": self._operator.bytes_read(self._task.read) + v + 8 * self._task.size,
            "dots": w + (of_dots * layer or of_all),
            "coefficients": 8 * of_dots * self._blocks_of_dots,
            "combination": 2 * w + (of_combination * layer or of_all),
            "store": w + last + total,
        }

    def _pass(self, mode: int) -> None:
        """Enqueue a pass of Gram-Schmidt."""
        self._dots(mode)
        self._sum_dots(mode)
        self._combine(mode, len(self.bits))

    def _dots(self, mode: int) -> None:
        for runs in self._together(len(self.bits)):
            self._of("dots", runs[0], mode, self._blocks_of_dots).on(runs, len(self.bits))

    def _sum_dots(self, mode: int) -> None:
        if ("parts", mode) not in self._launches:
            blocks = -(-32 * (self._rows + 1) // THREADS)
            self._launches["parts", mode] = _Launch(ARNOLDI_PARTS, blocks, self._with(mode=mode))
        self._launches["parts", mode].on(self._together(len(self.bits))[0], len(self.bits))

    def _together(self, count: int) -> list[list[Run]]:
        """Return the runs of the first ``count`` vectors by launches: one run each, or all layers in one launch."""
        runs = [run for run in self._basis.runs if run.first < count]
        return [[run] for run in runs] if self._layer is None else [runs]

    def _combine(self, mode: int, count: int, *, rotates: bool = True) -> None:
        together = self._together(count)
        for runs in together:
            last = int(rotates and mode != _ANY and runs is together[-1])
            self._of("combine", runs[0], mode, self._blocks, last).on(runs, count)

    def _store(self, mode: int) -> None:
        self._next(mode)()

    def _next(self, mode: int) -> Callable[[], None]:
        """Allocate the next vector, and return the launch that stores it."""
        rho = self._residual / self._size
        if self._layer is None:
            chosen = self._cycle.stored_as(rho)
        else:
            digits = math.ceil(digits_needed(rho, self._cycle.floor))
            layers = min(MOST_LAYERS, max(1, -(-(digits + 1) // self._layer.width)))
            chosen = StoredAs(self._layer, None, layers * self._layer.width)
        places = self._basis.add(chosen)
        key = "store", chosen.storage, chosen.segments, mode
        if key not in self._launches:
            packed = self._with(mode=mode, sum=0 if self._layer is None else current().address(self._sum))
            variant = arnoldi_pass("store", chosen.storage, chosen.segments or 1)
            self._launches[key] = _Launch(variant, self._blocks, packed)
        return partial(self._launches[key].into, places)

    def _of(self, name: str, run: Run, mode: int, blocks: int, last: int = 0) -> _Launch:
        key = name, run.storage, run.segments, mode, last
        if key not in self._launches:
            variant = arnoldi_pass(name, run.storage, run.segments or 1)
            self._launches[key] = _Launch(variant, blocks, self._with(mode=mode, last=last))
        return self._launches[key]

    def _with(self, **fields: int) -> Any:
        packed = self._packed.copy()
        for name, value in fields.items():
            packed[name] = value
        return packed

    def _repeat(self) -> None:
        """Drop all steps from the first that needs a second pass on; they are done again, with both passes in each."""
        self._waiting.clear()
        self._careful = True
        self._basis.cut(self._done + 1)
        current().clear(self._numbers[:1])
