"""The contract of a linear operator: products with a matrix that is stored in a format, and operations on vectors.

A method of numerical linear algebra needs few operations: multiply by A or its transpose, dot products, linear
combinations, an update with the norm of its result, scale, convert. `LinearOperator` has these for one matrix on one
backend. How many bits of the matrix and of each vector are read is an argument of each call, and the precision of
products and sums (``compute``) is apart from the storage.

Vectors are arrays of float64 or float32, or stored in a format (`cpms.storage.block_float.STORED`). Matrix and vectors
lie in the operator's memory: main memory or that of a device, as ``memory`` says. Only `LinearOperator.to_memory` and
`LinearOperator.to_host` copy between them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from cpms.base.types import Floats, Norm
from cpms.contracts.arnoldi import ArnoldiSteps
from cpms.contracts.conjugate_gradients import CgIterations
from cpms.contracts.own_codecs import has_own_codec
from cpms.contracts.product_request import Compute, ProductRequest
from cpms.contracts.sweeps import Sweeps
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import ValueFormat, VectorFormat
from cpms.formats.formats import DOUBLE_BITS, FloatFormat, Format, SegmentFormat

UNIT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24}
"""Unit roundoff of products and sums, by their precision."""
_OTHERS = 5
"""Roundings of a term beside its row's additions: value and x to the compute precision, their product, alpha, out."""


class Epilogue(NamedTuple):
    """Operations that a product does in the same pass over ``out``.

    Parameters
    ----------
    add : vector of float64 or None
        ``factor * add`` is added to each row.
    factor : float
    dot : vector of float64 or None
        `LinearOperator.apply` then returns the dot product of ``out`` with it.
    """

    add: Any | None = None
    factor: float = 1.0
    dot: Any | None = None


NO_EPILOGUE = Epilogue()
"""The epilogue of a product alone."""


class Terms(NamedTuple):
    """Factors, levels and epilogue of a product: what `LinearOperator.apply` is given beside its vectors."""

    alpha: float
    beta: float
    read_matrix: int | None
    read_x: int | None
    write: int | None
    epilogue: Epilogue


class Norms(NamedTuple):
    """Norms of a vector."""

    l1: float
    l2: float
    linf: float


class Bound(NamedTuple):
    """How far a product may be from the exact one: ``relative * |A| |x| + absolute * (pattern of A) |x|`` by rows."""

    relative: float
    absolute: float


EXACT = Bound(0.0, 0.0)
"""Bound of values that are stored as they were given."""


def value_error(storage: ValueFormat, read: int | None, exponent: int = 0) -> Bound:
    """Return how far a stored value may be from the one given, relative to it, and for values below the normal range.

    Parameters
    ----------
    storage : SegmentFormat, FloatFormat or CodeFormat
        Written whole.
    read : int or None
        Segments that are read; all for None. A read cuts, whatever the format's rounding.
    exponent : int
        Values are stored times 2**exponent; of block floats, the sizes of all values are below 2**-exponent.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4, FP16
    >>> value_error(CPMS4, 1).relative, value_error(FP16, None).relative == 2.0**-11
    (0.0625, True)
    """
    if isinstance(storage, Format) and has_own_codec(storage):
        return Bound(*storage.error(read, exponent))
    if isinstance(storage, FloatFormat):
        unit = storage.unit_roundoff(read)
        return Bound(unit, float(np.ldexp(storage.min_normal * unit, -exponent)))
    if isinstance(storage, BlockFloatFormat):
        return Bound(0.0, storage.unit_in(-exponent))
    if not isinstance(storage, SegmentFormat) or storage.bits(read) == DOUBLE_BITS:
        return EXACT
    return Bound(2.0 ** -storage.mantissa_kept(read), float(np.finfo(np.float64).tiny))


def array_error(stored: Any, read: int | None) -> Bound:
    """Return `value_error` of an array, with the exponents that it has; of none, which is a pattern, exact.

    Examples
    --------
    >>> import cpms
    >>> array_error(cpms.encode([0.1], cpms.FP32), None).relative == 2.0**-24
    True
    """
    if stored is None:
        return EXACT
    if has_own_codec(stored.format):
        given = stored.decode()
        decoded = float(abs(given).max()) if len(given) else 0.0
        # What is read may be smaller than what was written by the unit roundoff.
        largest = decoded / (1.0 - min(stored.format.unit_roundoff(), 0.5))
        return Bound(*stored.format.error(read, stored.exponent, largest))
    return value_error(stored.format, read, -stored.top if hasattr(stored, "top") else stored.exponent)


def product_bound(of_matrix: Bound, compute: Compute, additions: int) -> Bound:
    """Return the error bound of a row with so many additions, by Higham's gamma (section 3.1 of his second edition).

    Holds where nothing overflows, and nothing that matters falls below the normal range of the compute precision.

    Examples
    --------
    >>> product_bound(EXACT, "fp64", 7).relative / 2.0**-53
    12.0
    """
    steps = (additions + _OTHERS) * UNIT_ROUNDOFF[compute]
    gamma = steps / (1.0 - steps) if steps < 1.0 else np.inf
    growth = 1.0 + gamma
    return Bound((1.0 + of_matrix.relative) * growth - 1.0, of_matrix.absolute * growth)


class VectorBlock(list[Any]):
    """Vectors in their formats, and in ``levels`` the segments that are read of each.

    Examples
    --------
    >>> block = VectorBlock()
    >>> block.add("a vector of cpms4", 2)
    >>> list(block), block.levels
    (['a vector of cpms4'], [2])
    """

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int | None] = []

    def add(self, v: Any, level: int | None = None) -> None:
        """Append a vector."""
        self.append(v)
        self.levels.append(level)


