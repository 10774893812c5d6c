"""cuSPARSE's sparse product and cuBLAS's vector operations on CuPy arrays, asynchronous: the vendor's baseline.

Factors and results stay in device memory, so that a CUDA graph can capture a sweep. Each matrix is multiplied by each
of cuSPARSE's algorithms a few times at first, and the fastest is used.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from cpms.backends.cuda.runtime.library_calls import Library
from cpms.base.errors import UnavailableError

ALGORITHMS = {"csr": {"csr_alg1": 2, "csr_alg2": 3}, "coo": {"coo_alg1": 1, "coo_alg2": 4}}
"""``CUSPARSE_SPMV_CSR_ALG1`` and so on of ``cusparse.h``, which CuPy does not name, by layout."""
_ROWS = 1024
_TRIALS = 5
_PRODUCTS = 10
_MULTIPLY, _ANALYSE = "cusparseSpMV", "cusparseSpMV_preprocess"
_POINTERS_ON_DEVICE = 1
"""``CUBLAS_POINTER_MODE_DEVICE``."""


def padded(values: int) -> int:
    """Return ``values`` rounded up to whole columns of the matrix as which `Blas.subtract` reads vectors.

    Examples
    --------
    >>> padded(1), padded(1025)
    (1024, 2048)
    """
    return -(-values // _ROWS) * _ROWS


class Blas:
    """cuBLAS of one element type; results and factors stay on the device, so that calls can be captured.

    Parameters
    ----------
    dtype : float64 or float32
    """

    def __init__(self, dtype: Any) -> None:
        import cupy

        self._letter = "D" if dtype == np.float64 else "S"
        self._dtype = np.dtype(dtype)
        self._arrays = cupy
        self._signs = cupy.asarray(np.array([1.0, -1.0], self._dtype))
        self._library = _cublas()

    def add(self, factor: Any, x: Any, y: Any) -> None:
        """Compute y += factor[0] * x."""
        self._call("axpy_v2", y.size, factor.data.ptr, x.data.ptr, 1, y.data.ptr, 1)

    def scale(self, factor: float, x: Any) -> None:
        """Compute x *= factor."""
        given = self._arrays.full(1, factor, self._dtype)
        self._call("scal_v2", x.size, given.data.ptr, x.data.ptr, 1)

    def scale_by(self, factor: Any, x: Any) -> None:
        """Compute x *= factor[0]."""
        self._call("scal_v2", x.size, factor.data.ptr, x.data.ptr, 1)

    def subtract(self, x: Any, y: Any, out: Any) -> None:
        """Compute out = x - y, of lengths that `padded` returns."""
        one, minus = self._signs.data.ptr, self._signs.data.ptr + self._dtype.itemsize
        shape = (_ROWS, x.size // _ROWS)
        self._call("geam", 0, 0, *shape, one, x.data.ptr, _ROWS, minus, y.data.ptr, _ROWS, out.data.ptr, _ROWS)

    def abs_sum(self, x: Any, result: Any) -> None:
        """Compute result[0] = sum of absolute values."""
        self._call("asum_v2", x.size, x.data.ptr, 1, result.data.ptr)

    def norm(self, x: Any, result: Any) -> None:
        """Compute result[0] = Euclidean norm."""
        self._call("nrm2_v2", x.size, x.data.ptr, 1, result.data.ptr)

    def dot(self, x: Any, y: Any, result: Any) -> None:
        """Compute result[0] = x . y."""
        self._call("dot_v2", x.size, x.data.ptr, 1, y.data.ptr, 1, result.data.ptr)

    def largest(self, x: Any, result: Any) -> None:
        """Compute result[0] = index, from 1, of the largest absolute value; ``result`` holds an int32."""
        self._library.call(f"cublasI{self._letter.lower()}amax_v2", x.size, x.data.ptr, 1, result.data.ptr)

    def _call(self, name: str, *arguments: int) -> None:
        self._library.call(f"cublas{self._letter}{name}", *arguments)


class DenseVector:
    """A device array with a cuSPARSE descriptor of its first ``length`` values."""

    def __init__(self, values: Any, length: int) -> None:
        sparse = _cusparse()
        self.values = values
        self.descriptor = sparse.createDnVec(length, values.data.ptr, _data_type(values.dtype))
        weakref.finalize(self, sparse.destroyDnVec, self.descriptor)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Descriptor, algorithm and buffer of a product."""

    name: str
    matrix: Any
    algorithm: int
    buffer: Any


