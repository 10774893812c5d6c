"""Every kernel variant that an engine or experiment can ask for: template arguments and symbol."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from cpms.cuda import source
from cpms.cuda.shape import (
    BIN_SHARED_BYTES,
    BINNED,
    BINNED_BYTES,
    DEALT_SHARED_BYTES,
    FULL,
    HOT_SHARED_BYTES,
    SHAPES,
    Shape,
)
from cpms.extrapolation import SLOTS, slots_for
from cpms.format import FP64, NAMED, FloatFormat, Format, SegmentFormat, format_named
from cpms.quantising import HEAD_BITS, quantiser

_FILES = {
    "spmv_csr_thread": "spmv/csr_thread_per_row.cu",
    "spmv_csr_balanced": "spmv/csr_balanced.cu",
    "spmv_ell": "spmv/ell.cu",
    "difference": "spmv/norms.cu",
    "selected_sum": "spmv/norms.cu",
    "plain_norm": "spmv/norms.cu",
    "scale": "convert/scale.cu",
    "encode": "convert/convert.cu",
    "decode": "convert/convert.cu",
    "convert_tiles": "convert/convert.cu",
    "convert_spans": "convert/convert.cu",
    "save_first": "convert/permute_cycles.cu",
    "permute_cycles": "convert/permute_cycles.cu",
    "gather": "convert/gather.cu",
    "pack": "multi_gpu/pack.cu",
    "remote_store": "multi_gpu/remote_store.cu",
    "place_entries": "preprocess/padded_csr.cu",
    "flag_row_ends": "preprocess/padded_csr.cu",
    "count_row_ends": "preprocess/padded_csr.cu",
    "count_lines": "preprocess/padded_csr.cu",
    "count_sources": "preprocess/padded_csr.cu",
    "place_columns": "preprocess/padded_csr.cu",
    "fill_values": "preprocess/padded_csr.cu",
    "compute_bases": "preprocess/compressed_indices.cu",
    "compress_indices": "preprocess/compressed_indices.cu",
    "gather_compressed": "preprocess/compressed_indices.cu",
    "trim_upstream": "preprocess/trimming.cu",
    "trim_downstream": "preprocess/trimming.cu",
    "hash_targets": "preprocess/lumping.cu",
    "move_entries": "preprocess/lumping.cu",
    "convergence_estimate": "preprocess/convergence_estimate.cu",
    "solve_upstream": "preprocess/level_solve.cu",
    "solve_downstream": "preprocess/level_solve.cu",
    "to_contributions": "convert/contributions.cu",
    "from_contributions": "convert/contributions.cu",
    "persistent_refine": "pagerank/persistent_refine.cu",
    "persistent_refine_in_cache": "pagerank/persistent_refine.cu",
    "persistent_refine_compressed": "pagerank/persistent_refine.cu",
    "persistent_refine_hub_cache": "pagerank/persistent_refine.cu",
    "persistent_refine_tiled_gather": "pagerank/persistent_refine.cu",
    "persistent_refine_inner_blocked": "pagerank/persistent_refine.cu",
    "persistent_refine_blocked": "pagerank/persistent_refine.cu",
    "error_feedback": "pagerank/error_feedback.cu",
    "error_feedback_compressed": "pagerank/error_feedback.cu",
    "error_feedback_hub_cache": "pagerank/error_feedback.cu",
    "error_feedback_inner_blocked": "pagerank/error_feedback.cu",
    "error_feedback_blocked": "pagerank/error_feedback.cu",
    "persistent_power": "pagerank/persistent_power.cu",
    "persistent_power_in_cache": "pagerank/persistent_power.cu",
    "persistent_power_compressed": "pagerank/persistent_power.cu",
    "persistent_power_hub_cache": "pagerank/persistent_power.cu",
    "persistent_power_blocked": "pagerank/persistent_power.cu",
    "affine": "convert/affine.cu",
    "coo_product": "spmv/coo.cu",
    "coo_carry_out": "spmv/coo.cu",
    "coo_atomic": "spmv/coo.cu",
    "coo_epilogue": "spmv/coo.cu",
    "coo_dangling": "spmv/coo_sums.cu",
    "coo_distance": "spmv/coo_sums.cu",
    "reduce_by_key": "spmv/reduce_by_key.cu",
    "key_dangling": "spmv/reduce_by_key.cu",
    "key_distance": "spmv/reduce_by_key.cu",
    "topk": "topk/topk.cu",
    "batch_residual_sweep": "batch/residual_sweep.cu",
    "batch_inner_sweep": "batch/inner_sweep.cu",
    "batch_quantise": "batch/inner_sweep.cu",
    "batch_row_sums": "batch/residual_sweep.cu",
    "batch_first_sweep": "batch/residual_sweep.cu",
    "batch_correct": "batch/residual_sweep.cu",
    "batch_downstream": "batch/residual_sweep.cu",
    "batch_scores": "batch/residual_sweep.cu",
    "batch_reduce": "batch/residual_sweep.cu",
    "batch_advance": "batch/inner_sweep.cu",
    "batch_products": "batch/anderson.cu",
    "batch_combine": "batch/anderson.cu",
    "batch_apply_history": "batch/anderson.cu",
    "batch_after_combine": "batch/anderson.cu",
    "rank_correct": "multi_gpu/rank_sweep.cu",
    "rank_residual_sweep": "multi_gpu/rank_sweep.cu",
    "rank_quantise": "multi_gpu/rank_sweep.cu",
    "rank_inner_sweep": "multi_gpu/rank_sweep.cu",
    "rank_products": "multi_gpu/rank_sweep.cu",
    "rank_combine": "multi_gpu/rank_sweep.cu",
    "persistent_rank_power": "multi_gpu/persistent_ranks.cu",
    "persistent_rank_refine": "multi_gpu/persistent_ranks.cu",
}
BLOCKS, FEW_BLOCKS = 4, 3
"""Of a product in equal shares of edges, that a multiprocessor holds."""
NARROW_BITS = 32
"""Up to which reads of a vector gain more from many warps than from a first-level cache for few."""
WHOLE_VALUES = 256
"""Device vectors and matrices hold a multiple of so many values."""


class Way(NamedTuple):
    """How sweeps go over edges; see ``persistent/strategies.cuh``."""

    suffix: str
    shared: int
    """Bytes of shared memory that a launch asks for."""
    counts_are_bytes: bool
    """Whether degrees are read as bytes, and what else is counted of a node's edges."""
    in_bins: bool = False
    """Whether low sweeps read values in bins, which hold those of `is_binned` alone."""