class LinearOperator(ABC):
    """A real matrix prepared for products, and the vector operations of its backend; by default in main memory."""

    memory: ClassVar[Literal["main", "device"]] = "main"
    """Memory of the vectors."""
    shape: tuple[int, int]
    request: ProductRequest
    """How the matrix is stored, and in which precision is computed."""
    nbytes: int
    """Bytes of the stored matrix."""

    def apply(
        self,
        x: Any,
        out: Any,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        read_matrix: int | None = None,
        read_x: int | None = None,
        write: int | None = None,
        transpose: bool = False,
        epilogue: Epilogue | None = None,
    ) -> float | None:
        """Do ``out = alpha A x + beta out`` and the operations of an epilogue; with ``transpose``, A' stands for A.

        The matrix is read in its first ``read_matrix`` segments. Where vectors are stored in a format, ``x`` is read in
        ``read_x`` and ``out`` written in ``write`` segments. None stands for all segments. ``x`` and ``out`` may be
        blocks of vectors, arrays of shape (columns, k) and (rows, k): the matrix is then read once for all of them,
        without an epilogue. With ``beta`` 0, ``out`` is not read.

        Promises: with `error_bound`, |out - A x| is at most relative * (|A| |x|) + absolute * (P |x|), P the pattern
        of A, for ``alpha`` 1 and ``beta`` 0, before ``out`` is rounded to the format or type that it has; the same
        call gives the same bits on the same machine.

        Returns
        -------
        float or None
            The epilogue's dot product, if it asks for one.
        """
        operator = self.transposed if transpose else self
        return operator.product(x, out, Terms(alpha, beta, read_matrix, read_x, write, epilogue or NO_EPILOGUE))

    @abstractmethod
    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Do `apply` for the matrix as it is stored."""

    @property
    @abstractmethod
    def transposed(self) -> LinearOperator:
        """The operator of A's transpose, prepared when it is first asked for."""

    @abstractmethod
    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes of indices and values that a product reads whose values are read in ``read`` segments."""

    def error_bound(self, *, read_matrix: int | None = None, transpose: bool = False) -> Bound:
        """Return the bound of `apply` by storage, level and compute precision, for the longest row or column.

        It is for x as it is read, and leaves out the error of a stored x.
        """
        return (self.transposed if transpose else self).bound(read_matrix)

    @abstractmethod
    def bound(self, read_matrix: int | None) -> Bound:
        """Return `error_bound` for the matrix as it is stored."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array in the operator's memory; its content is undefined."""
        return np.empty(shape, dtype)

    @abstractmethod
    def to_memory(self, values: Any) -> Any:
        """Return a float64 copy of an array of either memory in the operator's memory."""

    def to_host(self, x: Any) -> Floats:
        """Return a plain array of the operator's memory in main memory."""
        found: Floats = x
        return found

    def block(self) -> VectorBlock:
        """Return an empty block of vectors for `dots` and `combine`; it may keep the arguments of kernels."""
        return VectorBlock()

    @abstractmethod
    def dots(self, V: Sequence[Any], w: Any, levels: Sequence[int | None] | None = None) -> Any:
        """Return the dot products of each vector of a block with ``w``, float64, shape (len(V),).

        Vector j is read in its first ``levels[j]`` segments, all for None. Sums are float64, whatever ``compute`` is:
        entry j is within gamma_n of |V_j|^T |w|, V_j as it is read.
        """

    @abstractmethod
    def combine(self, V: Sequence[Any], c: Any, w: Any, levels: Sequence[int | None] | None = None) -> None:
        """Do ``w += sum of c[j] V_j``, each vector read as in `dots`.

        Sums are float64, rounded to the type of ``w`` once for every sixteen vectors at most.
        """

    @abstractmethod
    def update_and_norms(self, y: Any, alpha: float, x: Any) -> Norms:
        """Do ``y += alpha x`` and return norms of the new ``y``, in one pass over both, in float64."""

    def update_and_norm(self, y: Any, alpha: float, x: Any, norm: Norm = "l2") -> float:
        """Do `update_and_norms` and return one of them."""
        found: float = getattr(self.update_and_norms(y, alpha, x), norm)
        return found

    @abstractmethod
    def multiply(self, x: Any, factors: Any, out: Any) -> None:
        """Do ``out = x * factors`` value by value, all of them plain arrays: a product with a diagonal matrix."""

    @abstractmethod
    def scale(self, x: Any, factor: float, level: int | None = None) -> None:
        """Do ``x *= factor``; a stored vector is read and written in its first ``level`` segments, rounded again."""

    @abstractmethod
    def convert(self, x: Any, storage: VectorFormat | None, read: int | None = None, write: int | None = None) -> Any:
        """Return a vector, of which ``read`` segments are read, in another format; a float64 array for None.

        Of a format in segments the first ``write`` are written, and rounding is to their bits.
        """

    def upload(self, values: Any) -> Any:
        """Return a copy of an array of any type in main memory, in the operator's memory."""
        return np.array(values)

    def computing(self, compute: Compute) -> LinearOperator:  # noqa: ARG002
        """Return products with the same matrix that compute in another precision; this operator if there are none."""
        return self

    def conjugate_gradients(self, task: Any, x: Any) -> CgIterations | None:  # noqa: ARG002
        """Return fused iterations for a `cpms.contracts.linear_solve.SolveTask`; None if the backend fuses none."""
        return None

    def sweeps(self, task: Any, inverse_diagonal: Any, r: Any, c: Any) -> Sweeps | None:  # noqa: ARG002
        """Return fused sweeps of a task that correct c by the residual r; None if the backend fuses none."""
        return None

    def arnoldi(self, task: Any, most: int) -> ArnoldiSteps | None:  # noqa: ARG002
        """Return fused steps for a task, of at most ``most`` a cycle; None if the backend fuses none."""
        return None