class SparseProduct:
    """y = factor * P x by cuSPARSE, by the fastest of its algorithms for this matrix in this layout.

    Parameters
    ----------
    layout : {"csr", "coo"}
    nodes : int
    rows, sources : device arrays of int32
        In ``csr``, ``rows`` holds row pointers; in ``coo``, the row of each entry.
    values : device array of float64 or float32
    factor : float
    columns : int, optional
        Of a matrix that is not square; ``nodes`` is then the number of its rows.
    """

    def __init__(
        self, layout: str, nodes: int, rows: Any, sources: Any, values: Any, factor: float, columns: int | None = None
    ) -> None:
        import cupy

        if {rows.dtype.itemsize, sources.dtype.itemsize} != {4}:
            raise ValueError(f"rows and sources are {rows.dtype} and {sources.dtype}; cuSPARSE is given them as int32")
        self.layout, self.rows, self.sources, self.values = layout, rows, sources, values
        self._alpha = np.array(factor, values.dtype)
        self._beta = np.zeros(1, values.dtype)
        self._type = _data_type(values.dtype)
        self._sparse, self._calls = _cusparse(), _cusparse_calls()
        self._nodes, self._columns = nodes, nodes if columns is None else columns
        self.plan: _Plan | None = None
        self.trial_ms: dict[str, float] = {}
        if values.size:
            self._choose(cupy)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix and of the workspace of cuSPARSE."""
        buffer_bytes = 0 if self.plan is None else int(self.plan.buffer.nbytes)
        return int(self.rows.nbytes + self.sources.nbytes + self.values.nbytes) + buffer_bytes

    def multiply(self, x: DenseVector, y: DenseVector) -> None:
        """Queue one product."""
        if self.plan is None:
            y.values.fill(0)
        else:
            self._run(self.plan, x, y)

    def _run(self, plan: _Plan, x: DenseVector, y: DenseVector) -> None:
        self._calls.call(_MULTIPLY, *self._arguments(plan.matrix, plan.algorithm, x, y), plan.buffer.data.ptr)

    def _arguments(self, matrix: Any, algorithm: int, x: DenseVector, y: DenseVector) -> tuple[int, ...]:
        operation = self._sparse.CUSPARSE_OPERATION_NON_TRANSPOSE
        alpha, beta = self._alpha.ctypes.data, self._beta.ctypes.data
        return (operation, alpha, matrix, x.descriptor, beta, y.descriptor, self._type, algorithm)

    def _choose(self, cupy: Any) -> None:
        """Time each algorithm, with and without cuSPARSE's analysis of the matrix before it.

        An algorithm whose product is not that of the first one to within sqrt(u) of the largest element is left out:
        on matrices with very long rows, one of cuSPARSE 12.6 returned other vectors.
        """
        x, y = (DenseVector(cupy.ones(n, self.values.dtype), n) for n in (self._columns, self._nodes))
        best_ms, expected = np.inf, None
        for name, algorithm in ALGORITHMS[self.layout].items():
            for analysed in (False, True):
                plan = self._new_plan(name, algorithm, analysed, x, y, cupy)
                if plan is None:
                    continue
                elapsed_ms = self._timed_ms(plan, x, y, cupy)
                expected = y.values.copy() if expected is None else expected
                allowed = np.finfo(self.values.dtype).eps ** 0.5 * float(cupy.abs(expected).max())
                if not float(cupy.abs(y.values - expected).max()) <= allowed:
                    continue
                self.trial_ms[plan.name] = elapsed_ms
                if elapsed_ms < best_ms:
                    self.plan, best_ms = plan, elapsed_ms

    def _new_plan(
        self, name: str, algorithm: int, analysed: bool, x: DenseVector, y: DenseVector, cupy: Any
    ) -> _Plan | None:
        if analysed and not self._calls.has(_ANALYSE):
            return None
        sparse, index = self._sparse, self._sparse.CUSPARSE_INDEX_32I
        create, types = (sparse.createCoo, (index,)) if self.layout == "coo" else (sparse.createCsr, (index, index))
        matrix = create(
            *(self._nodes, self._columns, self.values.size),
            *(self.rows.data.ptr, self.sources.data.ptr, self.values.data.ptr),
            *(*types, sparse.CUSPARSE_INDEX_BASE_ZERO, self._type),
        )
        weakref.finalize(self, sparse.destroySpMat, matrix)
        arguments = self._arguments(matrix, algorithm, x, y)
        needed_bytes = sparse.spMV_bufferSize(cupy.cuda.device.get_cusparse_handle(), *arguments)
        buffer = cupy.empty(max(1, needed_bytes), np.int8)
        if analysed:
            self._calls.call(_ANALYSE, *arguments, buffer.data.ptr)
        return _Plan(name + ("_analysed" if analysed else ""), matrix, algorithm, buffer)

    def _timed_ms(self, plan: _Plan, x: DenseVector, y: DenseVector, cupy: Any) -> float:
        """Return the median of a few trials, each of many products, whose launches overlap but the first."""
        self._run(plan, x, y)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        elapsed_ms = []
        for _ in range(_TRIALS):
            begin.record()
            for _ in range(_PRODUCTS):
                self._run(plan, x, y)
            end.record()
            end.synchronize()
            elapsed_ms.append(float(cupy.cuda.get_elapsed_time(begin, end)) / _PRODUCTS)
        return sorted(elapsed_ms)[_TRIALS // 2]


@cache
def _cublas() -> Library:
    import cupy

    cupy.cuda.device.get_cublas_handle()  # It loads the library.
    signatures = {
        "axpy_v2": "ippipi",
        "scal_v2": "ippi",
        "geam": "iiiippippipi",
        "asum_v2": "ipip",
        "nrm2_v2": "ipip",
        "dot_v2": "ipipip",
    }
    parameters = {f"cublas{letter}{name}": types for letter in "DS" for name, types in signatures.items()}
    return Library(
        "libcublas",
        create="cublasCreate_v2",
        set_stream="cublasSetStream_v2",
        parameters=parameters | {"cublasIdamax_v2": "ipip", "cublasIsamax_v2": "ipip"},
        settings={"cublasSetPointerMode_v2": _POINTERS_ON_DEVICE},
    )


@cache
def _cusparse_calls() -> Library:
    import cupy

    cupy.cuda.device.get_cusparse_handle()  # It loads the library.
    return Library(
        "libcusparse",
        create="cusparseCreate",
        set_stream="cusparseSetStream",
        parameters=dict.fromkeys((_MULTIPLY, _ANALYSE), "ipppppiip"),
    )


def _cusparse() -> Any:
    try:
        return import_module("cupy_backends.cuda.libs.cusparse")
    except ImportError as error:
        raise UnavailableError(f"cuSPARSE cannot be loaded: {error}") from None


def _data_type(dtype: Any) -> int:
    runtime = import_module("cupy_backends.cuda.api.runtime")
    return int(runtime.CUDA_R_64F if dtype == np.float64 else runtime.CUDA_R_32F)