OVER_SOURCES = Way("", 0, counts_are_bytes=True)
OVER_CACHED = Way("_in_cache", 0, counts_are_bytes=False)
OVER_CODES = Way("_compressed", 0, counts_are_bytes=True)
OVER_HOT = Way("_hub_cache", HOT_SHARED_BYTES, counts_are_bytes=False)
IN_BINS = Way("_tiled_gather", BIN_SHARED_BYTES, counts_are_bytes=True, in_bins=True)
"""Low sweeps alone."""
LOW_DEALT = Way("_inner_blocked", DEALT_SHARED_BYTES, counts_are_bytes=True, in_bins=True)
DEALT = Way("_blocked", DEALT_SHARED_BYTES, counts_are_bytes=True, in_bins=True)
CARRYING = OVER_SOURCES, OVER_CODES, OVER_HOT, LOW_DEALT, DEALT
"""Those with kernels in which nodes keep what rounding loses; see `carry`."""


@dataclass(frozen=True)
class Variant:
    """A kernel and its template arguments, as C++ text.

    Examples
    --------
    >>> scale(FP64, 1).symbol
    'scale__w64_b0_zero_whole__1'
    >>> scale(FP64, 1).instance
    'CPMS_SCALE(scale__w64_b0_zero_whole__1, cpms::Segments<cpms::Widths<64>, 0, cpms::Rounding::zero, true>, 1)'
    """

    kernel: str
    names: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    shape: Shape = FULL
    """Of kernels that stay."""
    shared: int = 0
    """Bytes of shared memory that a launch asks for."""

    @property
    def file(self) -> str:
        """The file that defines the kernel."""
        return _FILES[self.kernel]

    @property
    def symbol(self) -> str:
        """The name of the compiled function."""
        return "__".join([self.kernel, *self.names])

    @property
    def instance(self) -> str:
        """The line of C++ that makes the function."""
        return f"CPMS_{self.kernel.upper()}({', '.join([self.symbol, *self.arguments])})"


