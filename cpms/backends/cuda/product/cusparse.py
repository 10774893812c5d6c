"""Products by cuSPARSE through CuPy, in float64 or float32: the baseline of measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.backends.cuda.product.device_vectors import CudaVectors, overwrite, plain
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.vendor_libraries import DenseVector, SparseProduct
from cpms.base.errors import UnsupportedError
from cpms.contracts.linear_operator import NO_EPILOGUE, Bound, Terms, product_bound, value_error
from cpms.contracts.product_request import ProductRequest
from cpms.formats.codes import ValueFormat
from cpms.formats.formats import FloatFormat, SegmentFormat, element_type
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import require_fitting
from cpms.storage.block_float import STORED

if TYPE_CHECKING:
    import scipy.sparse

_LAYOUTS = ("csr", "coo")
_TYPES: dict[str, Any] = {"fp64": np.dtype(np.float64), "fp32": np.dtype(np.float32)}


def in_32_bits(matrix: Matrix) -> scipy.sparse.csr_array:
    """Return a matrix with the 32-bit indices that cuSPARSE is called with; CuPy keeps those of 64 bits.

    Raises
    ------
    UnsupportedError
        If they do not suffice.

    Examples
    --------
    >>> in_32_bits(Matrix.from_dense([[1.0, 2.0]])).indices.dtype
    dtype('int32')
    """
    most = max(matrix.entries, *matrix.shape)
    if most > np.iinfo(np.int32).max:
        raise UnsupportedError(f"engine cusparse is called with indices of 32 bits, which {most:,} exceeds; use cuda")
    held = matrix.to_scipy()
    arrays = held.data, held.indices.astype(np.int32), held.indptr.astype(np.int32)
    return type(held)(arrays, shape=matrix.shape)


@dataclass(frozen=True, eq=False)
class CusparseProduct(CudaVectors):
    """A sparse matrix of CuPy; cuSPARSE has one type for values, vectors and sums.

    Its algorithms may add up in another order from call to call, so results need not repeat bit for bit.
    """

    request: ProductRequest
    source: Matrix
    held: Any
    storage: ValueFormat
    flipped: bool = False
    """Whether products are with the transposed matrix."""

    @classmethod
    def of(cls, matrix: Matrix, request: ProductRequest) -> CusparseProduct:
        """Copy the matrix to the device."""
        storage, layout, compute = request.storage, request.layout, request.compute
        assert storage is not None  # noqa: S101  # `refusal` says so before.
        require_fitting(matrix.given_values(), storage)
        sparse = import_module("cupyx.scipy.sparse")
        scipys = in_32_bits(matrix).astype(_TYPES[compute])
        with current().memory_for(f"the matrix of shape {matrix.shape}", 16 * matrix.entries):
            held = sparse.csr_matrix(scipys) if layout == "csr" else sparse.coo_matrix(scipys.tocoo())
            held.sum_duplicates()  # CuPy's products with CSR want one entry a place.
        return cls(request, matrix, held, storage)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        return self.source.shape[::-1] if self.flipped else self.source.shape

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of indices and values."""
        return self.bytes_read()

    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes of indices and values, which are always read whole."""
        del read
        indices = ("indptr", "indices") if self.request.layout == "csr" else ("row", "col")
        return sum(int(getattr(self.held, name).nbytes) for name in (*indices, "data"))

    @staticmethod
    def refusal(request: ProductRequest) -> str | None:
        """Return why cuSPARSE does not have such products, as a sentence; None if it has."""
        storage, layout, compute, indices = request.storage, request.layout, request.compute, request.indices
        if layout not in _LAYOUTS:
            return f"engine cusparse has no layout {request.layout_name!r}; it has {', '.join(_LAYOUTS)}"
        kind = element_type(storage) if isinstance(storage, SegmentFormat | FloatFormat) else None
        if kind is None or kind != _TYPES[compute]:  # NumPy's type of float64 equals None.
            name = "a pattern" if storage is None else storage.name
            return f"engine cusparse has fp64 computed in fp64 and fp32 in fp32, not {name} in {compute}; use cuda"
        if indices not in ("auto", "32"):
            return f"engine cusparse is called with indices of 32 bits, not {indices!r}; use cuda"
        return request.refusal()

    @cached_property
    def fastest(self) -> SparseProduct:
        """The product by the algorithm that took the least time on this matrix."""
        held = self.held
        rows, columns = (held.indptr, held.indices) if self.request.layout == "csr" else (held.row, held.col)
        return SparseProduct(self.request.layout_name, self.shape[0], rows, columns, held.data, 1.0, self.shape[1])

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that plain products use, the fastest of all on this matrix."""
        plan = self.fastest.plan
        return "none" if plan is None else plan.name

    def _takes(self, x: Any) -> bool:
        """Return whether cuSPARSE reads or writes a vector as it is."""
        if isinstance(x, STORED) or x.ndim != 1:
            return False
        return bool(x.dtype == _TYPES[self.request.compute] and x.flags.c_contiguous)

    @property
    def transposed(self) -> CusparseProduct:
        """Products of the same arrays, which cuSPARSE takes as those of the transposed matrix."""
        return replace(self, flipped=not self.flipped)

    def bound(self, read_matrix: int | None) -> Bound:
        """Return the bound of the longest row."""
        longest = (self.source.transposed() if self.flipped else self.source).longest
        return product_bound(value_error(self.storage, read_matrix), self.request.compute, longest)

    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Multiply; vectors of another type than the matrix are converted before and after.

        The plain product is the fastest of cuSPARSE's algorithms; all else is by CuPy's choice, and the parts of an
        epilogue follow in operations of their own.
        """
        alpha, beta, read_matrix, read_x, write, extra = terms
        self.storage.checked_read(read_matrix)
        plain_product = (alpha, beta, self.flipped) == (1.0, 0.0, False) and extra is NO_EPILOGUE
        if plain_product and self._takes(x) and self._takes(out):
            self.fastest.multiply(DenseVector(x, self.shape[1]), DenseVector(out, self.shape[0]))
            return None
        arrays, calls, dtype = current().arrays, import_module("cupyx.cusparse"), _TYPES[self.request.compute]
        given = plain(x, read_x).astype(dtype, copy=False)
        target = plain(out).astype(dtype) if beta else arrays.zeros((self.shape[0], *given.shape[1:]), dtype)
        if given.ndim == 2:
            c = arrays.asfortranarray(target)
            calls.spmm(self.held, arrays.asfortranarray(given), c, alpha, beta, transa=self.flipped)
            out[...] = c
            return None
        if self.source.entries:
            calls.spmv(self.held, arrays.ascontiguousarray(given), target, alpha, beta, self.flipped)
        else:
            target *= beta
        if extra.add is not None:
            target = target + extra.factor * extra.add
        if isinstance(out, STORED):
            overwrite(out, target, write)
        else:
            out[...] = target
        return None if extra.dot is None else float(self.dots([out], extra.dot, [write])[0])
