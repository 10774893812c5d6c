"""A sparse matrix in main memory: compressed sparse rows of real numbers of any sign, or their pattern alone.

This is what a user's matrix becomes first, whatever it came as; `cpms.sparse.arrangement` brings it into a layout. Row
starts and column numbers keep the width that SciPy chose, 64 bits from 2**31 entries or columns on, and arrays
that are canonical float64 already are used as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.host_memory import require_memory
from cpms.base.real_arrays import euclidean_norm, require_exact
from cpms.base.text.counted import counted
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.base.validation import consistent, described, require_real, whole
from cpms.storage.block_float import STORED
from cpms.storage.interchange import in_main_memory

if TYPE_CHECKING:
    import scipy.sparse

T = TypeVar("T")
_ROWS = 1 << 15
"""Least number of rows in a task of a thread."""
_AT_LEAST = 1 << 15
"""Least number of values in a task of a thread, few enough for a core's second cache."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Real matrix; row ``i`` has ``values[indptr[i]:indptr[i + 1]]`` in the columns ``indices[...]``, ascending.

    Make one with `from_scipy`, `from_dense` or `from_triplets`; the constructor trusts its arguments.

    Parameters
    ----------
    rows, columns : int
    indptr : ndarray of integers, shape (rows + 1,)
    indices : ndarray of integers, shape (entries,)
        Ascending within a row, each once.
    values : ndarray of float64, shape (entries,), or None
        None for a pattern, whose entries are all 1.
    shared : dict or None
        See `once`.
    is_decoded : bool
        Whether the values were given in a format, so that the matrix exists only rounded.

    Examples
    --------
    >>> a = Matrix.from_triplets([0, 1, 1, 1], [2, 0, 1, 1], [-1.5, 2.0, 1.0, 3.0])
    >>> a.shape, a.entries, a.indices.tolist(), a.values.tolist()
    ((2, 3), 3, [2, 0, 1], [-1.5, 2.0, 4.0])
    """

    rows: int
    columns: int
    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    values: Floats | None
    shared: dict[Any, Any] | None = None
    """Arrangements and formats that several products share, by their keys in `once`; None where nothing is kept."""
    is_decoded: bool = False

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return what ``make`` returns; where results are kept, it is called once for a key.

        Examples
        --------
        >>> from dataclasses import replace
        >>> a = replace(Matrix.from_dense([[1.0]]), shared={})
        >>> a.once("list", list) is a.once("list", list)
        True
        """
        if self.shared is None:
            return make()
        if key not in self.shared:
            self.shared[key] = make()
        found: T = self.shared[key]
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return len(self.indices)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Entries of each row, shape (rows,)."""
        return np.diff(self.indptr).astype(np.int64)

    @property
    def longest(self) -> int:
        """Entries of the longest row."""
        return int(self.lengths.max(initial=0))

    def given_values(self) -> Floats:
        """Return the values, ones for a pattern, shape (entries,)."""
        return np.ones(self.entries) if self.values is None else self.values

    def row_numbers(self) -> npt.NDArray[Any]:
        """Return the row of each entry, in the width of the column numbers, shape (entries,)."""
        return np.repeat(np.arange(self.rows, dtype=self.indices.dtype), self.lengths)

    @phase("transposing the matrix")
    def transposed(self) -> Matrix:
        """Return the transposed matrix, in memory of its own."""
        turned = self.to_scipy().T.tocsr()
        turned.sort_indices()
        values = None if self.values is None else turned.data
        return Matrix(self.columns, self.rows, turned.indptr, turned.indices, values, is_decoded=self.is_decoded)

    def diagonal(self) -> Floats:
        """Return the main diagonal, shape (min(rows, columns),)."""
        parts = threads.ranges(min(self.shape), at_least=_ROWS)
        if len(parts) == 1:
            return self._diagonal((0, self.rows))
        return threads.concatenated(threads.each(self._diagonal, parts))

    def _diagonal(self, part: tuple[int, int]) -> Floats:
        """Return the diagonal entries of some rows."""
        import scipy.sparse

        starts = self.indptr[part[0] : part[1] + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        values = np.ones(entries.stop - entries.start) if self.values is None else self.values[entries]
        held = values, self.indices[entries], starts - starts[0]
        found: Floats = scipy.sparse.csr_array(held, shape=(len(starts) - 1, self.columns)).diagonal(part[0])
        return found

    @cached_property
    def frobenius_norm(self) -> float:
        """Frobenius norm, found without overflow.

        Examples
        --------
        >>> Matrix.from_dense([[3.0 * 2.0**900, 4.0 * 2.0**900]]).frobenius_norm == 5.0 * 2.0**900
        True
        """
        if self.values is None:
            return math.sqrt(self.entries)
        values = self.values

        def norm(part: tuple[int, int]) -> tuple[float, int]:
            """Return the norm of a part over a power of two, and the exponent of that."""
            within = values[slice(*part)]
            exponent = int(np.frexp(max(within.max(), -within.min()))[1])
            return euclidean_norm(np.ldexp(within, -exponent)), exponent

        norms = threads.each(norm, threads.ranges(len(values), at_least=_AT_LEAST))
        exponent = max((exponent for size, exponent in norms if size > 0.0), default=0)
        size = math.sqrt(math.fsum(math.ldexp(size, of_part - exponent) ** 2 for size, of_part in norms))
        with np.errstate(over="ignore"):
            return float(np.ldexp(size, exponent))

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the matrix for SciPy; values and indices share memory."""
        import scipy.sparse

        return scipy.sparse.csr_array((self.given_values(), self.indices, self.indptr), shape=self.shape)

    @classmethod
    def from_scipy(cls, given: Any) -> Matrix:
        """Return a SciPy or CuPy sparse matrix; CSR of float64 in canonical form is not copied.

        Entries that are given twice are added up, as SciPy does; explicit zeros are kept.

        Raises
        ------
        InputError
            If values are complex, NaN, infinite or no numbers, or the shape is not that of a matrix.
        """
        import scipy.sparse

        held = given.get() if type(given).__module__.startswith("cupyx") else given
        if held.ndim != 2:
            raise InputError(f"the matrix has {counted(held.ndim, 'dimension')}; give two")
        _require_numbers(held.dtype)
        if _is_canonical(held):
            return cls(held.shape[0], held.shape[1], held.indptr, held.indices, held.data)
        if held.format != "csr":  # A file may declare more rows than row starts fit into memory.
            require_memory(8 * held.shape[0], f"a matrix of {held.shape[0]:,} rows")
        held = consistent(held)
        given = held if held.format == "coo" else scipy.sparse.csr_array(held)
        require_exact("the matrix", given.data)
        # Sums of entries of one place follow, which narrow integers would not hold.
        rows = scipy.sparse.csr_array(given.astype(np.float64, copy=False))
        if not rows.has_canonical_format:
            rows = rows.copy() if held.format == "csr" else rows
            rows.sum_duplicates()
        return _checked(rows, pattern=False)

    @classmethod
    def from_dense(cls, given: Any) -> Matrix:
        """Return the entries of a two-dimensional array that are not 0; one in device memory is copied from there.

        Examples
        --------
        >>> Matrix.from_dense([[0.0, -2.0], [0.0, 0.0]]).indices.tolist()
        [1]
        """
        import scipy.sparse

        if isinstance(given, np.ma.MaskedArray):
            raise InputError("the matrix is a masked array; say what masked entries count: .filled(0.0)")
        held = in_main_memory("the matrix", given)
        _require_numbers(held.dtype)
        if held.ndim != 2:
            raise InputError(f"the matrix has {counted(held.ndim, 'dimension')}; give two")
        places = held.nonzero()
        made = scipy.sparse.coo_array((_doubles(held[places]), places), shape=held.shape)
        return _checked(made.tocsr(), pattern=False)

    @classmethod
    def from_triplets(
        cls, rows: Any, columns: Any, values: Any | None = None, *, shape: tuple[int, int] | None = None
    ) -> Matrix:
        """Return the matrix of entries ``(rows[k], columns[k], values[k])``; those of one place are added up.

        Without ``values`` it is a pattern, where a place that is given twice counts once. Values that are stored in a
        format make a matrix that ``is_decoded``. Without a ``shape`` the largest numbers decide.

        Examples
        --------
        >>> from cpms.formats.formats import FP16
        >>> from cpms.storage.array import encode
        >>> Matrix.from_triplets([0], [0], encode([0.1], FP16)).is_decoded
        True
        """
        import scipy.sparse

        plain = values.decode() if isinstance(values, STORED) else values
        places = [_numbers(name, numbers) for name, numbers in (("rows", rows), ("columns", columns))]
        given = np.ones(len(places[0])) if plain is None else in_main_memory("values of triplets", plain)
        require_real("values of triplets", plain)
        _require_numbers(given.dtype)
        if given.ndim != 1 or not len(places[0]) == len(places[1]) == len(given):
            sizes = f"{len(places[0])} rows, {len(places[1])} columns and values of shape {given.shape}"
            raise InputError(f"triplets have {sizes}; give one of each an entry")
        largest = tuple(int(numbers.max(initial=-1)) + 1 for numbers in places)
        size = largest if shape is None else _shape(shape)
        if any(number > limit for number, limit in zip(largest, size, strict=True)):
            raise InputError(f"an entry lies in row {largest[0] - 1} or column {largest[1] - 1}, outside shape {size}")
        require_memory(8 * sum(size), f"a matrix of {size[0]:,} rows and {size[1]:,} columns")
        made = scipy.sparse.coo_array((_doubles(given), (places[0], places[1])), shape=size).tocsr()
        return replace(_checked(made, pattern=plain is None), is_decoded=plain is not values)