def program(variants: Iterable[Variant]) -> str:
    """Return one source text with these variants, each once.

    Examples
    --------
    >>> text = program([scale(FP64, 1), scale(FP64, 1)])
    >>> text.count("CPMS_SCALE(scale__w64")
    1
    """
    wanted = list(dict.fromkeys(variants))
    text = source.assemble(dict.fromkeys(variant.file for variant in wanted))
    return text + '#line 1 "instances"\n' + "\n".join(variant.instance for variant in wanted) + "\n"


def is_whole(storage: Format) -> bool:
    """Return whether arrays of a multiple of 256 values hold whole blocks of the format.

    Examples
    --------
    >>> from cpms.format import CPMS4
    >>> is_whole(CPMS4), is_whole(SegmentFormat("odd", (32, 32), 3))
    (True, False)
    """
    return isinstance(storage, FloatFormat) or storage.block is None or WHOLE_VALUES % storage.block == 0


def storage_type(storage: Format, *, whole: bool) -> tuple[str, str]:
    """Return a short name of the format and its C++ type.

    Parameters
    ----------
    storage : SegmentFormat or FloatFormat
    whole : bool
        Whether arrays are known to be made of whole blocks.

    Examples
    --------
    >>> from cpms.format import BF16
    >>> storage_type(BF16, whole=True)
    ('e8m7_nearest', 'cpms::PackedFloat<8, 7, cpms::Rounding::nearest>')
    """
    rounding = f"cpms::Rounding::{storage.rounding}"
    if isinstance(storage, FloatFormat):
        split = f"{storage.exponent_bits}, {storage.mantissa_bits}"
        name = f"e{storage.exponent_bits}m{storage.mantissa_bits}_{storage.rounding}"
        return name, f"cpms::PackedFloat<{split}, {rounding}>"
    widths = ", ".join(map(str, storage.widths))
    block = storage.block or 0
    name = f"w{'_'.join(map(str, storage.widths))}_b{block}_{storage.rounding}_{'whole' if whole else 'ragged'}"
    return name, f"cpms::Segments<cpms::Widths<{widths}>, {block}, {rounding}, {str(whole).lower()}>"


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

    Edge values are in the vectors' format, or in ``values``, which is then read whole. Where shares of edges are
    equal, a multiprocessor holds ``blocks`` blocks.
    """
    name, cpp = storage_type(storage, whole=is_whole(storage))
    names, arguments = [name, f"{read}_{write}"], [cpp, f"{read}", f"{write}"]
    if kernel != "spmv_ell":
        names.append(_what(pattern))
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
    >>> from cpms.format import CPMS2
    >>> [blocks_for("spmv_csr_balanced", CPMS2, read) for read in (1, 2)]
    [(4,), (4, 3)]
    """
    wide = kernel == "spmv_csr_balanced" and storage.bits(read) > NARROW_BITS
    return (BLOCKS, FEW_BLOCKS) if wide else (BLOCKS,)


def difference(storage: Format, write: int, read: int, *, pattern: bool) -> Variant:
    """Return the norms of the change between a vector of ``write`` segments and one of ``read``."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    numbers = (f"{write}", f"{read}")
    return Variant("difference", (name, "_".join(numbers), _what(pattern)), (cpp, *numbers, _bool(pattern)))


def selected_sum(storage: Format, read: int) -> Variant:
    """Return the sum over selected nodes."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    return Variant("selected_sum", (name, f"{read}"), (cpp, f"{read}"))


def plain_norm(storage: Format, read: int, *, pattern: bool) -> Variant:
    """Return the L1 norm of a vector."""
    name, cpp = storage_type(storage, whole=is_whole(storage))
    return Variant("plain_norm", (name, f"{read}", _what(pattern)), (cpp, f"{read}", _bool(pattern)))


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
    return Variant("convert_tiles", (name, _way(to_segments)), (cpp, _bool(to_segments)))


