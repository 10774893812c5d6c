"""Products with a matrix in device memory: CSR by blocks of rows, SELL and ELL by a thread a row.

The matrix is arranged in main memory and copied once. Values are decoded in registers while they are multiplied, so a
product reads the segments asked for and nothing else of them; `kernels/cuda/product` has the methods and their costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.krylov import arnoldi_fits, fits
from cpms.backends.cuda.kernels.product import (
    BLOCK_ENTRIES,
    BLOCK_ROWS,
    THREADS_A_ROW,
    VECTORS_AT_ONCE,
    WIDEST,
    ProductSpec,
    column_group,
    part_entries,
)
from cpms.backends.cuda.kernels.structs import PRODUCT
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.krylov.arnoldi import MOST_STEPS, CudaArnoldi
from cpms.backends.cuda.krylov.cg import CudaCg
from cpms.backends.cuda.krylov.pattern_matrix import PatternMatrix
from cpms.backends.cuda.krylov.sweeps import CudaSweeps
from cpms.backends.cuda.product import launch
from cpms.backends.cuda.product.column_groups import GroupedArrangement, four_bases, grouped_indices
from cpms.backends.cuda.product.device_vectors import CudaVectors, as_stored, overwrite, plain
from cpms.backends.cuda.product.launch import whole_blocks
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import filled
from cpms.backends.products.arranged import ArrangedProduct
from cpms.contracts.arnoldi import ArnoldiSteps
from cpms.contracts.conjugate_gradients import CgIterations
from cpms.contracts.linear_operator import NO_EPILOGUE, Epilogue, Terms
from cpms.contracts.own_codecs import codec_refusal
from cpms.contracts.product_request import Compute, ProductRequest
from cpms.contracts.sweeps import Sweeps
from cpms.formats.codes import VectorFormat
from cpms.sparse.arrangement import Arrangement, arranged
from cpms.sparse.compressed_indices import CompressedIndices, compressed, worth_compressing
from cpms.sparse.matrix import Matrix
from cpms.sparse.row_blocks import row_blocks
from cpms.sparse.stored_values import StoredValues, row_exponents, stored_values
from cpms.storage.block_float import STORED

_LAYOUTS = ("csr", "ell", "sell")


@dataclass(frozen=True, eq=False)
class BlocksOnDevice:
    """`cpms.sparse.row_blocks.RowBlocks` in device memory, with sums of parts of long rows, and counters of parts."""

    blocks: Any
    long_rows: Any
    first_parts: Any
    parts: Any
    ended: Any
    count: int
    first_even: int


@dataclass(frozen=True, eq=False)
class CudaProduct(ArrangedProduct, CudaVectors):
    """A matrix in a layout in device memory.

    ``starts``, ``columns`` and ``order`` are those of the arrangement, on the device.
    """

    request: ProductRequest
    arrangement: Arrangement
    values: StoredValues | None
    row_exponents: Any | None
    starts: Any
    columns: Any
    order: Any | None
    row_blocks: BlocksOnDevice | None
    compressed: CompressedIndices | None
    """Compressed indices on the device; ``columns`` is empty then. In slices of one width bases are padded to fours."""
    width: int
    """Columns of all slices, where that is one number for which loops are unrolled; else 0."""

    @classmethod
    def of(cls, matrix: Matrix, request: ProductRequest) -> CudaProduct:
        """Bring a matrix into a layout, its values into a format, and both to the device."""
        storage, indices = request.storage, request.indices
        arrangement = arranged(matrix, request.layout, "32" if indices == "compressed" else indices)
        smaller = _compressed(arrangement, indices)
        width = _same_width(arrangement)
        if arrangement.layout == "sell" and arrangement.columns.dtype == np.uint32:
            group = column_group(storage, 0 if smaller is None else smaller.offset_bits)
            smaller = None if smaller is None else grouped_indices(smaller, arrangement.starts, group)
            arrangement = GroupedArrangement.of(arrangement, group)
        backend = current()
        with backend.memory_for(f"the matrix of shape {matrix.shape}", arrangement.index_bytes + 8 * arrangement.slots):
            values = of_rows = None
            if storage is not None:
                exponents = row_exponents(matrix, storage) if request.scaling == "rows" else None
                held = stored_values(arrangement, storage, exponents)
                of_rows = None if exponents is None else backend.upload(exponents)
                values = replace(held, memory=backend.upload(held.memory))
            order = None if arrangement.order is None else backend.upload(arrangement.order)
            columns = backend.upload(arrangement.columns if smaller is None else arrangement.columns[:0])
            if smaller is not None:
                far = None if smaller.far is None else backend.upload(smaller.far)
                bases = four_bases(smaller.bases, width) if width else smaller.bases
                bases, offsets = backend.upload(bases), backend.upload(smaller.offsets)
                smaller = CompressedIndices(bases, offsets, far, backend.upload(smaller.far_columns))
            starts, blocks = backend.upload(arrangement.starts), _row_blocks(arrangement)
            return cls(request, arrangement, values, of_rows, starts, columns, order, blocks, smaller, width)

    @property
    def index_bytes(self) -> int:
        """Bytes of a layout's indices and all that finds rows."""
        saved = 0 if self.compressed is None else self.arrangement.columns.nbytes - self.compressed.nbytes
        exponents = 0 if self.row_exponents is None else int(self.row_exponents.nbytes)
        blocks = 0 if self.row_blocks is None else int(self.row_blocks.blocks.nbytes)
        return self.arrangement.index_bytes - saved + exponents + blocks

    @staticmethod
    def refusal(request: ProductRequest) -> str | None:
        """Return why products of this kind cannot be prepared here, as a sentence; None if they can."""
        if request.layout not in _LAYOUTS:
            return f"engine cuda has no layout {request.layout_name!r} for any matrix; it has {', '.join(_LAYOUTS)}"
        return codec_refusal("cuda", "cuda", request.storage) or request.refusal()

    def least_exponent(self) -> int | None:
        """Return the least exponent of scaled rows."""
        return None if self.row_exponents is None else int(current().to_host(self.row_exponents).min())

    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Multiply; a stored ``out`` is written after."""
        alpha, beta, read_matrix, read_x, write, extra = terms
        if not isinstance(x, STORED):
            x = current().arrays.ascontiguousarray(x)
            if x.ndim == 2:
                self._multiply_block(x, out, alpha, beta, read_matrix)
                return None
        target = plain(out) if isinstance(out, STORED) else out
        sums = self._multiply(x, target, alpha, beta, (read_matrix, read_x), extra)
        if isinstance(out, STORED):
            overwrite(out, target, write)
            if extra.dot is not None:
                return float(self.dots([out], extra.dot, [write])[0])
        return None if sums is None else float(sums.sum())

    def variant(self, x: Any, out: Any, read_matrix: int | None = None) -> Variant:
        """Return the kernel of a product with a vector, so that those of several products are compiled at once."""
        _, x_format, x_read, _ = as_stored(x, None)
        return self._variant(self._spec(read_matrix, x_format, x_read, launch.real(out)))

    def _variant(self, spec: ProductSpec) -> Variant:
        if self.row_blocks is not None:
            return spec.row_blocks()
        return spec.slices(self.width, ell=self.arrangement.layout == "ell")

    def conjugate_gradients(self, task: Any, x: Any) -> CgIterations | None:
        """Return iterations whose passes over vectors are fused, in formats that have kernels."""
        if not fits(task.formats[0]):
            return None
        return CudaCg(self, task, x, self.patterns if task.read is None else None)

    def sweeps(self, task: Any, inverse_diagonal: Any, r: Any, c: Any) -> Sweeps | None:
        """Return sweeps whose passes over vectors are fused, in formats that have kernels."""
        return CudaSweeps(self, task, inverse_diagonal, r, c) if fits(task.formats[0]) else None

    def arnoldi(self, task: Any, most: int) -> ArnoldiSteps | None:
        """Return steps that the host queues ahead, for cycles and formats that the kernels have."""
        return CudaArnoldi(self, task, most) if most <= MOST_STEPS and arnoldi_fits(task.formats) else None

    @cached_property
    def patterns(self) -> PatternMatrix | None:
        """The same matrix as few patterns of rows, found when it is first asked for; None if there are many."""
        if self.row_exponents is not None:
            return None
        return PatternMatrix.of(self.arrangement.matrix, self.request.storage)

    def computing(self, compute: Compute) -> CudaProduct:
        """Return products with the same matrix in memory in another precision, or these where they are refused."""
        request = replace(self.request, compute=compute)
        return self if self.refusal(request) is not None else replace(self, request=request)

    def _multiply(
        self, x: Any, out: Any, alpha: float, beta: float, levels: tuple[int | None, int | None], extra: Epilogue
    ) -> Any | None:
        variant, blocks, packed, sums = self._launch(x, out, alpha, beta, levels, extra)
        launch.product(variant, blocks, packed)
        return sums

    def prepared(self, x: Any, out: Any, read_matrix: int | None, read_x: int | None) -> tuple[Any, Callable[[], None]]:
        """Return a launch that does ``out = A x`` whenever it is called, behind its struct, whose ``x`` may change.

        Another ``x`` must have the same format.
        """
        variant, blocks, packed, _ = self._launch(x, out, 1.0, 0.0, (read_matrix, read_x), NO_EPILOGUE)
        return packed, current().launcher(variant, blocks, packed)

    def _launch(
        self, x: Any, out: Any, alpha: float, beta: float, levels: tuple[int | None, int | None], extra: Epilogue
    ) -> tuple[Variant, int, Any, Any | None]:
        """Return a kernel with its blocks and arguments, and the memory of the sums of dot products."""
        backend, cut = current(), self.row_blocks
        memory, x_format, x_read, to_real = as_stored(x, levels[1])
        spec = self._spec(levels[0], x_format, x_read, launch.real(out))
        blocks = whole_blocks(self.arrangement.matrix.rows) if cut is None else cut.count
        sums = None if extra.dot is None else backend.arrays.empty(blocks, np.float64)
        of_blocks = {} if cut is None else {name: getattr(cut, name) for name in launch.OF_BLOCKS}
        of_rows = {"add": extra.add, "dot": extra.dot, "sums": sums, "factor": float(extra.factor)}
        packed = self._packed(memory, out, alpha * to_real, beta, length=len(x), **of_rows, **of_blocks)
        return self._variant(spec), blocks, packed, sums

    def _multiply_block(self, x: Any, out: Any, alpha: float, beta: float, read: int | None) -> None:
        """Take as many vectors at a time as kernels are made for; a last one alone."""
        backend, layout = current(), self.arrangement
        at, left = 0, x.shape[1]
        while left > 1:
            count = next(size for size in VECTORS_AT_ONCE if size <= left)
            spec = self._spec(read, as_stored(x, None)[1], 1, launch.real(out), vectors=count)
            packed = self._packed(x, out, alpha, beta, stride=x.shape[1], length=x.size)
            packed["x"] += at * x.itemsize
            packed["out"] += at * out.itemsize
            if layout.slice_rows:
                blocks = whole_blocks(layout.matrix.rows)
                launch.product(spec.slices(0, ell=layout.layout == "ell"), blocks, packed)
            else:
                blocks = whole_blocks(layout.matrix.rows * self._threads)
                launch.product(spec.rows(self._threads), blocks, packed)
            at, left = at + count, left - count
        if left:
            alone = backend.arrays.ascontiguousarray(out[:, at])
            self._multiply(backend.arrays.ascontiguousarray(x[:, at]), alone, alpha, beta, (read, None), NO_EPILOGUE)
            out[:, at] = alone

    def _spec(self, read: int | None, x: VectorFormat, read_x: int, out: Compute, vectors: int = 1) -> ProductSpec:
        count = 1 if self.values is None else self.values.format.checked_read(read)
        bits = 8 * self.arrangement.columns.itemsize
        group = self.arrangement.group if isinstance(self.arrangement, GroupedArrangement) else 1
        spec = ProductSpec(
            self.request.storage, count, x, read_x, self.request.compute, bits, out, vectors, group=group
        )
        found = self.compressed
        return spec if found is None else replace(spec, offset_bits=found.offset_bits, far=found.far is not None)

    def _packed(self, x: Any, out: Any, alpha: float, beta: float, **more: Any) -> Any:
        """Return the arguments of ``out = alpha A x + beta out``, and more of them by their names."""
        layout, values = self.arrangement, self.values
        factor = alpha if values is None else alpha * 2.0**-values.exponent
        arrays = {
            "starts": self.starts,
            "columns": self.columns,
            "order": self.order,
            "exponents": self.row_exponents,
            "x": x,
            "out": out,
        }
        sizes = {"slots": layout.slots, "rows": layout.matrix.rows, "slice_rows": layout.slice_rows}
        held = None if values is None else values.memory
        if self.compressed is not None:
            arrays["columns"] = self.compressed.offsets
            held_apart = {"far": self.compressed.far, "far_columns": self.compressed.far_columns}
            arrays |= {"bases": self.compressed.bases, **held_apart}
            sizes["base_stride"] = -(-self.width // 4) * 4
        return filled(PRODUCT, **arrays, values=held, **sizes, alpha=factor, beta=float(beta), **more)

    @cached_property
    def _threads(self) -> int:
        """A power of two near half the mean row."""
        mean = self.arrangement.matrix.entries / self.arrangement.matrix.rows
        return next((threads for threads in THREADS_A_ROW if 2 * threads >= mean), THREADS_A_ROW[-1])


def _same_width(layout: Arrangement) -> int:
    """Return the columns of all slices, where that is one number for which loops are unrolled; else 0."""
    if not layout.slice_rows:
        return 0
    widths = np.unique(np.diff(layout.starts.astype(np.int64))) // layout.slice_rows
    return int(widths[0]) if len(widths) == 1 and widths[0] <= WIDEST else 0


def _compressed(arrangement: Arrangement, indices: str) -> CompressedIndices | None:
    """Return column numbers as bases and offsets, where they are asked for, or are left to choose and smaller."""
    may = arrangement.layout == "sell" and arrangement.columns.dtype == np.uint32
    if indices != "compressed" and not (indices == "auto" and may):
        return None
    found = compressed(arrangement)
    return found if indices == "compressed" or worth_compressing(arrangement, found) else None


def _row_blocks(arrangement: Arrangement) -> BlocksOnDevice | None:
    """Cut rows in CSR into blocks, on the device; None in other layouts."""
    if arrangement.slice_rows:
        return None
    backend = current()
    part = part_entries(int(arrangement.starts[-1]))
    cut = row_blocks(arrangement.starts, BLOCK_ENTRIES, BLOCK_ROWS, part)
    long_rows, first_parts = (backend.upload(array.astype(np.uint64)) for array in (cut.long_rows, cut.first_parts))
    blocks = backend.upload(cut.blocks.astype(arrangement.starts.dtype))
    parts = backend.arrays.empty(int(cut.first_parts[-1]), np.float64)
    ended = backend.arrays.zeros(len(cut.long_rows), np.uint32)
    return BlocksOnDevice(blocks, long_rows, first_parts, parts, ended, len(cut.blocks), cut.first_even)
