"""`cpms.matrix`: a user's matrix in a storage format, and its products, of which each states the bits to read.

This module checks arguments, brings vectors into the memory of the matrix, and calls a
`cpms.contracts.linear_operator.LinearOperator`; the products themselves are those of the backends. The matrix as it was
given stays in main memory, which costs its size there, so that norms, transpose and other storages are exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from cpms.api import product_engines
from cpms.api.given_matrix import given_matrix, require_range, storage_of
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.keywords import checked_keywords
from cpms.base.text.suggestions import require_one_of
from cpms.base.validation import as_whole, described, require_real, whole
from cpms.contracts.linear_operator import Bound, LinearOperator
from cpms.contracts.product_request import Compute, ProductRequest, Scaling
from cpms.formats.codes import ValueFormat
from cpms.formats.formats import FloatFormat, SegmentFormat, format_of
from cpms.formats.magnitude import MagnitudeSplit
from cpms.sparse.arrangement import INDICES, Layout, layout_of
from cpms.sparse.matrix import Matrix
from cpms.storage.array import SegmentedArray, convert_inplace
from cpms.storage.block_float import STORED
from cpms.storage.device import copy_to_host, may_share_memory, on_device, to_device
from cpms.storage.interchange import received


@checked_keywords
def matrix(
    A: Any,
    *,
    storage: ValueFormat | MagnitudeSplit | str = "fp64",
    layout: str | Layout = "csr",
    engine: str = "auto",
    indices: str | int = "auto",
    compute: Compute = "fp64",
    scaling: Scaling = "none",
    shape: tuple[int, int] | None = None,
) -> StoredMatrix:
    """Store a matrix in a format and prepare it for products.

    Parameters
    ----------
    A : sparse matrix, array, Graph, path or tuple
        A SciPy or CuPy sparse matrix or array; a dense array of two dimensions, whose zeros are left out; a Matrix
        Market file (``.mtx``, ``.mtx.gz``: real, integer or pattern; general, symmetric or skew-symmetric) or one of
        `scipy.sparse.save_npz`; triplets ``(rows, columns, values)``; or a graph, for its transition matrix. Any signs,
        any shape, rows without entries. Entries of one place are added up. Complex, NaN and infinite entries are
        refused. Compressed rows of float64 are not copied: do not change them afterwards.
    storage : format or str
        Format of the values, or its name; ``lossless`` for the one of the fewest bits in which all of them are exact,
        ``codes8`` for codes of 8 bits into a table of at most 256 values, ``bfp16``, ``bfp21`` and ``bfp32`` for
        block floating point; a `cpms.MagnitudeSplit` or its name, such as ``split-1e-6``, for entries in several
        formats by their size. A pattern (a Matrix Market file without values) stores none.
    layout : {"csr", "coo", "ell", "sell"}, Layout or str
        See `cpms.sparse.arrangement`; a `cpms.Layout` of one's own, or the name of a plug-in.
    engine : str
        ``auto``, or one of `cpms.api.product_engines.names`.
    indices : {"auto", "32", "64", "compressed"} or int
        Bits of column numbers. ``compressed`` is one 32-bit base a slice and column with offsets of 8 or 16 bits, in
        ``sell`` on ``cuda``; ``auto`` takes it there where that saves a quarter of their bytes.
    compute : {"fp64", "fp32"}
        Precision of products and sums, whatever the storage.
    scaling : {"none", "rows"}
        ``rows`` stores each row of a packed float times a power of two of its own, so that rows of any size keep their
        digits; a product takes it back.
    shape : (int, int), optional
        Of triplets, where it is not that of their largest numbers.

    Returns
    -------
    StoredMatrix

    Raises
    ------
    InputError
        If the matrix is not one of these, or the format is too small for a value.
    UnsupportedError
        If the engine does not have this combination.

    Examples
    --------
    >>> import cpms, numpy as np, scipy.sparse
    >>> A = cpms.matrix(scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(4, 4)), storage="cpms4")
    >>> (A @ np.ones(4)).tolist(), A.matvec(np.ones(4), read=1).tolist()
    ([1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0])
    >>> A.bytes_read(), A.bytes_read(1)
    (140, 80)
    """
    given = given_matrix(A.source if isinstance(A, StoredMatrix) else A, shape)
    layout = layout_of(layout)
    indices = str(width) if (width := as_whole(indices)) in (32, 64) else indices
    require_one_of("indices", indices, (*INDICES, "compressed"))
    require_one_of("compute", compute, get_args(Compute))
    require_one_of("scaling", scaling, get_args(Scaling))
    name, indices = product_engines.chosen(engine), str(indices)
    chosen = storage_of(storage, given)
    if given.values is None:
        request = ProductRequest(None, layout, indices, compute, scaling)
    elif isinstance(chosen, MagnitudeSplit):
        request = ProductRequest(chosen.formats[-1], layout, indices, compute, scaling, chosen)
    else:
        request = ProductRequest(chosen, layout, indices, compute, scaling)
    require_range(given, request)
    return StoredMatrix(product_engines.prepare(name, given, request), given, engine=name)


class StoredMatrix(scipy.sparse.linalg.LinearOperator):
    """A matrix whose values are stored in a format; the argument ``read`` of a product says how many bits it reads.

    Make one with `cpms.matrix`. It is a SciPy ``LinearOperator``, and CuPy's ``aslinearoperator`` takes it. Vectors can
    be arrays of NumPy, CuPy or any library with DLPack. The result is an array of the same library, float32 for float32
    and float64 for all else; an array in another memory than the matrix is copied there and back. A vector can also
    be stored in a format (`cpms.encode`); its product is a plain array.

    The matrix as it was given is kept in main memory: norms, the diagonal and the transpose are made of it.

    Parameters
    ----------
    operator : LinearOperator
    source : Matrix
        The matrix as it was given.
    engine : str

    Examples
    --------
    >>> import cpms
    >>> A = cpms.matrix([[0.5, 0.0], [3.0, 0.25]], storage="cpms2")
    >>> (A @ [1.0, 2.0]).tolist(), A.rmatvec([1.0, 2.0]).tolist(), A.bytes_read(1) < A.bytes_read()
    ([0.5, 3.5], [6.5, 0.5], True)
    """

    def __init__(self, operator: LinearOperator, source: Matrix, *, engine: str) -> None:
        super().__init__(np.dtype(np.float64), source.shape)  # type: ignore[call-arg]
        self.operator, self.source, self.engine = operator, source, engine

    def __repr__(self) -> str:
        held = "a pattern" if self.storage is None else self.storage.name
        size = f"{self.shape[0]:,} x {self.shape[1]:,}, {self.nnz:,} entries"
        return f"StoredMatrix({size}: {held} in {self.layout} on {self.engine}, {self.nbytes:,} bytes)"

    @property
    def storage(self) -> ValueFormat | MagnitudeSplit | None:
        """Format of the values, or how they are split; None for a pattern."""
        return self.operator.request.split or self.operator.request.storage

    @property
    def layout(self) -> str:
        """How entries lie in memory."""
        return self.operator.request.layout_name

    @property
    def compute(self) -> Compute:
        """Precision of products and sums."""
        return self.operator.request.compute

    @property
    def nbytes(self) -> int:
        """Bytes of the stored matrix, indices included."""
        return self.operator.nbytes

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return self.source.entries

    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes that a product reads of the matrix: indices, and ``read`` segments of each value."""
        self._checked_level(read)
        return self.operator.bytes_read(read)

    def error_bound(self, read: int | None = None) -> Bound:
        """Return how far products may be from the exact ones, see `cpms.contracts.linear_operator.Bound`."""
        self._checked_level(read)
        return self.operator.error_bound(read_matrix=read)

    def matvec(self, x: Any, *, read: int | None = None, read_x: int | None = None, out: Any | None = None) -> Any:
        """Return A x.

        Parameters
        ----------
        x : array, shape (columns,) or (columns, 1), or SegmentedArray
        read : int, optional
            Segments of the matrix's values to read (all by default).
        read_x : int, optional
            Segments of ``x`` to read, where it is stored in a format.
        out : array, shape (rows,), optional
            NumPy or CuPy array of float64 or float32 to write into, not one that shares memory with ``x``.

        Raises
        ------
        InputError
            If a vector has another length or type, or the format does not have that many segments.

        Examples
        --------
        >>> import cpms
        >>> A = cpms.matrix([[0.5, 0.0, 0.1], [0.0, -2.0, 0.0]], storage="cpms4")
        >>> A.matvec([1.0, 1.0, 1.0], read=1).tolist()
        [0.59765625, -2.0]
        """
        return self._product(x, read, read_x, out, transpose=False)

    def rmatvec(self, x: Any, *, read: int | None = None, read_x: int | None = None, out: Any | None = None) -> Any:
        """Return the product of A's transpose with ``x``; as in `matvec`.

        The transposed matrix is stored when it is first asked for.
        """
        return self._product(x, read, read_x, out, transpose=True)

    def matmat(self, X: Any, *, read: int | None = None) -> Any:
        """Return A X for a block of vectors, shape (columns, k); the matrix is read once for all of them."""
        return self._block(X, read, transpose=False)

    def rmatmat(self, X: Any, *, read: int | None = None) -> Any:
        """Return the product of A's transpose with a block of vectors, shape (rows, k)."""
        return self._block(X, read, transpose=True)

    def dot(self, x: Any) -> Any:
        """Return A x for a vector or a block of vectors; operators and numbers as SciPy does."""
        is_number = np.isscalar(x) and not isinstance(x, str | bytes)
        if isinstance(x, scipy.sparse.linalg.LinearOperator) or is_number:
            composed: Any = super().dot(x)  # type: ignore[arg-type]
            return composed
        if scipy.sparse.issparse(x):
            raise InputError("a product with a sparse matrix is not one with vectors; give X.toarray()")
        is_array = hasattr(x, "ndim") or hasattr(x, "__dlpack__") or isinstance(x, STORED)
        held = x if is_array else np.asarray(x)
        return self.matmat(held) if getattr(held, "ndim", 1) == 2 and held.shape[1] != 1 else self.matvec(held)

    def diagonal(self) -> Any:
        """Return the main diagonal of the matrix as it was given, float64 in main memory."""
        return self.source.diagonal()

    def norm(self, kind: Literal["fro", "l1", "linf"] = "fro") -> float:
        """Return a norm of the matrix as it was given: Frobenius, largest column sum or largest row sum of sizes.

        Examples
        --------
        >>> import cpms
        >>> A = cpms.matrix([[3.0, 0.0], [-4.0, 2.0]])
        >>> A.norm("l1"), A.norm("linf")
        (7.0, 6.0)
        """
        require_one_of("norm", kind, ("fro", "l1", "linf"))
        if kind == "fro":
            return self.source.frobenius_norm
        return float(scipy.sparse.linalg.norm(self.source.to_scipy(), 1 if kind == "l1" else np.inf))

    def with_storage(
        self,
        storage: ValueFormat | MagnitudeSplit | str | None = None,
        *,
        layout: str | Layout | None = None,
        engine: str | None = None,
        indices: str | int | None = None,
        compute: Compute | None = None,
        scaling: Scaling | None = None,
    ) -> StoredMatrix:
        """Return the matrix as it was given in another format, layout or engine; what is left out stays.

        Examples
        --------
        >>> import cpms
        >>> A = cpms.matrix([[3.0, 0.0], [-4.0, 2.0]])
        >>> A.with_storage("fp16").storage.name
        'fp16'
        """
        asked = self.operator.request
        return matrix(
            self.source,
            storage=_first(storage, asked.split, asked.storage, "fp64"),
            layout=_first(layout, asked.layout),
            engine=_first(engine, self.engine),
            indices=_first(indices, asked.indices),
            compute=_first(compute, asked.compute),
            scaling=_first(scaling, asked.scaling),
        )

    def convert_inplace(self, storage: SegmentFormat | str) -> None:
        """Re-order the values' segments within their own memory.

        Raises
        ------
        InputError
            If either format is a packed float.

        Examples
        --------
        >>> import cpms
        >>> A = cpms.matrix([[3.0, 0.0], [-4.0, 2.0]])
        >>> A.convert_inplace("cpms2")
        >>> A.storage.name, A.matvec([1.0, 1.0], read=1).tolist()
        ('cpms2', [3.0, -2.0])
        """
        chosen = format_of(storage)
        held: Any = self.operator
        values = getattr(held, "values", None)
        if not isinstance(chosen, SegmentFormat):
            what = "is a packed float" if isinstance(chosen, FloatFormat) else "has a codec of its own"
            raise InputError(f"{chosen.name} {what}; only segments convert in place, use with_storage()")
        if not isinstance(values, SegmentedArray):
            raise UnsupportedError(f"engine {self.engine} keeps no values in segments here; use with_storage()")
        restored = values.restore_inplace()
        request = dataclasses.replace(held.request, storage=chosen)
        self.operator = dataclasses.replace(held, request=request, values=convert_inplace(restored, chosen))

    def _product(self, x: Any, read: int | None, read_x: int | None, out: Any | None, *, transpose: bool) -> Any:
        rows, columns = self.shape[::-1] if transpose else self.shape
        self._checked_level(read)
        given, back = received("x", x, self.operator.memory)
        stored = isinstance(given, STORED)
        if read_x is not None and not stored:
            raise InputError(f"read_x is {described(read_x)}, but x is a plain array; store it with cpms.encode first")
        shape = (len(given),) if stored else given.shape
        if shape not in ((columns,), (columns, 1)):
            raise InputError(f"x has shape {shape}; the product needs ({columns},)")
        flat = given if stored else given.reshape(columns)
        result, finish = self._target(out, flat, rows, back)
        self.operator.apply(flat, result, read_matrix=read, read_x=read_x, transpose=transpose)
        return finish(result if len(shape) == 1 or out is not None else result.reshape(rows, 1))

    def _block(self, X: Any, read: int | None, *, transpose: bool) -> Any:
        rows, columns = self.shape[::-1] if transpose else self.shape
        self._checked_level(read)
        given, back = received("X", X, self.operator.memory)
        if isinstance(given, STORED) or given.ndim != 2 or given.shape[0] != columns:
            shape = (len(given),) if isinstance(given, STORED) else given.shape
            raise InputError(f"X has shape {shape}; the product needs ({columns}, k), of plain arrays")
        result = self.operator.empty((rows, given.shape[1]), given.dtype)
        self.operator.apply(given, result, read_matrix=read, transpose=transpose)
        return back(result)

    def _target(
        self, out: Any | None, x: Any, rows: int, back: Callable[[Any], Any]
    ) -> tuple[Any, Callable[[Any], Any]]:
        """Return the array that a product is written into, and the function that makes the result of it."""
        dtype = np.dtype(np.float64) if isinstance(x, STORED) else x.dtype
        if out is None:
            return self.operator.empty((rows,), dtype), back
        require_real("out", out)
        contiguous = getattr(getattr(out, "flags", None), "c_contiguous", None)
        if contiguous is None or out.shape != (rows,) or out.dtype not in (np.float64, np.float32):
            raise InputError(f"out must be an array of NumPy or CuPy, of float64 or float32 and shape ({rows},)")
        if may_share_memory(x.memory if isinstance(x, STORED) else x, out):
            raise InputError("out shares memory with x, which is read while out is written; give another array")
        if not contiguous:
            raise InputError("out must be contiguous; copy the product into it")
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise InputError("out is read-only; give an array that can be written")
        if on_device(out) == (self.operator.memory == "device"):
            return out, _same

        def put(found: Any) -> Any:
            out[...] = to_device(found) if on_device(out) else copy_to_host(found)
            return out

        return self.operator.empty((rows,), out.dtype), put

    def _checked_level(self, read: int | None) -> None:
        if self.storage is not None:
            self.storage.checked_read(read)
        elif read is not None and whole("read", read) != 1:
            raise InputError(f"the matrix is a pattern without values; {whole('read', read)} segments cannot be read")

    def __matmul__(self, x: Any) -> Any:  # SciPy's asks x for what arrays of DLPack lack.
        """Return A x, as `dot`."""
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(x)

    def _matvec(self, x: Any) -> Any:
        return self.matvec(x)

    def _rmatvec(self, x: Any) -> Any:
        return self.rmatvec(x)

    def _matmat(self, X: Any) -> Any:
        return self.matmat(X)

    def _rmatmat(self, X: Any) -> Any:
        return self.rmatmat(X)


def _same(found: Any) -> Any:
    return found


def _first(*given: Any) -> Any:
    """Return the first argument that is not None."""
    return next(each for each in given if each is not None)
