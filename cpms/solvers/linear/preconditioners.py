"""Preconditioners that are not also solvers: block Jacobi, a user's callable, and one that notes its use.

A preconditioner only steers the directions of a method, so it may be stored in few bits. Block Jacobi stores the
inverse of each diagonal block in the precision that the block's condition number allows (Anzt et al., "Adaptive
precision in block-Jacobi preconditioning", Concurrency and Computation 31, 2019), or in a format that the caller gives.
It is linear and the same in every call, as conjugate gradients need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP16, FP32, FP64
from cpms.problems.linear_system import LinearSystem

_BLOCK_FORMATS = ((FP16, 2.0**-11, 2.0**-14, 60000.0), (FP32, 2.0**-24, 2.0**-126, 1e38), (FP64, 0.0, 0.0, np.inf))
"""Formats of stored inverses: each with its unit roundoff, and the range in which the largest value must lie."""
_BLOCK_ERROR = 0.1
"""Largest product of a block's condition number and the unit roundoff of its stored inverse."""
_NEAR = 0.5
"""Largest norm of I - B S, for a block B and its inverse S as a format that was asked for holds it.

A norm below 1 keeps S positive definite where B and S are symmetric and B is positive definite.
"""
_REAL = tuple("fiu")
"""NumPy's codes of the kinds of numbers that a user's preconditioner may return."""
_SINGULAR = (
    "a diagonal block is singular, or nearly so; use another size of block or another preconditioner, or scale A"
)


class BlockJacobi(Preconditioner):
    """Multiplication by the inverses of diagonal blocks, each stored in as few bits as its condition number allows.

    The inverses of one format are a block diagonal matrix, so that one application takes one product per format.

    Parameters
    ----------
    system : LinearSystem
    prepare : callable
        Takes row starts, columns and values of a square matrix in compressed rows, and a format. Returns a
        `LinearOperator`, or raises `UnsupportedError`, after which a format of more bits is tried.
    block : int
        Rows of a block; the last one may have fewer.
    storage : format, optional
        Of all inverses that it holds well enough; the others are stored by their condition numbers, and ``note`` says
        so.

    Attributes
    ----------
    blocks_by_format : dict of str to int
        Number of blocks by the name of the format of their inverses.

    Raises
    ------
    InputError
        If a block is singular, or has more than 64 rows.
    UnsupportedError
        If products have no ``storage``.
    """

    name = "block_jacobi"

    @phase("inverting diagonal blocks")
    def __init__(
        self,
        system: LinearSystem,
        prepare: Callable[..., LinearOperator],
        block: int = 8,
        storage: VectorFormat | None = None,
    ) -> None:
        blocks = _blocks(system, block)
        inverses, conditions = _inverses(blocks)
        self._products: list[LinearOperator] = []
        self.blocks_by_format: dict[str, int] = {}

        def keep(product: LinearOperator, held_in: VectorFormat, chosen: npt.NDArray[Any]) -> None:
            self._products.append(product)
            before = self.blocks_by_format.get(held_in.name, 0)
            self.blocks_by_format[held_in.name] = before + int(chosen.sum())

        waiting = np.ones(len(inverses), bool)
        if storage is not None:
            product, fits = _held_in(storage, blocks, inverses, system.size, prepare)
            if product is not None:
                keep(product, storage, fits)
            waiting &= ~fits
        refused = int(waiting.sum())
        largest = np.abs(inverses).max(axis=(1, 2))
        for held_in, unit, least, most in _BLOCK_FORMATS:
            fits = waiting & (conditions * unit <= _BLOCK_ERROR) & (largest >= least) & (largest < most)
            if not fits.any():
                continue
            try:
                keep(prepare(*_block_diagonal(inverses, fits, system.size), held_in), held_in, fits)
            except UnsupportedError:
                continue
            waiting &= ~fits
        self.nbytes = sum(product.bytes_read() for product in self._products)
        self.storage = ", ".join(self.blocks_by_format)
        if storage is not None and refused:
            self.note = (
                f"preconditioner in {self.storage}: {storage.name} has too few digits or too small a range for "
                f"{refused} of {len(inverses)} blocks"
            )
        # A symmetric inverse has no eigenvalue above its largest row sum. Padding of the last block is left out.
        self.least = 1.0 / float(np.abs(inverses).sum(axis=2).reshape(-1)[: system.size].max())

    def apply(self, r: Any) -> Any:
        """Add up the products with the inverses of each format."""
        z = self._products[0].empty((len(r),), "float64")
        for place, product in enumerate(self._products):
            product.apply(r, z, beta=float(place > 0))
        return z


def _held_in(
    storage: VectorFormat, blocks: Floats, inverses: Floats, size: int, prepare: Callable[..., LinearOperator]
) -> tuple[LinearOperator | None, npt.NDArray[Any]]:
    """Store inverses in a format; return the product with those that it holds well enough, and which these are.

    They become in ``inverses`` what they are in the format. Values of several blocks may share an exponent, so what is
    left is stored again without the blocks that are refused.
    """
    fits = np.ones(len(inverses), bool)
    while fits.any():
        try:
            product = prepare(*_block_diagonal(inverses, fits, size), storage)
        except InputError:  # The largest values are beyond the format's range.
            near = np.abs(inverses).max(axis=(1, 2)) <= getattr(storage, "max_finite", 0.0)
            if near[fits].all():
                return None, np.zeros_like(fits)
        else:
            held = _as_held(product, inverses, size)
            near = _are_near(blocks, held)
            if near[fits].all():
                inverses[fits] = held[fits]
                return product, fits
        fits &= near
    return None, fits