def convert_spans(storage: SegmentFormat, *, to_segments: bool) -> Variant:
    """Return the conversion in place of any number of values."""
    name, cpp = storage_type(storage, whole=False)
    return Variant("convert_spans", (name, _way(to_segments)), (cpp, _bool(to_segments)))


def is_binned(storage: FloatFormat) -> bool:
    """Return whether bins hold values of a format.

    Examples
    --------
    >>> from cpms.format import FP16, FP32
    >>> is_binned(FP16), is_binned(FP32)
    (True, False)
    """
    return storage.width <= 8 * BINNED_BYTES


def refine(
    storage: FloatFormat, shape: Shape, *, personal: bool, partial: bool = False, way: Way = OVER_SOURCES
) -> Variant:
    """Return rounds of method ``refine`` whose low sweeps read this format, over a whole graph or the core of one.

    Examples
    --------
    >>> from cpms.format import FP16
    >>> refine(FP16, Shape(512, 1), personal=False, way=DEALT).symbol
    'persistent_refine_blocked__e5m10_nearest__uniform__whole__512x1'
    """
    name, cpp = storage_type(storage, whole=True)
    names = name, _whose(personal), "core" if partial else "whole"
    arguments = cpp, *map(_bool, (personal, partial))
    return replace(_shaped(f"persistent_refine{way.suffix}", shape, names, arguments), shared=way.shared)


def carry(
    storage: FloatFormat, shape: Shape, *, personal: bool, partial: bool = False, way: Way = OVER_SOURCES
) -> Variant:
    """Return the same rounds but for what rounding loses, which nodes keep; in one of the ways `CARRYING`.

    Examples
    --------
    >>> from cpms.format import FP16
    >>> carry(FP16, Shape(512, 1), personal=False, way=DEALT).symbol
    'error_feedback_blocked__e5m10_nearest__uniform__whole__512x1'
    """
    same = refine(storage, shape, personal=personal, partial=partial, way=way)
    return replace(same, kernel=f"error_feedback{way.suffix}")


def fused_power(shape: Shape, *, personal: bool, way: Way = OVER_SOURCES) -> Variant:
    """Return power iteration in float64 that stays on the device.

    Examples
    --------
    >>> fused_power(Shape(384, 2), personal=False).instance
    'CPMS_PERSISTENT_POWER(persistent_power__uniform__384x2, 384, 2, false)'
    """
    whose = (_whose(personal),), (_bool(personal),)
    return replace(_shaped(f"persistent_power{way.suffix}", shape, *whose), shared=way.shared)


def of_plain(kernel: str, real: str) -> Variant:
    """Return a kernel of ``spmv/coo.cu`` and its neighbours, for vectors and edge values of ``float64`` or ``float32``.

    Examples
    --------
    >>> of_plain("coo_carry_out", "float32").instance
    'CPMS_COO_CARRY_OUT(coo_carry_out__float32, float)'
    """
    return Variant(kernel, (real,), ({"float64": "double", "float32": "float"}[real],))


def batch_full(each: int, *, refines: bool) -> list[Variant]:
    """Return the first and the other float64 sweeps of a batch, ``each`` queries a lane; they may keep the change."""
    names, arguments = (f"{each}", "refines" if refines else "power"), (f"{each}", _bool(refines))
    return [Variant(kernel, names, arguments, SHAPES[16]) for kernel in ("batch_first_sweep", "batch_residual_sweep")]


def batch_low(storage: FloatFormat, each: int) -> list[Variant]:
    """Return a batch's first values of a round in few bits, and its low sweep."""
    name, cpp = storage_type(storage, whole=True)
    return [Variant(kernel, (name, f"{each}"), (cpp, f"{each}")) for kernel in ("batch_quantise", "batch_inner_sweep")]


def batch_products(storage: FloatFormat) -> Variant:
    """Return the products of what a batch's low sweeps sent, a lane a query."""
    name, cpp = storage_type(storage, whole=True)
    return Variant("batch_products", (name,), (cpp,), SHAPES[16])


