"""The contract of a linear operator: products with a matrix that is stored in a format, and operations on vectors.

A method of numerical linear algebra needs few operations: products with A or its transpose, dot products, linear
combinations, an update with the norm of its result, scaling, and conversion. `LinearOperator` has these for one matrix
on one backend. How many bits of the matrix and of each vector are read is an argument of each call. The precision of
products and sums (``compute``) does not depend on the storage.

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
"""Roundings of a term besides additions: of its value, of x, of their product, of that times alpha, and of ``out``."""


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
    """Factors, levels and epilogue of a product: the arguments of `LinearOperator.apply` besides its vectors."""

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
    """Bound of the error of a product, row by row: ``relative * |A| |x| + absolute * P |x|``, P the pattern of A.

    It holds where the product of an entry and a value of x is 0 or a normal number. Each one below the normal numbers
    adds at most 2**-1075, and 2**-150 where products are in float32.
    """

    relative: float
    absolute: float


EXACT = Bound(0.0, 0.0)
"""Bound of values that are stored without rounding."""


def value_error(storage: ValueFormat, read: int | None, exponent: int = 0) -> Bound:
    """Return the bound of the rounding error of a stored value: relative to the value given, plus an absolute part.

    The absolute part is for values below the format's normal range, and for block floats, whose values share exponents.

    Parameters
    ----------
    storage : SegmentFormat, FloatFormat, BlockFloatFormat, CodeFormat, or a format with a codec of its own
        All its segments were written.
    read : int or None
        Segments that are read; all for None. A read of fewer segments truncates, however the format rounds.
    exponent : int
        Values are stored times 2**exponent. For block floats, all absolute values are below 2**-exponent.

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
    """Return `value_error` of a stored array, with its exponents; `EXACT` for None, the values of a pattern.

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
        # A value may be smaller as it is read than as it was written, by the unit roundoff.
        largest = decoded / (1.0 - min(stored.format.unit_roundoff(), 0.5))
        return Bound(*stored.format.error(read, stored.exponent, largest))
    return value_error(stored.format, read, -stored.top if hasattr(stored, "top") else stored.exponent)


def product_bound(of_matrix: Bound, compute: Compute, additions: int) -> Bound:
    """Return the error bound of a row with that many additions.

    It is gamma_k = k u / (1 - k u) of Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1.
    It holds where no term overflows or falls below the normal range of the compute precision.

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
    """Vectors in their formats; ``levels`` has the number of segments that are read of each, None for all.

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
    """A real matrix that is prepared for products, and the vector operations of its backend."""

    memory: ClassVar[Literal["main", "device"]] = "main"
    """The memory in which matrix and vectors lie."""
    shape: tuple[int, int]
    request: ProductRequest
    """How the matrix is stored, and the precision of products and sums."""
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
        """Do ``out = alpha A x + beta out`` and the operations of an epilogue; with ``transpose``, of A's transpose.

        The matrix is read in its first ``read_matrix`` segments. Where vectors are stored in a format, ``x`` is read in
        ``read_x`` and ``out`` written in ``write`` segments. None stands for all segments. ``x`` and ``out`` may be
        blocks of vectors, arrays of shape (columns, k) and (rows, k). The matrix is then read once for all k, and no
        epilogue is done. With ``beta`` 0, ``out`` is not read.

        The same call gives the same bits on the same machine. For ``alpha`` 1 and ``beta`` 0, |out - A x| is at most
        relative * (|A| |x|) + absolute * (P |x|), P being the pattern of A, and the factors those of `error_bound`.
        This holds before ``out`` is rounded to its own format or type.

        Returns
        -------
        float or None
            The epilogue's dot product, if it asks for one.
        """
        operator = self.transposed if transpose else self
        return operator.product(x, out, Terms(alpha, beta, read_matrix, read_x, write, epilogue or NO_EPILOGUE))

    @abstractmethod
    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Do `apply` without ``transpose``; backends implement this."""

    @property
    @abstractmethod
    def transposed(self) -> LinearOperator:
        """The operator of A's transpose, which the first use prepares."""

    @abstractmethod
    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes of indices and values that a product reads, with values in their first ``read`` segments."""

    def error_bound(self, *, read_matrix: int | None = None, transpose: bool = False) -> Bound:
        """Return the error bound of `apply` for the row with most entries: of storage, level and compute precision.

        It is relative to the product with x as it is read, and does not include the rounding error of a stored x.
        """
        return (self.transposed if transpose else self).bound(read_matrix)

    @abstractmethod
    def bound(self, read_matrix: int | None) -> Bound:
        """Return `error_bound` without ``transpose``; backends implement this."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array in the operator's memory; its content is undefined."""
        return np.empty(shape, dtype)

    @abstractmethod
    def to_memory(self, values: Any) -> Any:
        """Return a float64 copy, in the operator's memory, of an array in main or device memory."""

    def to_host(self, x: Any) -> Floats:
        """Return a plain array of the operator's memory as one in main memory; a copy only if the memories differ."""
        found: Floats = x
        return found

    def block(self) -> VectorBlock:
        """Return an empty block of vectors for `dots` and `combine`.

        A backend's block may keep prepared arguments of kernels from call to call.
        """
        return VectorBlock()

    @abstractmethod
    def dots(self, V: Sequence[Any], w: Any, levels: Sequence[int | None] | None = None) -> Any:
        """Return the dot product of each vector of a block with ``w``, float64, shape (len(V),).

        Vector j is read in its first ``levels[j]`` segments, all for None. Sums are float64, whatever ``compute`` is:
        the error of entry j is at most gamma_n |V_j|^T |w|, V_j being the vector as it is read.
        """

    @abstractmethod
    def combine(self, V: Sequence[Any], c: Any, w: Any, levels: Sequence[int | None] | None = None) -> None:
        """Do ``w += sum of c[j] V_j``, each vector read as in `dots`.

        Sums are float64, and are rounded to the type of ``w`` at most once for every sixteen vectors.
        """

    @abstractmethod
    def update_and_norms(self, y: Any, alpha: float, x: Any) -> Norms:
        """Do ``y += alpha x`` in float64, and return norms of the new ``y`` as it is stored; one pass if y is plain."""

    def update_and_norm(self, y: Any, alpha: float, x: Any, norm: Norm = "l2") -> float:
        """Do `update_and_norms` and return one of them."""
        found: float = getattr(self.update_and_norms(y, alpha, x), norm)
        return found

    @abstractmethod
    def multiply(self, x: Any, factors: Any, out: Any) -> None:
        """Do ``out = x * factors`` value by value: a product with a diagonal matrix. All three are plain arrays."""

    @abstractmethod
    def scale(self, x: Any, factor: float, level: int | None = None) -> None:
        """Do ``x *= factor``; a stored vector is read in its first ``level`` segments, and rounded to these again."""

    @abstractmethod
    def convert(self, x: Any, storage: VectorFormat | None, read: int | None = None, write: int | None = None) -> Any:
        """Return a copy of a vector in a format, or as a float64 array for None.

        The vector is read in its first ``read`` segments. In a format of segments, values are rounded to the first
        ``write`` segments, and these alone are written.
        """

    def upload(self, values: Any) -> Any:
        """Return a copy, in the operator's memory, of an array of any type in main memory."""
        return np.array(values)

    def computing(self, compute: Compute) -> LinearOperator:  # noqa: ARG002
        """Return an operator of the same matrix with another compute precision; this one if the backend has none."""
        return self

    def conjugate_gradients(self, task: Any, x: Any) -> CgIterations | None:  # noqa: ARG002
        """Return fused iterations for a `cpms.contracts.linear_solve.SolveTask`; None if there are none for it."""
        return None

    def sweeps(self, task: Any, inverse_diagonal: Any, r: Any, c: Any) -> Sweeps | None:  # noqa: ARG002
        """Return fused sweeps of a task that update c and its residual r; None if there are none for it."""
        return None

    def arnoldi(self, task: Any, most: int) -> ArnoldiSteps | None:  # noqa: ARG002
        """Return fused steps for a task, in cycles of at most ``most`` steps; None if there are none for it."""
        return None
