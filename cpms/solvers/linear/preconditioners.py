"""Preconditioners that are no solvers: block Jacobi's, and a user's callable.

A preconditioner only steers the directions of a method, so few bits serve it: each inverse of a diagonal block is
stored in the precision that its condition number allows (Anzt et al., "Adaptive precision in block-Jacobi
preconditioning", Concurrency and Computation 31, 2019). All preconditioners are linear and the same in every call, as
conjugate gradients need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner
from cpms.problems.linear_system import LinearSystem

_BLOCK_TYPES = ((np.float16, 2.0**-11, 2.0**-14, 60000.0), (np.float32, 2.0**-24, 2.0**-126, 1e38))
"""Types of stored inverses below float64, with their unit roundoff, and between what the largest value must lie."""
_BLOCK_ERROR = 0.1
"""The largest product of a block's condition number and the unit roundoff of its inverse."""
_REAL = tuple("fiu")
"""Kinds of the values that a user's preconditioner may return."""
_SINGULAR = (
    "a diagonal block is singular, or nearly so; use another size of block or another preconditioner, or scale A"
)


class BlockJacobi(Preconditioner):
    """Multiplies by the inverses of diagonal blocks, each stored in as few bits as its condition number allows.

    Parameters
    ----------
    system : LinearSystem
    operator : LinearOperator
    block : int
        Rows of a block; the last one may have fewer.

    Attributes
    ----------
    blocks_by_bits : dict
        How many blocks are stored in values of so many bits.
    """

    name = "block_jacobi"

    def __init__(self, system: LinearSystem, operator: LinearOperator, block: int = 8) -> None:
        inverses, conditions = _inverses(system, block)
        self._size, self._block = system.size, block
        self._groups: list[tuple[Any, Any]] = []
        self.blocks_by_bits: dict[int, int] = {}
        waiting = np.ones(len(inverses), bool)
        largest = np.abs(inverses).max(axis=(1, 2))
        for dtype, unit, least, most in (*_BLOCK_TYPES, (np.float64, 0.0, 0.0, np.inf)):
            fits = (conditions * unit <= _BLOCK_ERROR) & (largest >= least) & (largest < most)
            mine = np.flatnonzero(waiting & fits)
            waiting[mine] = False
            if len(mine):
                held = inverses[mine].astype(dtype)
                self._groups.append((operator.upload(mine), operator.upload(held)))
                self.blocks_by_bits[8 * held.itemsize] = len(mine)
                self.nbytes += held.nbytes
        self.storage = ", ".join(f"fp{bits}" for bits in self.blocks_by_bits)
        # Row sums bound the eigenvalues of symmetric blocks; the last block is filled up with ones.
        self.least = 1.0 / float(np.abs(inverses).sum(axis=2).reshape(-1)[: system.size].max())

    def apply(self, r: Any) -> Any:
        """Multiply block by block."""
        blocks = -(-self._size // self._block)
        wide = self._groups[0][1].__class__((blocks * self._block,), dtype=r.dtype)
        wide[...] = 0.0
        wide[: self._size] = r
        given = wide.reshape(blocks, self._block)
        found = given * 0.0
        for places, inverses in self._groups:
            found[places] = (inverses * given[places][:, None, :]).sum(axis=2)
        return found.reshape(-1)[: self._size].copy()


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
    """A user's callable, which gets a residual as an array of float64 and returns one."""

    def __init__(self, function: Callable[[Any], Any], operator: LinearOperator) -> None:
        self._function, self._operator = function, operator
        self.name = f"own preconditioner {getattr(function, '__name__', type(function).__name__)}"

    def apply(self, r: Any) -> Any:
        """Call it."""
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