def _as_held(product: LinearOperator, inverses: Floats, size: int) -> Floats:
    """Return the blocks of a block diagonal matrix as its products read them, by one product for each column."""
    held, width = inverses.copy(), inverses.shape[1]
    column = product.empty((size,), "float64")
    for j in range(width):
        product.apply(product.upload((np.arange(size) % width == j).astype(np.float64)), column)
        held.reshape(-1, width)[:size, j] = product.to_host(column)
    return held


def _are_near(blocks: Floats, inverses: Floats) -> npt.NDArray[Any]:
    """Return for each block whether the norm of I - B S, the largest sum of a row's sizes, is at most `_NEAR`."""
    rest = np.zeros_like(blocks)
    for k in range(blocks.shape[1]):
        rest += blocks[:, :, k, None] * inverses[:, k, None, :]
    found: npt.NDArray[Any] = np.abs(rest - np.eye(blocks.shape[1])).sum(axis=2).max(axis=1) <= _NEAR
    return found


def _block_diagonal(inverses: Floats, chosen: npt.NDArray[Any], size: int) -> tuple[npt.NDArray[Any], ...]:
    """Return a matrix of some of the blocks, in compressed rows: row starts, columns and values."""
    block = inverses.shape[1]
    blocks, row, column = np.nonzero((inverses != 0.0) & chosen[:, None, None])
    rows, columns = blocks * block + row, blocks * block + column
    inside = rows < size
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[inside], minlength=size))])
    return starts, columns[inside], inverses[blocks, row, column][inside]


def _blocks(system: LinearSystem, block: int) -> Floats:
    """Return the diagonal blocks, shape (blocks, block, block); the last one is padded with ones on its diagonal."""
    if not 1 <= block <= 64:
        raise InputError(f"blocks of {block} rows cannot be inverted one by one here; give 1 to 64")
    matrix = system.matrix
    blocks = -(-system.size // block)
    dense = np.zeros((blocks, block, block))
    rows = np.repeat(np.arange(system.size), matrix.lengths)
    inside = rows // block == matrix.indices // block
    rows, columns = rows[inside], matrix.indices[inside]
    dense[rows // block, rows % block, columns % block] = matrix.given_values()[inside]
    beyond = np.arange(system.size, blocks * block)
    dense[beyond // block, beyond % block, beyond % block] = 1.0
    return dense


def _inverses(blocks: Floats) -> tuple[Floats, Floats]:
    """Return the inverses of blocks, in their shape, and the condition numbers."""
    try:
        inverses = np.asarray(np.linalg.inv(blocks), np.float64)
    except np.linalg.LinAlgError:
        raise InputError(_SINGULAR) from None
    conditions = np.abs(blocks).sum(axis=1).max(axis=1) * np.abs(inverses).sum(axis=1).max(axis=1)
    if not np.isfinite(conditions).all():
        raise InputError(_SINGULAR)
    return inverses, np.asarray(conditions, np.float64)


class Given(Preconditioner):
    """A user's callable, which gets a residual as an array of float64 and returns real numbers of the same shape."""

    def __init__(self, function: Callable[[Any], Any], operator: LinearOperator) -> None:
        self._function, self._operator = function, operator
        self.name = f"own preconditioner {getattr(function, '__name__', type(function).__name__)}"

    def apply(self, r: Any) -> Any:
        """Return what the callable returns, in float64."""
        found = self._function(r)
        if getattr(found, "shape", None) != r.shape:
            raise InputError(
                f"the preconditioner returned {type(found).__name__} of shape {getattr(found, 'shape', None)}; it must "
                f"return an array of shape {r.shape}"
            )
        kind = getattr(getattr(found, "dtype", None), "kind", None)
        if kind not in _REAL or isinstance(found, np.ma.MaskedArray):
            what = "masked values" if isinstance(found, np.ma.MaskedArray) else f"values of type {found.dtype}"
            raise InputError(f"the preconditioner returned {what}; it must return real numbers, such as float64")
        return self._operator.convert(found, None)


class Noted(Preconditioner):
    """Another preconditioner, given to a user's method; ``was_used`` says whether the method has applied it."""

    def __init__(self, other: Preconditioner) -> None:
        self._other, self.was_used = other, False
        self.name, self.storage, self.nbytes, self.least = other.name, other.storage, other.nbytes, other.least

    @property
    def weights(self) -> Any | None:  # type: ignore[override]
        """The diagonal of the other one, which methods read to apply it themselves."""
        self.was_used = True
        return self._other.weights

    def apply(self, r: Any) -> Any:
        """Return M r of the other one."""
        self.was_used = True
        return self._other.apply(r)