def _is_canonical(given: Any) -> bool:
    """Return whether a SciPy matrix can be used as it is: canonical CSR of finite float64, found by all threads.

    Any fault is left to the checks that name it.
    """
    if given.format != "csr" or 0 in given.shape or type(given).__module__.split(".")[0] != "scipy":
        return False
    starts, columns, values = given.indptr, given.indices, given.data
    arrays = starts, columns, values
    is_plain = all(type(each) is np.ndarray and each.ndim == 1 and each.flags.c_contiguous for each in arrays)
    if (
        not is_plain
        or values.dtype != np.float64
        or starts.dtype != columns.dtype
        or starts.dtype not in (np.int32, np.int64)
    ):
        return False
    if len(starts) != given.shape[0] + 1 or starts[0] != 0 or not starts[-1] == len(columns) == len(values):
        return False

    def is_sound(part: tuple[int, int]) -> bool:
        low, high = part
        within = starts[low : high + 1]
        if (within[1:] < within[:-1]).any():
            return False
        entries = slice(int(within[0]), int(within[-1]))
        here = columns[entries]
        if here.size == 0:
            return True
        ascends = here[1:] > here[:-1]
        before = within[1:-1].astype(np.int64) - entries.start - 1  # Places of the last entries before rows.
        ascends[before[(before >= 0) & (before < len(ascends))]] = True
        in_range = here.min() >= 0 and here.max() < given.shape[1]
        return bool(in_range and ascends.all() and np.isfinite(values[entries]).all())

    return all(threads.each(is_sound, threads.ranges(given.shape[0], at_least=_ROWS)))


