"""Products with a matrix in main memory, in compiled loops on the processor's threads.

Rows are cut into parts of about equal cost. The cuts do not depend on the number of threads, so results do not either.
Each part decodes tiles of values into a buffer in a core's first cache and multiplies from there. A product costs one
read of the indices and of the segments asked for. A stored x is decoded first, which costs a pass over x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from cpms.backends.cpu import product_loops, slice_loops
from cpms.backends.cpu.krylov.cg import CpuCg
from cpms.backends.cpu.krylov.lane_matrix import LaneMatrix
from cpms.backends.cpu.krylov.stationary import CpuSweeps
from cpms.backends.cpu.load_balance import row_ranges
from cpms.backends.cpu.product_loops import ONES
from cpms.backends.cpu.stored_vectors import CpuVectors, kernel_spec, native, plain
from cpms.backends.products.arranged import ArrangedProduct
from cpms.base import threads
from cpms.base.real_arrays import inner_product
from cpms.contracts.conjugate_gradients import CgIterations
from cpms.contracts.linear_operator import Terms
from cpms.contracts.own_codecs import codec_refusal, has_own_codec
from cpms.contracts.product_request import ProductRequest
from cpms.contracts.sweeps import Sweeps
from cpms.formats.formats import FP32
from cpms.sparse.arrangement import ELL_ROWS, OWN, SLICE_ROWS, Arrangement, arranged
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import StoredValues, row_exponents, stored_values
from cpms.storage.array import SegmentedArray
from cpms.storage.block_float import STORED
from cpms.storage.codecs import decode_range

_PART_COST = 100_000
"""Least cost of a part, in entries; a row costs four."""
_MOST_PARTS = 64
_TILE = 1 << 15
"""Values that are decoded at a time where a format brings its codec: 256 KiB of float64."""
_REAL = {"fp64": np.zeros(0, np.float64), "fp32": np.zeros(0, np.float32)}
_NO_VALUES, _NO_ORDER, _NO_VECTOR = np.zeros(0), np.zeros(0, np.uint32), np.zeros(0)
_NO_EXPONENTS = np.zeros(0, np.int16)


@dataclass(frozen=True, eq=False)
class CpuProduct(ArrangedProduct, CpuVectors):
    """A matrix in a layout in main memory.

    Examples
    --------
    >>> from cpms.formats.formats import FP64
    >>> a = Matrix.from_triplets([0, 1, 1], [1, 0, 1], [2.0, -1.0, 3.0])
    >>> y = np.empty(2)
    >>> CpuProduct.of(a, ProductRequest(FP64)).apply(np.array([1.0, 10.0]), y)
    >>> y.tolist()
    [20.0, 29.0]
    """

    request: ProductRequest
    arrangement: Arrangement
    values: StoredValues | None
    row_exponents: Any

    @classmethod
    def of(cls, matrix: Matrix, request: ProductRequest) -> CpuProduct:
        """Bring a matrix into the requested layout and its values into the requested format."""
        arrangement, storage = arranged(matrix, request.layout, request.indices), request.storage
        if storage is None:
            return cls(request, arrangement, None, _NO_EXPONENTS)
        exponents = row_exponents(matrix, storage) if request.scaling == "rows" else None
        values = stored_values(arrangement, storage, exponents)
        return cls(request, arrangement, values, _NO_EXPONENTS if exponents is None else exponents)

    @property
    def index_bytes(self) -> int:
        """Bytes of the layout's indices, and of the exponents of scaled rows."""
        return self.arrangement.index_bytes + int(self.row_exponents.nbytes)

    @staticmethod
    def refusal(request: ProductRequest) -> str | None:
        """Return a sentence that says why products of this kind cannot be prepared here; None if they can."""
        if request.indices == "compressed":
            return (
                "engine cpu has indices of 32 or 64 bits; compressed ones cost it more time than their bytes save; use "
                "cuda"
            )
        return codec_refusal("cpu", "numba", request.storage) or request.refusal()

    def least_exponent(self) -> int | None:
        """Return the least exponent of scaled rows; None if rows are not scaled."""
        return int(self.row_exponents.min()) if len(self.row_exponents) else None

    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Multiply; a stored ``x`` is decoded before, a stored ``out`` is written after."""
        alpha, beta, read_matrix, read_x, write, extra = terms
        given = np.ascontiguousarray(plain(x, read_x), dtype=np.float32 if self.request.compute == "fp32" else None)
        target = plain(out) if isinstance(out, STORED) else out
        spec = ((ONES, 0, 0, 0), (1,)) if self.values is None else kernel_spec(self.values.format, read_matrix)
        decoded = self.values is not None and has_own_codec(self.values.format)
        factor = alpha if self.values is None or decoded else alpha * 2.0**-self.values.exponent
        if given.ndim == 2:
            self._multiply_block(given, target, factor, beta, spec, read_matrix)
            return None
        add, dot = (_NO_VECTOR if vector is None else vector for vector in (extra.add, extra.dot))
        scalars = factor, float(beta), float(extra.factor)
        finish = scalars, self.row_exponents, add, dot
        if decoded and self.arrangement.layout == "csr":
            found = self._multiply_decoded(given, target, finish, read_matrix)
        else:
            found = self._multiply(given, target, finish, spec, read_matrix)
        if isinstance(out, STORED):
            out.write(target, segments=write)
            found = inner_product(out.decode(write), dot) if len(dot) else 0.0
        return found if len(dot) else None

    def _multiply_decoded(self, x: Any, out: Any, finish: tuple[Any, ...], read: int | None) -> float:
        """Multiply range by range of rows, whose values the format's own codec decodes into a core's second cache."""
        layout, real, stored = self.arrangement, _REAL[self.request.compute], self.values
        assert isinstance(stored, SegmentedArray)  # noqa: S101  # As formats of the protocol are.
        kernel = product_loops.csr_kernel(*product_loops.PLAIN)
        scalars, exponents, add, dot = finish

        def product(rows: tuple[int, int]) -> float:
            low, high = rows
            begin, end = int(layout.starts[low]), int(layout.starts[high])
            values = decode_range(stored.memory, stored.format, stored.length, read, stored.exponent, begin, end)
            starts = layout.starts[low : high + 1] - layout.starts[low]
            own = (part[low:high] if len(part) else part for part in (exponents, add, dot))
            here = starts, layout.columns[begin:end], values, x, out[low:high], scalars, *own, real, 0, high - low
            return float(kernel(*here))

        return float(sum(threads.each(product, self._tiles)))

    @cached_property
    def _tiles(self) -> list[tuple[int, int]]:
        """Ranges of rows of about `_TILE` entries."""
        starts = self.arrangement.starts
        most = max(1, int(starts[-1]) // _TILE + 1)
        bounds, _ = row_ranges(starts, row_cost=1, least=_TILE, most=most)
        return list(pairwise(bounds.tolist()))

    def conjugate_gradients(self, task: Any, x: Any) -> CgIterations | None:
        """Return iterations in one compiled call; None for tasks and matrices that the loops do not have."""
        matrix = self._lane_matrix if CpuCg.fits(task) and x.flags.c_contiguous else None
        return None if matrix is None else CpuCg(self, matrix, task, x)

    def sweeps(self, task: Any, inverse_diagonal: Any, r: Any, c: Any) -> Sweeps | None:
        """Return sweeps in one compiled call; None if steps are not plain, or the loops do not have the matrix."""
        matrix = self._lane_matrix if task.formats[0] in (None, FP32) else None
        return None if matrix is None else CpuSweeps(matrix, task, inverse_diagonal, r, c)

    @cached_property
    def _lane_matrix(self) -> LaneMatrix | None:
        return None if len(self.row_exponents) else LaneMatrix.of(self.arrangement, self.values, self.bytes_read())

    def _multiply(self, x: Any, out: Any, finish: tuple[Any, ...], spec: tuple[Any, Any], read: int | None) -> float:
        layout, real = self.arrangement, _REAL[self.request.compute]
        if layout.slice_rows:
            kernel, given = product_loops.slices_kernel(*spec), self._slices(read)
            if layout.slice_rows == SLICE_ROWS and slice_loops.decodes(*spec):
                kernel, given = slice_loops.slices_kernel(*spec), (*given[:4], layout.matrix.rows)
            arguments = (*given, x, out, *finish, real)
        elif layout.row_numbers is not None:
            kernel = product_loops.coo_kernel(*spec)
            arguments = (layout.row_numbers, layout.columns, self._values(read), x, out, *finish, real)
            starts, rows = layout.starts, layout.rows
            cuts = [(int(starts[low]), int(starts[high]), low, high) for low, high in self._parts]
            if rows is not None:
                cuts = [(begin, end, int(rows[low]), int(rows[high])) for begin, end, low, high in cuts]
            return float(sum(threads.each(lambda part: kernel(*arguments, *part), cuts)))
        else:
            kernel = product_loops.csr_kernel(*spec)
            arguments = (layout.starts, layout.columns, self._values(read), x, out, *finish, real)
        return float(sum(threads.each(lambda part: kernel(*arguments, *part), self._parts)))

    def _multiply_block(
        self, x: Any, out: Any, alpha: float, beta: float, spec: tuple[Any, Any], read: int | None
    ) -> None:
        layout = self.arrangement
        if layout.layout == OWN:
            finish = (alpha, beta, 1.0), self.row_exponents, _NO_VECTOR, _NO_VECTOR
            for j in range(x.shape[1]):
                column = np.ascontiguousarray(out[:, j])
                self._multiply(np.ascontiguousarray(x[:, j]), column, finish, spec, read)
                out[:, j] = column
            return
        if layout.slice_rows:
            kernel, first = product_loops.slices_of_block_kernel(*spec), self._slices(read)
        else:
            kernel = product_loops.rows_of_block_kernel(*spec)
            first = (layout.starts, layout.columns, self._values(read))
        arguments = (*first, x, out, float(alpha), float(beta), self.row_exponents, _REAL[self.request.compute])
        threads.each(lambda part: kernel(*arguments, *part), self._parts)

    def _values(self, read: int | None) -> Any:
        return _NO_VALUES if self.values is None else native(self.values, read)

    def _slices(self, read: int | None) -> tuple[Any, ...]:
        layout = self.arrangement
        order = _NO_ORDER if layout.order is None else layout.order
        sizes = layout.slice_rows, self._block, layout.matrix.rows
        return layout.starts, layout.columns, self._values(read), order, *sizes

    @property
    def _block(self) -> int:
        slice_rows = self.arrangement.slice_rows
        return SLICE_ROWS if slice_rows % ELL_ROWS else ELL_ROWS

    @cached_property
    def _parts(self) -> list[tuple[int, int]]:
        """Parts of about equal cost: ranges of rows, of places in slices, or of an own layout's ranges of rows."""
        layout = self.arrangement
        starts, block = layout.starts, 1
        if layout.slice_rows:
            block = self._block
            places = np.arange(0, (len(starts) - 1) * layout.slice_rows + 1, block)
            slots = np.diff(starts.astype(np.int64))[(places[:-1] // layout.slice_rows)] // (layout.slice_rows // block)
            starts = np.concatenate([[0], np.cumsum(slots)])
        bounds, _ = row_ranges(starts, row_cost=4 * block, least=_PART_COST, most=_MOST_PARTS)
        return list(pairwise((bounds * block).tolist()))
