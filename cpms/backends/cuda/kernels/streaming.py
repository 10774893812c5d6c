"""Kernel templates of composed sweeps: sparse products, vector operations, conversions, top-k.

A composed sweep launches one kernel for each of these operations and keeps nothing on chip between them, so that each
is bound by the bytes it streams. Levels of reading and writing are template arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

from cpms.backends.cuda.kernels.template import (
    PADDED_CSR,
    Variant,
    _bool,
    _direction,
    _matrix,
    is_whole,
    storage_type,
)
from cpms.formats.formats import FP64, Format, SegmentFormat

BLOCKS, FEW_BLOCKS = 4, 3
"""Blocks of a load-balanced product that a multiprocessor holds at once."""

NARROW_BITS = 32
"""Bits of a vector's value up to which many warps gain more than a larger share of the first-level cache for few."""


def spmv(
    kernel: str,
    storage: Format,
    read: int,
    write: int,
    *,
    pattern: bool = False,
    values: Format | None = None,
    blocks: int = BLOCKS,
) -> Variant:
    """Return a sparse product that reads ``read`` segments and writes ``write``.

    Edge values are in the vectors' format, or in ``values``, which is then read whole. Of a load-balanced product, a
    multiprocessor holds ``blocks`` blocks.
    """
    name, cpp = storage_type(storage, whole=is_whole(storage))
    names, arguments = [name, f"{read}_{write}"], [cpp, f"{read}", f"{write}"]
    if kernel != "spmv_ell":
        names.append(_matrix(pattern))
        arguments.append(_bool(pattern))
    if values is not None and values != storage:
        of_values, cpp_of_values = storage_type(values, whole=is_whole(values))
        names.append(of_values)
        arguments += [cpp_of_values, f"{values.segments}"]
    if kernel == "spmv_csr_balanced":
        names.append(f"{blocks}")
        arguments.insert(0, f"{blocks}")
    return Variant(kernel, tuple(names), tuple(arguments))


def blocks_for(kernel: str, storage: Format, read: int) -> tuple[int, ...]:
    """Return how many blocks a multiprocessor may hold of a sparse product, for `spmv`.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2
    >>> [blocks_for("spmv_csr_balanced", CPMS2, read) for read in (1, 2)]
    [(4,), (4, 3)]
    """
    wide = kernel == "spmv_csr_balanced" and storage.bits(read) > NARROW_BITS
    return (BLOCKS, FEW_BLOCKS) if wide else (BLOCKS,)


def difference(storage: Format, write: int, read: int, *, pattern: bool) -> Variant:
    """Return the norms of the change between a vector of ``write`` segments and one of ``read``."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    numbers = (f"{write}", f"{read}")
    return Variant("difference", (name, "_".join(numbers), _matrix(pattern)), (cpp, *numbers, _bool(pattern)))


def selected_sum(storage: Format, read: int) -> Variant:
    """Return the sum over selected nodes."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    return Variant("selected_sum", (name, f"{read}"), (cpp, f"{read}"))


def plain_norm(storage: Format, read: int, *, pattern: bool) -> Variant:
    """Return the L1 norm of a vector."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    return Variant("plain_norm", (name, f"{read}", _matrix(pattern)), (cpp, f"{read}", _bool(pattern)))


def scale(storage: Format, segments: int) -> Variant:
    """Return the multiplication of a vector by a factor."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    return Variant("scale", (name, f"{segments}"), (cpp, f"{segments}"))


def encode(storage: Format, segments: int) -> Variant:
    """Return the conversion of any number of float64 values, out of place."""
    name, cpp = storage_type(storage, whole=False)
    return Variant("encode", (name, f"{segments}"), (cpp, f"{segments}"))


def decode(storage: Format, read: int) -> Variant:
    """Return the conversion of any number of values to float64, out of place."""
    name, cpp = storage_type(storage, whole=False)
    return Variant("decode", (name, f"{read}"), (cpp, f"{read}"))


def convert_tiles(storage: SegmentFormat, *, to_segments: bool) -> Variant:
    """Return the conversion in place of whole tiles (see `tile_values`)."""
    name, cpp = storage_type(storage, whole=True)
    return Variant("convert_tiles", (name, _direction(to_segments)), (cpp, _bool(to_segments)))