def _checked(rows: Any, *, pattern: bool) -> Matrix:
    if 0 in rows.shape:
        raise InputError(f"the matrix has shape {rows.shape}; it needs a row and a column at least")
    rows.sort_indices()
    if pattern:
        return Matrix(rows.shape[0], rows.shape[1], rows.indptr, rows.indices, None)
    values: Floats = np.ascontiguousarray(rows.data)
    finite = np.isfinite(values)
    if not finite.all():
        entry = int(np.argmin(finite))
        row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        raise InputError(
            f"the matrix holds {values[entry]} in row {row}, column {int(rows.indices[entry])}; entries must be finite"
        )
    return Matrix(rows.shape[0], rows.shape[1], rows.indptr, rows.indices, values)


def _doubles(values: npt.NDArray[Any]) -> Floats:
    """Return values as float64, each exactly."""
    require_exact("the matrix", values)
    return values.astype(np.float64, copy=False)


def _require_numbers(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise InputError("the matrix is complex; only real matrices have storage formats: give A.real and A.imag apart")
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise InputError(f"the matrix holds values of type {dtype}; give float64, or what converts to it exactly")


def _numbers(name: str, given: Any) -> npt.NDArray[np.int64]:
    require_real(f"{name} of triplets", given)
    numbers = in_main_memory(f"{name} of triplets", given)
    if numbers.size == 0:
        return np.zeros(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InputError(f"{name} of triplets are {numbers.dtype} of shape {numbers.shape}; give a list of integers")
    if int(numbers.min()) < 0:
        raise InputError(f"{name} of triplets begin at {int(numbers.min())}; they count from 0")
    if int(numbers.max()) > np.iinfo(np.int64).max:
        raise InputError(f"{name} of triplets go up to {int(numbers.max())}; give numbers below 2**63")
    return numbers.astype(np.int64, copy=False)


def _shape(given: Any) -> tuple[int, int]:
    try:
        rows, columns = given
    except (TypeError, ValueError):
        raise InputError(f"shape is {described(given)}; give rows and columns") from None
    size = whole("rows", rows), whole("columns", columns)
    if min(size) < 1:
        raise InputError(f"shape is {size}; a matrix has a row and a column at least")
    return size
