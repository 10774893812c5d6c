"""Products with a matrix that is split by magnitude: the sum of its parts' products, by any backend.

Each part is prepared by the backend as a matrix of its own format. Sums of parts are float64 until the last one writes
the result. A product reads x once a part and the result twice for each part but the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cpms.contracts.linear_operator import Bound, Epilogue, LinearOperator, Terms, product_bound
from cpms.contracts.product_request import ProductRequest
from cpms.sparse.magnitude import split_by_magnitude
from cpms.sparse.matrix import Matrix


def _by_a_part(verb: str) -> Any:
    """Return a verb on vectors, which is that of any part."""
    return property(lambda split: getattr(split.parts[0], verb))


@dataclass(frozen=True, eq=False)
class SplitProduct(LinearOperator):
    """A matrix as the sum of operators of one backend.

    Parameters
    ----------
    request : ProductRequest
        With a split.
    source : Matrix
    parts : list of LinearOperator
    entries : list of int
        Of each part.
    error : float
        The largest error of an entry.
    """

    request: ProductRequest
    source: Matrix
    parts: list[LinearOperator]
    entries: list[int]
    error: float

    @classmethod
    def of(
        cls, matrix: Matrix, request: ProductRequest, prepare: Callable[[Matrix, ProductRequest], LinearOperator]
    ) -> SplitProduct:
        """Split a matrix and prepare each part."""
        assert request.split is not None  # noqa: S101  # Callers look.
        found = split_by_magnitude(matrix, request.split)
        parts = [prepare(part, replace(request, storage=storage, split=None)) for storage, part in found.parts]
        return cls(request, matrix, parts, [part.entries for _, part in found.parts], found.error)

    @property
    def memory(self) -> Any:  # type: ignore[override]
        """Memory of the vectors: main or device."""
        return self.parts[0].memory

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        return self.source.shape

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)

    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes of all parts."""
        self._check(read)
        return sum(part.bytes_read() for part in self.parts)

    def bound(self, read_matrix: int | None) -> Bound:
        """Return the bound of the longest row, whose sum has an addition or two more for each part."""
        self._check(read_matrix)
        additions = self.source.longest + 2 * len(self.parts)
        return product_bound(Bound(0.0, self.error), self.request.compute, additions)

    @cached_property
    def transposed(self) -> SplitProduct:
        """The sum of the transposed parts."""
        return replace(self, source=self.source.transposed(), parts=[part.transposed for part in self.parts])

    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Add up the products of all parts."""
        alpha, beta, read_matrix, read_x, write, extra = terms
        self._check(read_matrix)
        options: dict[str, Any] = {"alpha": alpha, "read_x": read_x}
        *others, last = self.parts
        if not others:
            return last.apply(x, out, **options, beta=beta, write=write, epilogue=extra)
        total = self.empty(out.shape if getattr(x, "ndim", 1) == 2 else (len(out),), np.float64)
        if getattr(x, "ndim", 1) == 2:
            if beta:
                total[...] = out
            for part, of_total in zip(self.parts, [beta, *[1.0] * len(others)], strict=True):
                part.apply(x, total, **options, beta=of_total)
            out[...] = total
            return None
        for part, of_total in zip(others, [0.0, *[1.0] * (len(others) - 1)], strict=True):
            part.apply(x, total, **options, beta=of_total)
        if extra.add is not None:
            self.combine([extra.add], [extra.factor], total)
        return last.apply(x, out, **options, beta=beta, write=write, epilogue=Epilogue(total, 1.0, extra.dot))

    @property
    def mean_bits(self) -> float:
        """Bits of a value in the mean over all entries, of which some may be left out."""
        formats = [part.request.storage for part in self.parts]
        bits = sum(each.bits() * count for each, count in zip(formats, self.entries, strict=True) if each is not None)
        return bits / max(self.source.entries, 1)

    def _check(self, read: int | None) -> None:
        assert self.request.split is not None  # noqa: S101  # See `of`.
        self.request.split.checked_read(read)

    empty = _by_a_part("empty")
    to_memory = _by_a_part("to_memory")
    to_host = _by_a_part("to_host")
    block = _by_a_part("block")
    dots = _by_a_part("dots")
    combine = _by_a_part("combine")
    update_and_norms = _by_a_part("update_and_norms")
    multiply = _by_a_part("multiply")
    scale = _by_a_part("scale")
    convert = _by_a_part("convert")
    upload = _by_a_part("upload")
