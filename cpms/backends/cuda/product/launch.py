"""Launchers of products and of operations on blocks of vectors: they pack arguments, nothing more."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.product import vector_combine, vector_dots, vector_update
from cpms.backends.cuda.kernels.structs import BLOCK_VECTORS, VECTOR_BLOCK
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import filled
from cpms.base.types import Floats
from cpms.contracts.product_request import Compute
from cpms.formats.codes import VectorFormat

OF_BLOCKS = ("blocks", "long_rows", "first_parts", "parts", "ended", "first_even")
"""Fields of blocks of rows in CSR."""
_REALS: dict[Any, Compute] = {np.dtype(np.float64): "fp64", np.dtype(np.float32): "fp32"}


def real(array: Any) -> Compute:
    """Return the name of an array's type."""
    return _REALS[np.dtype(array.dtype)]


def product(variant: Variant, blocks: int, packed: Any) -> None:
    """Launch a product."""
    current().run(variant, blocks, (packed[()],))


class BlockArgument:
    """Up to sixteen vectors of one format and level as kernels take them, to which vectors are added.

    A launch reads the argument before it returns, so that one serves for all launches.
    """

    def __init__(self, storage: VectorFormat, read: int) -> None:
        self.storage, self.read, self.count = storage, read, 0
        self._factors = np.zeros(BLOCK_VECTORS)
        self._packed = filled(VECTOR_BLOCK)
        self._fields = {name: self._packed[name] for name in VECTOR_BLOCK.dtype.names or ()}
        self._variants: dict[tuple[bool, Compute], Variant] = {}

    def add(self, memory: Any, factor: float) -> None:
        """Add a vector; the places behind it repeat it."""
        self._fields["vector"][self.count :] = current().address(memory)
        self._factors[self.count] = factor
        self.count += 1

    def dots(self, w: Any, sums: Any) -> None:
        """Write the sums of blocks of the dot products of the vectors with ``w``, shape (blocks, 16)."""
        self._fields["factor"][...] = self._factors
        self._fields["sums"][...] = current().address(sums)
        self._run(w, len(sums), sums=True)

    def combine(self, coefficients: Floats, w: Any) -> None:
        """Add a linear combination of the vectors to ``w``."""
        np.multiply(self._factors[: self.count], coefficients, out=self._fields["factor"][: self.count])
        self._run(w, current().grid_size(len(w), each=4), sums=False)

    def _run(self, w: Any, blocks: int, *, sums: bool) -> None:
        backend, key = current(), (sums, real(w))
        if key not in self._variants:
            self._variants[key] = (vector_dots if sums else vector_combine)(self.storage, self.read, key[1])
        self._fields["w"][...], self._fields["length"][...] = backend.address(w), len(w)
        backend.run(self._variants[key], blocks, (self._packed[()],))


def update(y: Any, alpha: float, x: Any) -> tuple[float, float, float]:
    """Do ``y += alpha x``; return the sum of sizes, of squares, and the largest size."""
    backend = current()
    blocks = backend.grid_size(len(y), each=4)
    sums = backend.arrays.empty(3 * blocks, np.float64)
    given = (y, np.float64(alpha), x, np.uint64(len(y)), sums)
    backend.run(vector_update(real(y), real(x)), blocks, given)
    sizes, squares, largest = backend.to_host(sums).reshape(blocks, 3).T
    return float(sizes.sum()), float(squares.sum()), float(largest.max())


def whole_blocks(threads: int) -> int:
    """Return how many blocks have so many threads."""
    return -(-threads // THREADS)