def batch_collect(storage: FloatFormat, each: int, *, sends: bool) -> Variant:
    """Return what adds up what a batch's low sweeps sent, and ``sends`` something else in its place."""
    name, cpp = storage_type(storage, whole=True)
    what = "sends" if sends else "adds"
    return Variant("batch_apply_history", (name, f"{each}", what), (cpp, f"{each}", _bool(sends)), SHAPES[16])


def batch_correct(each: int) -> Variant:
    """Return the correction of a batch's iterates."""
    return Variant("batch_correct", (f"{each}",), (f"{each}",))


def batch_behind(each: int) -> Variant:
    """Return what follows, in a batch, for nodes behind those that are swept."""
    return Variant("batch_downstream", (f"{each}",), (f"{each}",), SHAPES[16])


def ranks_correct(shape: Shape) -> Variant:
    """Return the correction of a rank's iterate, and what it finds of masses."""
    return _shaped("rank_correct", shape, (), ())


def ranks_full(shape: Shape, *, refines: bool, personal: bool) -> Variant:
    """Return a float64 sweep of a rank's rows, of method ``refine`` or of power iteration."""
    what = "refine" if refines else "power"
    return _shaped("rank_residual_sweep", shape, (what, _whose(personal)), (_bool(refines), _bool(personal)))


def ranks_quantise(storage: FloatFormat, shape: Shape) -> Variant:
    """Return the first quantisation of a round, of a rank's rows."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("rank_quantise", shape, (name,), (cpp,))


def ranks_low(storage: FloatFormat, shape: Shape, *, personal: bool) -> Variant:
    """Return a low sweep of a rank's rows."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("rank_inner_sweep", shape, (name, _whose(personal)), (cpp, _bool(personal)))


def ranks_combination(storage: FloatFormat, shape: Shape) -> list[Variant]:
    """Return what a rank finds of the z it has sent, and their combination."""
    name, cpp = storage_type(storage, whole=True)
    return [_shaped(kernel, shape, (name,), (cpp,)) for kernel in ("rank_products", "rank_combine")]


def ranks_power(shape: Shape, *, personal: bool) -> Variant:
    """Return power iteration over ranks that stays on their devices."""
    return _shaped("persistent_rank_power", shape, (_whose(personal),), (_bool(personal),))