def convert_spans(storage: SegmentFormat, *, to_segments: bool) -> Variant:
    """Return the conversion in place of any number of values."""
    name, cpp = storage_type(storage, whole=False)
    return Variant("convert_spans", (name, _direction(to_segments)), (cpp, _bool(to_segments)))


def native_variant(kernel: str, real: str) -> Variant:
    """Return a kernel of ``spmv/coo.cu`` and its neighbours, for vectors and edge values of ``float64`` or ``float32``.

    Examples
    --------
    >>> native_variant("coo_carry_out", "float32").instance
    'CPMS_COO_CARRY_OUT(coo_carry_out__float32, float)'
    """
    return Variant(kernel, (real,), ({"float64": "double", "float32": "float"}[real],))


def tile_values(storage: SegmentFormat) -> int:
    """Return how many values a warp converts at a time, or 0 where the format has no such tiles.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2, CPMS4
    >>> tile_values(CPMS2), tile_values(CPMS4), tile_values(FP64)
    (128, 256, 0)
    """
    run = 128 // max(storage.widths)
    block = storage.block
    if block is None or storage.segments == 1 or (32 * run) % block or block % run or block * 8 % 16:
        return 0
    bits = 0
    for width in storage.widths:
        if bits // 8 * block % min(run * width // 8, 16):
            return 0
        bits += width
    return 32 * run


def topk(real: str, size: int) -> Variant:
    """Return the selection of up to ``size`` largest of float64 or float32 values.

    Examples
    --------
    >>> topk("float32", 16).instance
    'CPMS_TOPK(topk__float32__16, float, 16)'
    """
    return Variant("topk", (real, f"{size}"), ({"float64": "double", "float32": "float"}[real], f"{size}"))


TOPK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
"""Lengths of the lists that `topk` merges; shorter ones would save nothing."""


def sweep(kernel: str, storage: Format, read: int, write: int, *, pattern: bool) -> Iterator[Variant]:
    """Yield the kernels of one composed sweep."""
    for blocks in blocks_for(kernel, storage, read):
        yield spmv(kernel, storage, read, write, pattern=pattern, blocks=blocks)
    yield difference(storage, write, read, pattern=pattern)
    yield selected_sum(storage, read)


def conversions(storage: Format) -> Iterator[Variant]:
    """Yield the conversions of arrays between float64 and a format."""
    for count in range(1, storage.segments + 1):
        yield encode(storage, count)
        yield decode(storage, count)
    if isinstance(storage, SegmentFormat) and storage.segments > 1:
        for to_segments in (True, False):
            yield convert_spans(storage, to_segments=to_segments)
            if tile_values(storage):
                yield convert_tiles(storage, to_segments=to_segments)


def levels(storage: Format) -> list[tuple[int, int]]:
    """Return the segments read and written by the sweeps of `cpms.precision.controllers`'s policies.

    A sweep writes as many segments as it reads or, before a rise, one more, or all of them before float64. A schedule
    that skips levels, or a policy of the user's own, has its kernels compiled at their first launch.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2
    >>> levels(CPMS2)
    [(1, 1), (1, 2), (2, 2)]
    """
    last = storage.segments
    return [(read, write) for read in range(1, last + 1) for write in sorted({read, min(read + 1, last), last})]


def float64_sweep(kernel: str, storage: Format, *, pattern: bool) -> Iterator[Variant]:
    """Yield the kernels of a sweep after conversion to native float64; edge values in segments are read as segments."""
    values = storage if storage.exact and not pattern else None
    for blocks in blocks_for(kernel, FP64, 1):
        yield spmv(kernel, FP64, 1, 1, pattern=pattern, values=values, blocks=blocks)
    yield difference(FP64, 1, 1, pattern=pattern)
    yield selected_sum(FP64, 1)
    yield scale(FP64, 1)


def composed_sweeps(kernel: str, storage: Format, *, pattern: bool) -> list[Variant]:
    """Return the kernels of power iteration at all `levels`, with a sparse product of one kernel."""
    wanted = [*PADDED_CSR, *conversions(storage), *conversions(FP64)]
    for read, write in levels(storage):
        wanted.extend(sweep(kernel, storage, read, write, pattern=pattern))
    wanted.extend(scale(storage, count) for count in range(1, storage.segments + 1))
    return [*wanted, *float64_sweep(kernel, storage, pattern=pattern)]
