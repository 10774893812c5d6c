"""Conjugate gradients of cuSPARSE and cuBLAS, as their users write them with care: the baseline of measurements.

The product is the fastest of cuSPARSE's algorithms for the matrix, analysed before; vector operations are cuBLAS's with
scalars in device memory. Four iterations are one CUDA graph, captured once a matrix and preconditioner, after which the
host fetches their residuals. An iteration reads or writes 14 vectors of float64 besides the matrix, and 5 more with a
diagonal preconditioner, which is one elementwise kernel and one more dot product.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from cpms.backends.cuda.product.cusparse import CusparseProduct
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vendor_libraries import Blas, DenseVector
from cpms.contracts.linear_solve import SolveStatus, SolveTask

GRAPH_ITERATIONS = 4
_RESTARTS = 5
"""Residuals found anew in float64, should the recurrence have drifted from the true one."""
_PREPARED: weakref.WeakKeyDictionary[CusparseProduct, _Workspace] = weakref.WeakKeyDictionary()
"""Of each matrix, the workspace of the last preconditioner."""


def cg(task: SolveTask, x: Any) -> SolveStatus:
    """Improve x until ||b - A x|| is at the goal.

    Parameters
    ----------
    task : SolveTask
        Of a `CusparseProduct` in float64, without a preconditioner or with a diagonal one.
    x : device vector of float64
    """
    operator = task.stored
    assert isinstance(operator, CusparseProduct)  # noqa: S101  # Its callers ask for engine cusparse.
    weights = None if task.preconditioner is None else task.preconditioner.weights
    held = _PREPARED.get(operator)
    if held is None or held.weights is not weights:
        held = _PREPARED[operator] = _Workspace(operator, weights)
    held.x[...] = x
    status = SolveStatus.STAGNATED
    for _ in range(_RESTARTS):
        size = held.restart(task.b)
        task.recorder.correct(size)
        if not math.isfinite(size):
            status = SolveStatus.OVERFLOW
        elif size <= task.goal:
            status = SolveStatus.CONVERGED
        elif task.recorder.left <= 0:
            status = SolveStatus.MAX_ITERATIONS
        else:
            _iterate(task, held)
            continue
        break
    x[...] = held.x
    return status


def _iterate(task: SolveTask, held: _Workspace) -> None:
    """Iterate until the recurrence's residual is at the goal, is no number, or no iteration is left."""
    while task.recorder.left > 0:
        for square in held.run():
            size = math.sqrt(square) if square >= 0.0 else math.inf
            if task.recorder.left > 0:
                task.recorder.add(size, 64, held.bytes_read)
            if not size > task.goal or not math.isfinite(size):
                return


class _Workspace:
    """Vectors and the graph of a matrix and a diagonal preconditioner; what solves share."""

    def __init__(self, operator: CusparseProduct, weights: Any | None) -> None:
        arrays, size = current().arrays, operator.shape[0]
        # Only what it needs, so that the operator can go.
        self._product, self._blas = operator.fastest, Blas(np.float64)
        self.x, self._r, self._p, self._q = (arrays.zeros(size) for _ in range(4))
        self._of_x, self._of_p, self._of_q = (DenseVector(v, size) for v in (self.x, self._p, self._q))
        self._squares = arrays.zeros(GRAPH_ITERATIONS + 1)
        """r.r before each iteration of a graph, and after the last."""
        self.weights = weights
        self._z = self._r if weights is None else arrays.zeros(size)
        self._products = self._squares if weights is None else arrays.zeros(GRAPH_ITERATIONS + 1)
        """r.z likewise, with z = r without a preconditioner."""
        self._numbers = arrays.zeros(4)
        self._curvature, self._alpha, self._minus, self._beta = (self._numbers[k : k + 1] for k in range(4))
        self._step = arrays.ElementwiseKernel(
            "float64 product, float64 curvature",
            "float64 alpha, float64 minus",
            "alpha = product / curvature; minus = -alpha",
            "vendor_cg_step",
        )
        self._turn = arrays.ElementwiseKernel(
            "float64 before, float64 after", "float64 beta", "beta = after / before", "vendor_cg_turn"
        )
        self._one = arrays.ones(1)
        self.bytes_read = operator.bytes_read() + (14 if weights is None else 19) * 8 * size
        self._graph: Any = None
        self._runs = 0

    def restart(self, b: Any) -> float:
        """Find r = b - A x, which becomes the direction, and return its norm."""
        self._product.multiply(self._of_x, self._of_q)
        current().arrays.subtract(b, self._q, out=self._r)
        self._apply(self._squares[-1:], self._products[-1:])
        self._p[...] = self._z
        return math.sqrt(max(float(current().fetch(self._squares)[-1]), 0.0))

    def _apply(self, square: Any, product: Any) -> None:
        """Find r.r, z = M r and r.z."""
        self._blas.dot(self._r, self._r, square)
        if self.weights is not None:
            current().arrays.multiply(self.weights, self._r, out=self._z)
            self._blas.dot(self._r, self._z, product)

    def run(self) -> list[float]:
        """Do `GRAPH_ITERATIONS` iterations and return r.r after each; a second call captures the graph."""
        self._runs += 1
        if self._runs == 2:
            self._graph = current().capture(self._launch)
        if self._graph is None:
            self._launch()
        else:
            self._graph.launch()
        return current().fetch(self._squares)[1:]

    def _launch(self) -> None:
        blas, squares, products = self._blas, self._squares, self._products
        products[:1] = products[-1:]
        for j in range(GRAPH_ITERATIONS):
            before, after = products[j : j + 1], products[j + 1 : j + 2]
            self._product.multiply(self._of_p, self._of_q)
            blas.dot(self._p, self._q, self._curvature)
            self._step(before, self._curvature, self._alpha, self._minus)
            blas.add(self._alpha, self._p, self.x)
            blas.add(self._minus, self._q, self._r)
            self._apply(squares[j + 1 : j + 2], after)
            self._turn(before, after, self._beta)
            blas.scale_by(self._beta, self._p)
            blas.add(self._one, self._z, self._p)
