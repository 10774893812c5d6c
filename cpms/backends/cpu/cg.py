"""Conjugate gradient iterations in main memory: a product and three compiled passes over vectors each.

The verbs of `LinearOperator` would read each vector once a verb; fused passes read it once for all that is done with
it. Parts of vectors do not depend on the number of threads, so that results do not either.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from cpms.backends.cpu import cg_loops
from cpms.base import threads
from cpms.contracts.conjugate_gradients import CgIterations, CgStep
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveTask, bits_of, in_format
from cpms.formats.formats import FP32

_RANGE, _MOST_RANGES = 1 << 15, 64


class CpuCg(CgIterations):
    """The vectors of an unpreconditioned solve, r and p of float64 or float32."""

    together = 1

    def __init__(self, operator: LinearOperator, task: SolveTask, x: Any) -> None:
        self._operator, self._task, self._x = operator, task, x
        self._storage = task.formats[0]
        self._parts = threads.ranges(task.size, at_least=_RANGE, parts=_MOST_RANGES)
        self._q = np.empty(task.size, np.float64 if self._storage is None else np.float32)
        self._r = self._p = np.zeros(0)
        self._product = 0.0
        self.bits = bits_of(self._storage)
        self.bytes_read = operator.bytes_read(task.read) + (11 * self.bits // 8 + 16) * task.size

    @staticmethod
    def fits(task: SolveTask) -> bool:
        """Return whether a task has vectors of float64 or float32, and no preconditioner."""
        return task.preconditioner is None and task.formats[0] in (None, FP32)

    def replace_residual(self) -> float:
        """Find r in float64, then store it; the direction is kept."""
        r, size = self._task.residual(self._x)
        if math.isfinite(size) and size > 0.0:
            self._r = in_format(self._operator, r, self._storage)
            if not len(self._p):
                self._p = self._r.copy()
            self._product = self._sum(cg_loops.curvature, self._p, self._r)
        return size

    def run(self, count: int) -> list[CgStep]:
        """Iterate."""
        found: list[CgStep] = []
        for _ in range(count):
            self._operator.apply(self._p, self._q, read_matrix=self._task.read)
            curvature = self._sum(cg_loops.curvature, self._p, self._q)
            if not 0.0 < curvature < math.inf:
                return [*found, CgStep(0.0, curvature, 0.0)]
            given = self._x, self._r, self._p, self._q, self._product / curvature
            sums = threads.each(partial(_update, given), self._parts)
            square, of_residual = (float(sum(each)) for each in zip(*sums, strict=True))
            self._product = self._sum(cg_loops.direction, self._r, self._p, -of_residual / curvature)
            found.append(CgStep(square, curvature, self._product))
        return found

    def _sum(self, loop: Any, *given: Any) -> float:
        return float(sum(threads.each(lambda part: loop(*given, *part), self._parts)))


def _update(given: tuple[Any, ...], part: tuple[int, int]) -> tuple[float, float]:
    found: tuple[float, float] = cg_loops.update(*given, *part)
    return found
