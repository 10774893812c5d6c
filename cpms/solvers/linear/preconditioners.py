"""Preconditioners that are not also solvers: block Jacobi, and a user's callable.

A preconditioner only steers the directions of a method, so it may be stored in few bits. Block Jacobi stores the
inverse of each diagonal block in the precision that the block's condition number allows (Anzt et al., "Adaptive
precision in block-Jacobi preconditioning", Concurrency and Computation 31, 2019). It is linear and the same in every
call, as conjugate gradients need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError, UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner
from cpms.formats.formats import FP16, FP32, FP64
from cpms.problems.linear_system import LinearSystem

_BLOCK_FORMATS = ((FP16, 2.0**-11, 2.0**-14, 60000.0), (FP32, 2.0**-24, 2.0**-126, 1e38), (FP64, 0.0, 0.0, np.inf))
"""Formats of stored inverses: each with its unit roundoff, and the range in which the largest value must lie."""
_BLOCK_ERROR = 0.1
"""Largest product of a block's condition number and the unit roundoff of its stored inverse."""
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

    Attributes
    ----------
    blocks_by_bits : dict of int to int
        Number of blocks by the bits in which each of their values is stored.
    """

    name = "block_jacobi"

    def __init__(self, system: LinearSystem, prepare: Callable[..., LinearOperator], block: int = 8) -> None:
        inverses, conditions = _inverses(system, block)
        self._products: list[LinearOperator] = []
        self.blocks_by_bits: dict[int, int] = {}
        waiting = np.ones(len(inverses), bool)
        largest = np.abs(inverses).max(axis=(1, 2))
        for storage, unit, least, most in _BLOCK_FORMATS:
            fits = waiting & (conditions * unit <= _BLOCK_ERROR) & (largest >= least) & (largest < most)
            if not fits.any():
                continue
            try:
                self._products.append(prepare(*_block_diagonal(inverses, fits, system.size), storage))
            except UnsupportedError:
                continue
            waiting &= ~fits
            self.blocks_by_bits[storage.bits()] = int(fits.sum())
        self.nbytes = sum(product.bytes_read() for product in self._products)
        self.storage = ", ".join(f"fp{bits}" for bits in self.blocks_by_bits)
        # A symmetric inverse has no eigenvalue above its largest row sum. Padding of the last block is left out.
        self.least = 1.0 / float(np.abs(inverses).sum(axis=2).reshape(-1)[: system.size].max())

    def apply(self, r: Any) -> Any:
        """Add up the products with the inverses of each format."""
        z = self._products[0].empty((len(r),), "float64")
        for place, product in enumerate(self._products):
            product.apply(r, z, beta=float(place > 0))
        return z


def _block_diagonal(inverses: Floats, chosen: npt.NDArray[Any], size: int) -> tuple[npt.NDArray[Any], ...]:
    """Return a matrix of some of the blocks, in compressed rows: row starts, columns and values."""
    block = inverses.shape[1]
    blocks, row, column = np.nonzero((inverses != 0.0) & chosen[:, None, None])
    rows, columns = blocks * block + row, blocks * block + column
    inside = rows < size
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[inside], minlength=size))])
    return starts, columns[inside], inverses[blocks, row, column][inside]


def _inverses(system: LinearSystem, block: int) -> tuple[Floats, Floats]:
    """Return the inverses of the diagonal blocks, shape (blocks, block, block), and their condition numbers."""
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
    try:
        inverses = np.asarray(np.linalg.inv(dense), np.float64)
    except np.linalg.LinAlgError:
        raise InputError(_SINGULAR) from None
    conditions = np.abs(dense).sum(axis=1).max(axis=1) * np.abs(inverses).sum(axis=1).max(axis=1)
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
