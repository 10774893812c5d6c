"""Kernel templates of products with any matrix, and of operations on blocks of stored vectors."""

from __future__ import annotations

from dataclasses import dataclass

from cpms.backends.cuda.kernels.template import Variant, storage_type
from cpms.contracts.product_request import Compute
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import CodeFormat, ValueFormat, VectorFormat
from cpms.formats.formats import FP64, FloatFormat, SegmentFormat

_REALS = {"fp64": "double", "fp32": "float"}
VECTORS_AT_ONCE = (8, 4, 2)
"""Vectors of a block that a product takes at a time; what is left is a vector alone."""
WIDEST = 64
"""Most columns of slices whose width is a constant of the kernel."""
BLOCK_ENTRIES, BLOCK_ROWS = 1024, 2048
"""Most entries and most rows of a block of rows in CSR."""
_ENTRIES_A_BLOCK_LENGTH, _MOST_BLOCK_LENGTHS = 2**22, 8
"""A part of a long row is longer by a block's entries for so many entries of the matrix, up to so many times."""
_RUN_BYTES = 32
"""Bytes of values that a thread loads of a group, at most."""
THREADS_A_ROW = (1, 2, 4, 8, 16, 32)
"""Threads of a row in CSR in a product with a block of vectors."""


def type_of(storage: ValueFormat | None) -> tuple[str, str]:
    """Return a short name of a format and its C++ type; of None, a pattern."""
    if storage is None:
        return "ones", "cpms::Ones"
    if isinstance(storage, CodeFormat):
        return storage.name, "cpms::Codes8"
    if isinstance(storage, BlockFloatFormat):
        return f"bfp{storage.width}", f"cpms::BlockFloat<{storage.width}>"
    return storage_type(storage, whole=False)


def part_entries(entries: int) -> int:
    """Return most entries of a part of a long row, for a matrix in CSR.

    A part is as long as a block where a device has few blocks, and would wait for a longer one. Where there are many,
    parts are up to eight times as long, since each part costs a write that others must see.

    Examples
    --------
    >>> part_entries(10**6), part_entries(10**7), part_entries(10**9)
    (1024, 2048, 8192)
    """
    return BLOCK_ENTRIES * min(max(entries // _ENTRIES_A_BLOCK_LENGTH, 1), _MOST_BLOCK_LENGTHS)


def column_group(values: ValueFormat | None, offset_bits: int) -> int:
    """Return how many columns of SELL a group has, by the bytes of a value; 1 where groups do not pay.

    Examples
    --------
    >>> column_group(FP64, 0), column_group(FP64, 8), column_group(None, 8)
    (1, 4, 1)
    """
    if isinstance(values, CodeFormat):
        return 8
    if not isinstance(values, FloatFormat | SegmentFormat) or values.segments > 1:
        return 1
    size = values.bytes_read()
    return 1 if size == 8 and offset_bits == 0 else min(8, _RUN_BYTES // size)


@dataclass(frozen=True)
class ProductSpec:
    """Formats and types of a product.

    Parameters
    ----------
    values : format or None
        Of the matrix; None for a pattern.
    read : int
        Segments of values, of which a product reads so many.
    x : format
        Of the vector: fp64 and fp32 where it is a plain array.
    read_x : int
        Segments of the vector.
    compute : {"fp64", "fp32"}
        Type of products and sums.
    index_bits : {32, 64}
        Of starts, row numbers, and columns as they are.
    out : {"fp64", "fp32"}
        Type of the result.
    vectors : int
        Of a block, multiplied at a time.
    offset_bits : {0, 8, 16}
        Of compressed columns, in SELL; 0 where columns are stored as they are.
    group : {1, 2, 4, 8}
        Columns of a slice in SELL whose entries of a row lie side by side.
    far : bool
        Whether some slices have their columns in full.
    """

    values: ValueFormat | None = FP64
    read: int = 1
    x: VectorFormat = FP64
    read_x: int = 1
    compute: Compute = "fp64"
    index_bits: int = 32
    out: Compute = "fp64"
    vectors: int = 1
    offset_bits: int = 0
    group: int = 1
    far: bool = False

    def _values(self) -> tuple[list[str], list[str]]:
        name, cpp = type_of(self.values)
        x_name, x_cpp = type_of(self.x)
        names = [name, f"{self.read}", x_name, f"{self.read_x}", self.compute, f"i{self.index_bits}"]
        index = {32: "cpms::u32", 64: "cpms::u64"}[self.index_bits]
        return names, [cpp, f"{self.read}", x_cpp, f"{self.read_x}", _REALS[self.compute], index]

    def slices(self, width: int, *, ell: bool) -> Variant:
        """Return the product in SELL or ELL; ``width`` is that of all slices, 0 where they differ.

        Examples
        --------
        >>> ProductSpec().slices(7, ell=False).symbol
        'product_slices__sell_7__w64_b0_zero_ragged__1__w64_b0_zero_ragged__1__fp64__i32__fp64__1'
        """
        names, cpp = self._values()
        layout = "ell" if ell else f"sell_o{self.offset_bits}" if self.offset_bits else "sell"
        layout += f"_g{self.group}" if self.group > 1 else ""
        layout += "_far" if self.far else ""
        far = "true" if self.far else "false"
        first = [f"{layout}_{width}"], ["0" if ell else "32", f"{width}", f"{self.offset_bits}", far, f"{self.group}"]
        return self._made("product_slices", *first, names, cpp)

    def rows(self, threads: int) -> Variant:
        """Return the product of a block of vectors in CSR with so many threads a row."""
        return self._made("product_rows", [f"{threads}"], [f"{threads}"], *self._values())

    def row_blocks(self) -> Variant:
        """Return the product of a vector in CSR."""
        names, cpp = self._values()
        return Variant("product_row_blocks", (*names, self.out), (*cpp, _REALS[self.out]))

    def _made(self, kernel: str, names: list[str], cpp: list[str], more: list[str], more_cpp: list[str]) -> Variant:
        last = self.out, f"{self.vectors}"
        return Variant(kernel, (*names, *more, *last), (*cpp, *more_cpp, _REALS[self.out], f"{self.vectors}"))


def vector_dots(storage: VectorFormat, read: int, w: Compute) -> Variant:
    """Return dot products of vectors of one format and level with a vector of float64 or float32."""
    name, cpp = type_of(storage)
    return Variant("vector_dots", (name, f"{read}", w), (cpp, f"{read}", _REALS[w]))


def vector_combine(storage: VectorFormat, read: int, w: Compute) -> Variant:
    """Return the addition of a linear combination of such vectors."""
    name, cpp = type_of(storage)
    return Variant("vector_combine", (name, f"{read}", w), (cpp, f"{read}", _REALS[w]))


def vector_update(y: Compute, x: Compute) -> Variant:
    """Return the addition of a multiple of a vector, with norms.

    Examples
    --------
    >>> vector_update("fp64", "fp32").instance
    'CPMS_VECTOR_UPDATE(vector_update__fp64__fp32, double, float)'
    """
    return Variant("vector_update", (y, x), (_REALS[y], _REALS[x]))


def encode_blocks(storage: BlockFloatFormat) -> Variant:
    """Return the conversion of float64 to block floating point."""
    return Variant("encode_blocks", (f"bfp{storage.width}",), (f"{storage.width}",))


def decode_blocks(storage: BlockFloatFormat) -> Variant:
    """Return the conversion back."""
    return Variant("decode_blocks", (f"bfp{storage.width}",), (f"{storage.width}",))