def ranks_refine(storage: FloatFormat, shape: Shape, *, personal: bool) -> Variant:
    """Return rounds of method ``refine`` over ranks that stay on their devices."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("persistent_rank_refine", shape, (name, _whose(personal)), (cpp, _bool(personal)))


def ranks(storages: Iterable[FloatFormat], *, personal: bool) -> Iterator[Variant]:
    """Yield what a rank launches in both methods, in either shape."""
    storages = list(storages)
    yield from SHARES
    for bits in sorted({64, *(storage.width for storage in storages)}):
        yield from (PACKS[bits], PUSHES[bits])
    for shape in SHAPES.values():
        yield ranks_correct(shape)
        yield ranks_power(shape, personal=personal)
        for refines in (False, True):
            yield ranks_full(shape, refines=refines, personal=personal)
        for storage in storages:
            yield ranks_quantise(storage, shape)
            yield from ranks_combination(storage, shape)
            yield ranks_low(storage, shape, personal=personal)
            yield ranks_refine(storage, shape, personal=personal)


def tile_values(storage: SegmentFormat) -> int:
    """Return how many values a warp converts at a time, or 0 where the format has no such tiles.

    Examples
    --------
    >>> from cpms.format import CPMS2, CPMS4
    >>> tile_values(CPMS2), tile_values(CPMS4), tile_values(FP64)
    (128, 256, 0)
    """
    run = 128 // max(storage.widths)
    block = storage.block
    if block is None or storage.segments == 1 or (32 * run) % block or block % run or block * 8 % 16:
        return 0
    before = 0
    for width in storage.widths:
        if before // 8 * block % min(run * width // 8, 16):
            return 0
        before += width
    return 32 * run


def topk(real: str, most: int) -> Variant:
    """Return the selection of up to ``most`` largest of float64 or float32 values.

    Examples
    --------
    >>> topk("float32", 16).instance
    'CPMS_TOPK(topk__float32__16, float, unsigned, 16)'
    """
    cpp = {"float64": ("double", "unsigned long long"), "float32": ("float", "unsigned")}[real]
    return Variant("topk", (real, f"{most}"), (*cpp, f"{most}"))


TOPK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
"""Lengths of the lists that `topk` merges; shorter ones would save nothing."""
ARRANGING = tuple(
    map(
        Variant,
        (
            "place_entries",
            "flag_row_ends",
            "count_row_ends",
            "count_lines",
            "count_sources",
            "place_columns",
            "fill_values",
        ),
    )
)
GATHERS = {
    8: Variant("gather", ("u8",), ("unsigned char",)),
    16: Variant("gather", ("u16",), ("unsigned short",)),
    32: Variant("gather", ("u32",), ("unsigned",)),
    64: Variant("gather", ("u64",), ("unsigned long long",)),
}
"""Gathers and nothing else, by the bits of a value."""
CODING = tuple(map(Variant, ("compute_bases", "compress_indices")))
"""See ``preprocess/compressed_indices.cu``."""
GATHERS_BY_CODES = {bits: replace(gather, kernel="gather_compressed") for bits, gather in GATHERS.items()}
PACKS = {bits: Variant("pack", gather.names, gather.arguments) for bits, gather in GATHERS.items()}
"""What a rank sends to others, by the bits of a value."""
PUSHES = {bits: Variant("remote_store", gather.names, gather.arguments) for bits, gather in GATHERS.items()}
"""What a rank writes into the memory of others, by the bits of a value."""
PEELING = tuple(map(Variant, ("trim_upstream", "trim_downstream")))
MERGING = tuple(map(Variant, ("hash_targets", "move_entries")))
FORECAST = Variant("convergence_estimate")
PASSES = tuple(map(Variant, ("solve_upstream", "solve_downstream")))
SHARES = tuple(map(Variant, ("to_contributions", "from_contributions")))
"""What brings values to a resident graph, and back."""
ROTATING = tuple(map(Variant, ("save_first", "permute_cycles")))
AFFINE = {
    "float64": Variant("affine", ("float64",), ("double",)),
    "float32": Variant("affine", ("float32",), ("float",)),
}
COO = ("coo_product", "coo_carry_out", "coo_atomic", "coo_epilogue", "coo_dangling", "coo_distance")
KEYS = ("reduce_by_key", "key_dangling", "key_distance")
"""What needs the headers of CUB."""
PRODUCTS = {
    "csr": ("spmv_csr_balanced", "spmv_csr_thread"),
    "pattern": ("spmv_csr_balanced", "spmv_csr_thread"),
    "ell": ("spmv_ell",),
}
"""The kernels that multiply in each layout."""


def sweep(kernel: str, storage: Format, read: int, write: int, *, pattern: bool) -> Iterator[Variant]:
    """Yield what one sweep launches."""
    for blocks in blocks_for(kernel, storage, read):
        yield spmv(kernel, storage, read, write, pattern=pattern, blocks=blocks)
    yield difference(storage, write, read, pattern=pattern)
    yield selected_sum(storage, read)


def conversions(storage: Format) -> Iterator[Variant]:
    """Yield what moves arrays between float64 and a format."""
    for count in range(1, storage.segments + 1):
        yield encode(storage, count)
        yield decode(storage, count)
    if isinstance(storage, SegmentFormat) and storage.segments > 1:
        for to_segments in (True, False):
            yield convert_spans(storage, to_segments=to_segments)
            if tile_values(storage):
                yield convert_tiles(storage, to_segments=to_segments)


def levels(storage: Format) -> list[tuple[int, int]]:
    """Return the segments read and written by the sweeps of `cpms.precision`'s policies.

    A sweep writes what it reads or, before a rise, one segment more, or all of them before float64. A schedule that
    skips levels, or a policy of the user's own, has its kernels compiled when it first asks for them.

    Examples
    --------
    >>> from cpms.format import CPMS2
    >>> levels(CPMS2)
    [(1, 1), (1, 2), (2, 2)]
    """
    most = storage.segments
    return [(read, write) for read in range(1, most + 1) for write in sorted({read, min(read + 1, most), most})]


def of_format(storage: Format) -> Iterator[Variant]:
    """Yield the variants of one format: all layouts, rows and `levels`, reductions and conversions."""
    for layout, kernels in PRODUCTS.items():
        for kernel in kernels:
            for read, write in levels(storage):
                yield from sweep(kernel, storage, read, write, pattern=layout == "pattern")
            yield from float64_sweep(kernel, storage, pattern=layout == "pattern")
    for count in range(1, storage.segments + 1):
        yield scale(storage, count)
        for pattern in (False, True):
            yield plain_norm(storage, count, pattern=pattern)
    yield from conversions(storage)


def resident(stored: Iterable[FloatFormat], *, personal: bool) -> Iterator[Variant]:
    """Yield the kernels that stay for many sweeps, but for those that take edges in bins."""
    stored = list(stored)
    for shape in SHAPES.values():
        yield fused_power(shape, personal=personal)
        for storage in stored:
            yield refine(storage, shape, personal=personal)
            yield refine(storage, shape, personal=personal, partial=True)


def over_cached(stored: Iterable[FloatFormat]) -> Iterator[Variant]:
    """Yield resident kernels of graphs that fit in the cache."""
    stored = list(stored)
    for personal in (False, True):
        yield fused_power(BINNED, personal=personal, way=OVER_CACHED)
        for storage in stored:
            yield refine(storage, BINNED, personal=personal, way=OVER_CACHED)
            yield refine(storage, BINNED, personal=personal, partial=True, way=OVER_CACHED)


def over_codes(stored: Iterable[FloatFormat]) -> Iterator[Variant]:
    """Yield resident kernels that find sources by codes; with rows of one's own, of the first format alone."""
    stored = list(stored)
    for shape, personal in itertools.product(SHAPES.values(), (False, True)):
        yield fused_power(shape, personal=personal, way=OVER_CODES)
        for storage in stored[:1] if personal else stored:
            yield refine(storage, shape, personal=personal, way=OVER_CODES)
            yield refine(storage, shape, personal=personal, partial=True, way=OVER_CODES)


