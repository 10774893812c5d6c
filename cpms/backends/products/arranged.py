"""Products with a matrix in a layout: the shape, bytes, transpose and error bound that backends share."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Self

from cpms.contracts.linear_operator import Bound, LinearOperator, array_error, product_bound, value_error
from cpms.contracts.product_request import ProductRequest
from cpms.sparse.arrangement import Arrangement
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import StoredValues


class ArrangedProduct(LinearOperator):
    """A matrix in a layout, with its values in a format, or without values for a pattern."""

    request: ProductRequest
    arrangement: Arrangement
    values: StoredValues | None

    @classmethod
    @abstractmethod
    def of(cls, matrix: Matrix, request: ProductRequest) -> Self:
        """Bring a matrix into a layout and its values into a format."""

    @property
    @abstractmethod
    def index_bytes(self) -> int:
        """Bytes of all that is stored beside values."""

    @abstractmethod
    def least_exponent(self) -> int | None:
        """Return the least exponent of scaled rows; None if rows are not scaled."""

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        return self.arrangement.matrix.shape

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of indices and values."""
        return self.index_bytes + (0 if self.values is None else self.values.nbytes)

    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes of indices, and of the segments that are read."""
        values = 0 if self.values is None else self.values.format.traffic(self.values.length, read)
        return self.index_bytes + values

    @cached_property
    def transposed(self) -> Self:
        """The transposed matrix in the same layout and format, built when it is first asked for."""
        return self.of(self.arrangement.matrix.transposed(), self.request)

    def bound(self, read_matrix: int | None) -> Bound:
        """Return the bound of the longest row."""
        of_matrix, exponent = array_error(self.values, read_matrix), self.least_exponent()
        if self.values is not None and exponent is not None:
            of_matrix = value_error(self.values.format, read_matrix, exponent)
        return product_bound(of_matrix, self.request.compute, self.arrangement.matrix.longest)
