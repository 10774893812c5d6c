"""Engines ``cpu_composed``, ``cuda_composed`` and ``cusparse_composed``: PageRank by operations of linear operators.

The sweep is that of `cpms.solvers.composed_power`, and the products are those of `cpms.matrix`. Engines with fused
sweeps of their own use the composed refinement and batches of this module for graphs with weights, and for dangling
mass that goes to a distribution of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from cpms.backends.products import operator_of
from cpms.base import host_memory, plugins
from cpms.contracts.engine import Engine
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.own_codecs import TakesCodecs
from cpms.contracts.product_request import ProductRequest
from cpms.formats.codes import CodeFormat, ValueFormat
from cpms.formats.formats import CPMS2, FP32, FP64, FloatFormat, Format
from cpms.problems.pagerank import Problem
from cpms.solvers.composed_batch import BYTES_A_NODE, ComposedBatch, ComposedLockstep
from cpms.solvers.composed_power import ComposedOperator
from cpms.solvers.composed_refine import ComposedRefinement, ComposedSweeps
from cpms.sparse.lossless import lossless_storage
from cpms.sparse.transition import edge_matrix, weights_and_divisor
from cpms.sparse.transition_values import edge_values

_WIDTH = 8
"""Vectors whose sums of a row fit in registers."""


class ComposedEngine(Engine):
    """Sweeps by the operations of a linear operator.

    Parameters
    ----------
    products : str
        The engine of products.
    layouts : tuple of str
    repeatable : bool
    """

    layouts: tuple[str, ...]  # type: ignore[misc]
    methods: tuple[str, ...] = ("power", "refine")
    works_with_weights: tuple[str, ...] = ("power", "refine", "batch")

    def __init__(self, products: str, layouts: tuple[str, ...], *, repeatable: bool) -> None:
        self.name, self.layouts, self.repeatable = f"{products}_composed", layouts, repeatable
        self._products = products
        self.stores = ("fp64", "fp32") if products == "cusparse" else ()
        if products == "cpu":  # Its products decode what is stored in fewer bits before they read it.
            self.default_residual_format = FP32

    @property
    def residual_codecs(self) -> TakesCodecs:  # type: ignore[override]
        """Products on the processor decode vectors of any format."""
        return "numba" if self._products == "cpu" else "none"

    def missing(self) -> str | None:
        """Return which requirement is missing: CuPy or a device, for products on one."""
        if self._products == "cpu":
            return None
        reason: str | None = import_module("cpms.backends.cuda.runtime.compile").missing()
        return reason

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not, also by stochastic rounding and the products; on processors, own layouts are supported."""
        own = self._products == "cpu" and isinstance(layout, str) and plugins.is_named("layouts", layout)
        reason = super().unsupported(problem, storage, self.layouts[0] if own else layout)
        if reason is None and isinstance(storage, FloatFormat) and storage.rounding == "stochastic":
            reason = f"engine {self.name} rounds every sweep alike, not as {storage.name} does; use cpu or cuda"
        return reason or self._operator.refusal(self._request(storage, layout))

    def sum_roundoff(self, storage: Format) -> float:
        """Return that of float32 where cuSPARSE adds in it."""
        return 2.0**-24 if self._request(storage, "csr").compute == "fp32" else 0.0

    def prepare(self, problem: Problem, storage: Format, layout: str) -> ComposedOperator:
        """Store the transition matrix."""
        self.require_supported(problem, storage, layout)
        matrix, of = edge_matrix(problem.graph, edge_values(problem.graph)), self._operator.of

        def prepared(format: Format) -> LinearOperator:
            made: LinearOperator = of(matrix, self._request(format, layout))
            return made

        return ComposedOperator.of(problem, storage, prepared)

    def refinement(self, problem: Problem) -> ComposedRefinement:
        """Store the weights."""
        return ComposedRefinement(_sweeps(problem, self._operator), problem)

    def batch(self, problem: Problem) -> ComposedBatch:
        """Store the weights."""
        return ComposedBatch(_sweeps(problem, self._operator), _width(problem, self._operator))

    def refinement_batch(self, problem: Problem) -> ComposedLockstep:
        """Store the weights."""
        return ComposedLockstep(_sweeps(problem, self._operator), _width(problem, self._operator))

    @property
    def _operator(self) -> Any:
        return operator_of(self._products)

    def _request(self, storage: ValueFormat, layout: str) -> ProductRequest:
        single = self._products == "cusparse" and storage == FP32
        return ProductRequest(storage, layout, compute="fp32" if single else "fp64")


ENGINES = CPU, CUDA, _ = (
    ComposedEngine("cpu", ("csr", "sell"), repeatable=True),
    ComposedEngine("cuda", ("csr", "sell"), repeatable=True),
    ComposedEngine("cusparse", ("csr", "coo"), repeatable=False),
)


def _sweeps(problem: Problem, product: Any) -> ComposedSweeps:
    """Store the weights in the fewest bits that hold them exactly, or in two segments, the first for inner sweeps."""
    matrix, divisor = weights_and_divisor(problem.graph)
    storage = None if matrix.values is None else lossless_storage(matrix.values)
    if storage == FP64:
        storage = CPMS2
    operator = product.of(matrix, ProductRequest(storage))
    exact = storage is None or isinstance(storage, CodeFormat | FloatFormat)
    return ComposedSweeps(operator, divisor, problem, None if exact else 1)


def _width(problem: Problem, product: Any) -> int:
    """Return how many queries to sweep together: their vectors take half of the memory at most."""
    on_device = product.memory == "device"
    free = import_module("cpms.backends.cuda.runtime.current").current() if on_device else host_memory
    fitting = free.free_bytes() // (2 * BYTES_A_NODE * problem.graph.nodes)
    return int(np.clip(fitting, 1, _WIDTH))