def over_hot(stored: Iterable[FloatFormat]) -> Iterator[Variant]:
    """Yield resident kernels that keep the first nodes' values in shared memory; cores have another order."""
    for personal in (False, True):
        yield fused_power(BINNED, personal=personal, way=OVER_HOT)
        yield from (refine(storage, BINNED, personal=personal, way=OVER_HOT) for storage in stored)


def in_bins(stored: Iterable[FloatFormat], way: Way) -> Iterator[Variant]:
    """Yield method ``refine`` over edges in bins of a kind."""
    for storage in filter(is_binned, stored):
        for personal in (False, True):
            yield refine(storage, BINNED, personal=personal, way=way)
            yield refine(storage, BINNED, personal=personal, partial=True, way=way)


def carrying(stored: Iterable[FloatFormat], way: Way) -> Iterator[Variant]:
    """Yield rounds in which nodes keep what rounding loses, in a way; with rows of one's own, of one format."""
    stored = [s for s in stored if slots_for(s) == SLOTS and (is_binned(s) or not way.in_bins)]
    shapes = (BINNED,) if way.shared else SHAPES.values()
    for shape, personal in itertools.product(shapes, (False, True)):
        for storage in stored[:1] if personal else stored:
            for partial in (False, True) if way != OVER_HOT else (False,):
                yield carry(storage, shape, personal=personal, partial=partial, way=way)


BATCH_TOTALS = Variant("batch_reduce")
BATCH_RANKS = Variant("batch_scores")
BATCH_SUMS = Variant("batch_row_sums")
BATCH_LOW_NEXT = Variant("batch_advance")
BATCH_COMBINE = Variant("batch_combine")
BATCH_SENT = Variant("batch_after_combine")
BATCHING = (BATCH_TOTALS, BATCH_RANKS, BATCH_SUMS, BATCH_LOW_NEXT, BATCH_COMBINE, BATCH_SENT)


