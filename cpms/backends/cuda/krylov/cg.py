"""Conjugate gradient iterations in device memory: a product and two or three passes over vectors each, as CUDA graphs.

A diagonal preconditioner is part of these passes. Any other is applied between them, and takes one pass more; its
iterations are not captured in graphs, since it may allocate memory.

Scalars stay on the device, and x takes the steps of up to eight iterations, a part of a run, in one pass over a ring of
directions. The scalars of a part reach main memory in one asynchronous transfer, and the host waits for those of all
parts of a run, of which there are more the fewer bytes an iteration moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.krylov import Preconditioning, cg_pass, cg_passes
from cpms.backends.cuda.kernels.structs import CG, CG_RING
from cpms.backends.cuda.krylov.padded_vector import PaddedVector, padded_length
from cpms.backends.cuda.krylov.pattern_matrix import PatternMatrix
from cpms.backends.cuda.runtime.backend import ASYNC_COPIES
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import filled
from cpms.base.types import Floats
from cpms.contracts.conjugate_gradients import CgIterations, CgStep
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveTask, bits_of

RING = CG_RING
"""Most iterations of a part of a run."""
_RUN_BYTES = 1 << 32
"""Bytes that a run moves, if it has several parts, at most: the device takes longer for these than a host waits."""
_ENTRY = 4
"""Numbers of an iteration: curvature, square of the residual, z.q, product."""


class CudaCg(CgIterations):
    """The vectors of a solve on the device.

    Parameters
    ----------
    operator : LinearOperator
        Of products in the task's storage.
    task : SolveTask
        Of one format that `cpms.backends.cuda.kernels.krylov.fits` has.
    x : device vector of float64
    patterns : PatternMatrix, optional
        The matrix, which products then read in place of the operator.
    """

    def __init__(
        self, operator: LinearOperator, task: SolveTask, x: Any, patterns: PatternMatrix | None = None
    ) -> None:
        backend, storage = current(), task.formats[0]
        self._operator, self._task, self._x, self._storage = operator, task, x, storage
        self._length = task.size
        padded = padded_length(self._length)
        real = np.float64 if storage is None else np.float32
        with backend.memory_for("vectors of conjugate gradients", (RING + 2) * padded * bits_of(storage) // 8):
            self._r = PaddedVector(storage, self._length)
            self._ring = [PaddedVector(storage, self._length) for _ in range(RING)]
            self._q = backend.arrays.zeros(padded, real)
        self._preconditioning: Preconditioning = "none"
        self._z: Any = None
        if task.preconditioner is not None and task.preconditioner.weights is not None:
            self._preconditioning, self._z = "diagonal", backend.arrays.zeros(padded, real)
            with np.errstate(over="ignore"):  # An infinite number ends in a wider format.
                self._z[: self._length] = task.preconditioner.weights
        elif task.preconditioner is not None:
            self._preconditioning = "applied"
        self._log = backend.arrays.zeros((RING + 1) * _ENTRY, np.float64)
        self._scale = backend.arrays.ones(1, np.float64)
        self._scale_value = 1.0
        self._blocks = backend.grid_size(padded, each=8)
        self._partials = backend.arrays.zeros(2 * self._blocks, np.float64)
        self._counter = backend.arrays.zeros(1, np.uint32)
        self._padded = padded
        self._graphs: dict[int, Any] = {}
        self._has_direction = False
        self.bits = bits_of(storage)
        self._patterns = {} if patterns is None else patterns.arguments(real)
        self.stage_bytes = self._stage_bytes(np.dtype(real).itemsize, patterns)
        self.bytes_read = sum(self.stage_bytes.values()) - self.stage_bytes["solution"] * (RING - 1) // RING
        # A preconditioner may copy to main memory, too, and only so many copies are valid.
        parts = 1 if self._preconditioning == "applied" else _RUN_BYTES // (RING * self.bytes_read)
        self.together = RING * min(max(parts, 1), ASYNC_COPIES)
        backend.compile(cg_passes(storage, self._preconditioning))

    def _stage_bytes(self, real: int, patterns: PatternMatrix | None) -> dict[str, int]:
        """Return the bytes that each pass reads and writes; ``real`` is the bytes of a value of q.

        The pass ``solution`` takes the directions of `RING` iterations. Patterns save the pass ``curvature``.
        """
        p, q, double = (size * self._length for size in (self.bits // 8, real, 8))
        matrix = self._operator.bytes_read(self._task.read) if patterns is None else patterns.nbytes
        diagonal = q if self._preconditioning == "diagonal" else 0
        found = {"product": matrix + p + q, "curvature": p + q, "update": 2 * p + q + diagonal}
        if patterns is not None:
            del found["curvature"]
        if self._preconditioning == "applied" and self._task.preconditioner is not None:
            found |= {"preconditioner": self._task.preconditioner.nbytes + 2 * p, "applied": q + double}
        z = double if self._preconditioning == "applied" else diagonal
        return found | {"direction": 3 * p + z, "solution": RING * p + 2 * double}

    def replace_residual(self) -> float:
        """Find r in float64 and store it; the direction is kept."""
        r, size = self._task.residual(self._x)
        if math.isfinite(size) and size > 0.0:
            typical = size / math.sqrt(self._length)
            self._scale_value = 1.0 if self._storage is None else math.ldexp(1.0, -math.frexp(typical)[1])
            self._scale.fill(self._scale_value)
            z = self._applied(r)
            self._launch("load", 0, x=r, z=z, product=self._at(0, 3), count=int(self._has_direction))
            self._has_direction = True
            if self._task.preconditioner is not None:
                self.product = float(current().fetch(self._log)[3]) / self._scale_value**2
        return size

    def run(self, count: int, target: float = 0.0) -> list[CgStep]:  # noqa: ARG002
        """Launch all parts of a run, and wait for their scalars; ``count`` is at most `together`."""
        parts = [min(RING, count - begun) for begun in range(0, count, RING)]
        fetched = [self._launch_part(each) for each in parts]
        found: list[CgStep] = []
        for part, log in zip(parts, fetched, strict=True):
            entries = log().reshape(RING + 1, _ENTRY) / self._scale_value**2
            products = [*entries[1:part, 3], entries[0, 3]]
            found += [
                CgStep(float(square), float(curvature), float(product))
                for (curvature, square), product in zip(entries[1 : part + 1, :2], products, strict=True)
            ]
        return found

    def _launch_part(self, count: int) -> Callable[[], Floats]:
        """Iterate, and queue the copy of the log; return a function that waits for it.

        A second part of as many iterations is captured in a CUDA graph, and those after replay it.
        """
        if count not in self._graphs:
            self._graphs[count] = None
            self._iterate(count)
        else:
            if self._graphs[count] is None and self._preconditioning != "applied":
                self._graphs[count] = current().capture(lambda: self._iterate(count)) or False
            if self._graphs[count]:
                self._graphs[count].launch()
            else:
                self._iterate(count)
        return current().fetch_async(self._log)

    def _iterate(self, count: int) -> None:
        for j in range(count):
            self._multiply(j)
            if not self._patterns:
                self._launch("curvature", j)
            self._launch("update", j, z=self._z)
            z = self._applied(self._r.operand)
            if self._preconditioning == "applied":
                self._launch("applied", j, z=z)
            last = j == count - 1
            if last:
                self._launch("solution", 0, x=self._x, count=count)
            self._direct(j, 0 if last else j + 1, z)

    def stages(self) -> dict[str, Callable[[], None]]:
        """Return a launch of each pass of an iteration alone, in their order; ``stage_bytes`` has their bytes.

        Passes read what `RING` iterations have left in memory. A preconditioner that is not diagonal has none.
        """
        z = self._applied(self._r.operand)
        found: dict[str, Callable[[], None]] = {
            "product": partial(self._multiply, 1),
            "curvature": partial(self._launch, "curvature", 1),
            "update": partial(self._launch, "update", 1, z=self._z),
            "applied": partial(self._launch, "applied", 1, z=z),
            "direction": partial(self._direct, 1, 2, z),
            "solution": partial(self._launch, "solution", 0, x=self._x, count=RING),
        }
        return {name: launch for name, launch in found.items() if name in self.stage_bytes}

    def _multiply(self, j: int) -> None:
        """Find q = A p, and with patterns p.q."""
        if self._patterns:
            self._launch("patterns", j, **self._patterns)
        else:
            self._operator.apply(self._ring[j].operand, self._q[: self._length], read_matrix=self._task.read)

    def _direct(self, j: int, following: int, z: Any) -> None:
        """Find the direction of the ring's place ``following`` from that of place ``j``."""
        self._launch("direction", j, z=z, next=self._ring[following].memory, product=self._at(following, 3))

    def _applied(self, r: Any) -> Any:
        """Return what passes have z = M r from: M's diagonal, or the vector; None without a preconditioner."""
        if self._preconditioning == "applied" and self._task.preconditioner is not None:
            return self._task.preconditioner.apply(self._operator.convert(r, None))
        return self._z

    def _launch(self, name: str, j: int, **more: Any) -> None:
        backend = current()
        arrays = {"r": self._r.memory, "p": self._ring[j].memory, "q": self._q, "partials": self._partials}
        arrays |= {"counter": self._counter, "scale": self._scale, "before": self._at(j, 0), "now": self._at(j + 1, 0)}
        packed = filled(CG, **arrays, **more, length=self._length, padded=self._padded)
        packed["ring"] = [backend.address(each.memory) for each in self._ring]
        backend.run(cg_pass(name, self._storage, self._preconditioning), self._blocks, (packed[()],))

    def _at(self, entry: int, field: int) -> int:
        return int(current().address(self._log)) + 8 * (_ENTRY * entry + field)