def batches() -> Iterator[Variant]:
    """Yield what batches of queries launch, for the named packed floats and some more."""
    yield from BATCHING
    for each in (1, 2):
        for refines in (False, True):
            yield from batch_full(each, refines=refines)
        yield from (batch_correct(each), batch_behind(each))
    for name in ("fp32", "fp16", "bf16", "e5m2", "e4m3", "fp16-zero"):
        storage = format_named(name)
        assert isinstance(storage, FloatFormat)  # noqa: S101  # All of these are.
        yield from batch_kept(storage)
        for each in (1, 2, 4):
            yield from batch_low(storage, each)


def batch_kept(storage: FloatFormat) -> Iterator[Variant]:
    """Yield what reads the z that a batch's low sweeps keep, of any number of queries."""
    for each in (1, 2, 4):
        yield from (batch_collect(storage, each, sends=sends) for sends in (False, True))
    yield batch_products(storage)


def every() -> dict[str, list[Variant]]:
    """Return all variants of the named formats, some more of each kind, and the helpers, by what they serve.

    Examples
    --------
    >>> list(every())[:3]
    ['fp64', 'cpms2', 'cpms4']
    """
    more = ("cpms2-nearest", "cpms4-nearest", "seg16-16-32", "fp16-stochastic", "e5m2-zero")
    odd = SegmentFormat("odd", (8, 16, 8, 32), 3)
    formats = [*NAMED, *map(format_named, more), odd]
    groups = {storage.name: list(dict.fromkeys(of_format(storage))) for storage in formats}
    stored = [quantiser(s) for s in formats if isinstance(s, FloatFormat) or s.widths[0] in HEAD_BITS]
    return {
        **groups,
        "resident": list(resident(stored, personal=False)),
        "resident, personal": list(resident(stored, personal=True)),
        "cached": list(over_cached(stored)),
        "codes": list(over_codes(stored)),
        # NVRTC's fast modes add up the shared memory of these and of those above, if they are in one program.
        "bins": list(in_bins(stored, IN_BINS)),
        "hot": list(over_hot(stored)),
        "low sweeps dealt": list(in_bins(stored, LOW_DEALT)),
        "dealt": [*in_bins(stored, DEALT), *(fused_power(BINNED, personal=p, way=DEALT) for p in (False, True))],
        **{f"error_feedback{way.suffix}": list(carrying(stored, way)) for way in CARRYING},
        # What formats and rows of one's own ask of the compiler is in the kernels above too.
        "ranks": [*ranks(stored, personal=False), *ranks(stored[:1], personal=True)],
        "coo": [of_plain(kernel, real) for kernel in COO for real in AFFINE],
        "reduce_by_key": [of_plain(kernel, real) for kernel in KEYS for real in AFFINE],
        "topk": [topk(real, most) for real in ("float64", "float32") for most in TOPK_SIZES],
        "batches": list(batches()),
        "helpers": [
            *(*ARRANGING, *CODING, *PEELING, *MERGING, FORECAST, *PASSES, *SHARES, *ROTATING, *AFFINE.values()),
            *(*GATHERS.values(), *GATHERS_BY_CODES.values()),
        ],
    }


def float64_sweep(kernel: str, storage: Format, *, pattern: bool) -> Iterator[Variant]:
    """Yield what a sweep launches after conversion to plain float64; edge values that segments hold stay segments."""
    values = storage if storage.exact and not pattern else None
    for blocks in blocks_for(kernel, FP64, 1):
        yield spmv(kernel, FP64, 1, 1, pattern=pattern, values=values, blocks=blocks)
    yield difference(FP64, 1, 1, pattern=pattern)
    yield selected_sum(FP64, 1)
    yield scale(FP64, 1)


def _shaped(kernel: str, shape: Shape, names: tuple[str, ...], arguments: tuple[str, ...]) -> Variant:
    """Return a variant whose launch bounds are a shape's."""
    numbers = f"{shape.threads}", f"{shape.each}"
    return Variant(kernel, (*names, "x".join(numbers)), (*numbers, *arguments), shape)


def _what(pattern: bool) -> str:
    return "pattern" if pattern else "values"


def _whose(personal: bool) -> str:
    return "personal" if personal else "uniform"


def _way(to_segments: bool) -> str:
    return "to_segments" if to_segments else "to_float64"


def _bool(value: bool) -> str:
    return str(value).lower()
