"""All kernel variants of the program in families: tests compile them, and the engines' kernels must be among them."""

import itertools

from cpms.api.linear.choice import BYTES
from cpms.backends.cuda.kernels import batched, krylov, multi_gpu, product, rounding, streaming, template
from cpms.backends.cuda.kernels.launch_shape import SHAPES, SHARED_MEMORY_SHAPE
from cpms.backends.cuda.kernels.persistent import (
    ALL_BLOCKED,
    DIRECT_GATHER,
    ERROR_FEEDBACK_STRATEGIES,
    HUB_CACHE_GATHER,
    IN_CACHE_GATHER,
    INNER_BLOCKED,
    INNER_TILED_GATHER,
    error_feedback,
    fits_shared_memory,
    persistent_power,
    persistent_refine,
)
from cpms.formats.block_float import BFP16, BLOCK_FLOATS
from cpms.formats.codes import CODES8
from cpms.formats.formats import FP16, FP32, NAMED, FloatFormat, SegmentFormat, format_named
from cpms.formats.quantization import HEAD_BITS, quantiser
from cpms.formats.rounding_rules import rule_of
from cpms.precision.anderson import HISTORY_VECTORS, history_vectors

COO = ("coo_product", "coo_carry_out", "coo_atomic", "coo_epilogue", "coo_dangling", "coo_distance")
REDUCE_BY_KEY = ("reduce_by_key", "key_dangling", "key_distance")
"""The kernels that include the headers of CUB."""


def of_format(storage):
    """Yield the variants of one format: all layouts, rows and levels, reductions and conversions."""
    for layout, kernels in template.PRODUCTS.items():
        for kernel in kernels:
            for read, write in streaming.levels(storage):
                yield from streaming.sweep(kernel, storage, read, write, pattern=layout == "pattern")
            yield from streaming.float64_sweep(kernel, storage, pattern=layout == "pattern")
    for count in range(1, storage.segments + 1):
        yield streaming.scale(storage, count)
        for pattern in (False, True):
            yield streaming.plain_norm(storage, count, pattern=pattern)
    yield from streaming.conversions(storage)


def whole_and_core(storage, shape, personal, strategy):
    """Yield method ``refine`` over a whole graph, and over the trimmed core of one."""
    for core in (False, True):
        yield persistent_refine(storage, shape, personal=personal, core=core, strategy=strategy)


def direct(stored, personal):
    """Yield the persistent kernels that gather directly."""
    for shape in SHAPES.values():
        yield persistent_power(shape, personal=personal)
        for storage in stored:
            yield from whole_and_core(storage, shape, personal, DIRECT_GATHER)


def in_cache(stored):
    """Yield the persistent kernels for graphs that fit in the cache."""
    for personal in (False, True):
        yield persistent_power(SHARED_MEMORY_SHAPE, personal=personal, strategy=IN_CACHE_GATHER)
        for storage in stored:
            yield from whole_and_core(storage, SHARED_MEMORY_SHAPE, personal, IN_CACHE_GATHER)


def hub_cache(stored):
    """Yield the persistent kernels with a hub cache; trimmed cores are ordered otherwise and have none."""
    for personal in (False, True):
        yield persistent_power(SHARED_MEMORY_SHAPE, personal=personal, strategy=HUB_CACHE_GATHER)
        for storage in stored:
            yield persistent_refine(storage, SHARED_MEMORY_SHAPE, personal=personal, strategy=HUB_CACHE_GATHER)


def staged(stored, strategy):
    """Yield method ``refine`` in a strategy that stages values in shared memory."""
    for storage in filter(fits_shared_memory, stored):
        for personal in (False, True):
            yield from whole_and_core(storage, SHARED_MEMORY_SHAPE, personal, strategy)


def with_error_feedback(stored, strategy):
    """Yield the kernels of error feedback in a strategy; with a teleport vector, of one format."""
    stored = [
        s
        for s in stored
        if history_vectors(s) == HISTORY_VECTORS and (fits_shared_memory(s) or not strategy.stages_values)
    ]
    shapes = (SHARED_MEMORY_SHAPE,) if strategy.shared else SHAPES.values()
    for shape, personal in itertools.product(shapes, (False, True)):
        for storage in stored[:1] if personal else stored:
            for core in (False, True) if strategy != HUB_CACHE_GATHER else (False,):
                yield error_feedback(storage, shape, personal=personal, core=core, strategy=strategy)


def rank_sweeps(stored, personal):
    """Yield the kernels of both methods over several GPUs where each sweep is a launch, in either shape."""
    yield from template.CONTRIBUTIONS
    for bits in sorted({64, *(storage.width for storage in stored)}):
        yield from (template.PACKS[bits], template.REMOTE_STORES[bits])
    for shape in SHAPES.values():
        yield multi_gpu.rank_correct(shape)
        for refines in (False, True):
            yield multi_gpu.rank_residual_sweep(shape, refines=refines, personal=personal)
        for storage in stored:
            yield multi_gpu.rank_quantise(storage, shape)
            yield from multi_gpu.rank_combination(storage, shape)
            yield multi_gpu.rank_inner_sweep(storage, shape, personal=personal)


def ranks(stored, personal):
    """Yield all kernels of both methods over several GPUs that gather directly."""
    yield from rank_sweeps(stored, personal)
    yield from persistent_ranks(stored, personal)


def persistent_ranks(stored, personal):
    """Yield the persistent kernels of both methods over several GPUs, in either shape."""
    for shape in SHAPES.values():
        yield multi_gpu.of_ranks(persistent_power(shape, personal=personal))
        for storage in stored:
            yield multi_gpu.of_ranks(persistent_refine(storage, shape, personal=personal))


def ranks_in_shared_memory(stored):
    """Yield the kernels over several GPUs that stage values in shared memory, and those with error feedback."""
    stored = [storage for storage in stored if fits_shared_memory(storage)]
    yield multi_gpu.of_ranks(persistent_power(SHARED_MEMORY_SHAPE, personal=False, strategy=ALL_BLOCKED))
    for strategy in (INNER_TILED_GATHER, INNER_BLOCKED, ALL_BLOCKED):
        for storage in stored:
            yield multi_gpu.of_ranks(persistent_refine(storage, SHARED_MEMORY_SHAPE, personal=False, strategy=strategy))
    for strategy in (DIRECT_GATHER, INNER_BLOCKED, ALL_BLOCKED):
        yield from map(multi_gpu.of_ranks, with_error_feedback(stored, strategy))


def batches():
    """Yield the kernels of batches of queries, for the named packed floats and some more."""
    yield from batched.BATCH_HELPERS
    for each in (1, 2):
        for refines in (False, True):
            yield from batched.batch_residual_sweeps(each, refines=refines)
        yield from (batched.batch_correct(each), batched.batch_downstream(each))
    for storage in map(format_named, ("fp32", "fp16", "bf16", "e5m2", "e4m3", "fp16-zero")):
        yield from batched.batch_history(storage)
        for each in (1, 2, 4):
            yield from batched.batch_inner_sweeps(storage, each)


def products(formats):
    """Yield what products in each format launch, each template argument with more than one value."""
    for storage in formats:
        for read in range(1, storage.segments + 1):
            for compute in ("fp64", "fp32"):
                spec = product.ProductSpec(storage, read, compute=compute)
                yield spec.row_blocks()
                yield spec.slices(0, ell=False)
            yield product.ProductSpec(storage, read, vectors=2).rows(8)
            yield product.ProductSpec(storage, read, x=storage, read_x=read, index_bits=64).row_blocks()
            yield product.ProductSpec(storage, read, x=FP32, compute="fp32", out="fp32").slices(7, ell=False)
            yield product.ProductSpec(storage, read, offset_bits=16, far=True).slices(0, ell=False)
            yield product.ProductSpec(storage, read, offset_bits=8, group=4).slices(7, ell=False)
            yield product.vector_dots(storage, read, "fp64")
            yield product.vector_combine(storage, read, "fp32")
    for blocks in BLOCK_FLOATS:
        yield product.encode_blocks(blocks)
        yield product.decode_blocks(blocks)
        yield product.ProductSpec(blocks, x=blocks).row_blocks()
        yield product.ProductSpec(blocks, compute="fp32").slices(7, ell=False)
        yield product.vector_dots(blocks, 1, "fp64")
        yield product.vector_combine(blocks, 1, "fp64")
    yield product.ProductSpec(CODES8).row_blocks()
    yield product.ProductSpec(None).row_blocks()
    yield product.ProductSpec(CODES8, compute="fp32", group=8).slices(7, ell=False)
    for width in (0, product.WIDEST):
        yield product.ProductSpec(FP16, vectors=1 if width else 2, group=8).slices(width, ell=False)
        far = {"offset_bits": 8, "group": 8, "far": width == 0}
        yield product.ProductSpec(FP16, x=FP32, out="fp32", **far).slices(27, ell=False)
    for threads in product.THREADS_A_ROW:
        yield product.ProductSpec(None, vectors=2).rows(threads)
    for vectors in product.VECTORS_AT_ONCE:
        yield product.ProductSpec(vectors=vectors).rows(4)
        yield product.ProductSpec(vectors=vectors).slices(0, ell=True)
    yield product.ProductSpec().slices(27, ell=True)
    yield product.ProductSpec(FP16, offset_bits=8).slices(7, ell=False)
    yield product.ProductSpec().slices(product.WIDEST, ell=False)
    for real in ("fp64", "fp32"):
        yield product.vector_update(real, "fp64")


def krylov_passes():
    """Yield the passes of Krylov methods in formats that they have."""
    for storage in (None, FP32, BFP16):
        for preconditioning in ("none", "diagonal", "applied"):
            yield from krylov.cg_passes(storage, preconditioning)
        yield krylov.sweep_pass(storage)
    yield krylov.ARNOLDI_PARTS
    for storage, segments in ((None, 1), (FP32, 1), *((each, 1) for each in BLOCK_FLOATS), (BYTES, 3), (BYTES, 6)):
        for name in ("dots", "combine", "store"):
            yield krylov.arnoldi_pass(name, storage, segments)


def roundings():
    """Yield the kernels that round arrays: floats in each way, other numbers, groups of either element, a codec."""
    names = ("fp16", "fp16-zero", "fp16-stochastic", "posit8", "int8", "mxfp4", "mxint8")
    formats = [(each, rule_of(each, getattr(each, "rounding", "nearest"))) for each in map(format_named, names)]
    yield from rounding.every([*formats, (format_named("e4m3fn"), None)])


def every():
    """Return all variants of the named formats, some more of each kind, and the helpers, by family."""
    more = ("cpms2-nearest", "cpms4-nearest", "seg16-16-32", "fp16-stochastic", "e5m2-zero")
    odd = SegmentFormat("odd", (8, 16, 8, 32), 3)
    formats = [*NAMED, *map(format_named, more), odd]
    groups = {storage.name: list(dict.fromkeys(of_format(storage))) for storage in formats}
    stored = [quantiser(s) for s in formats if isinstance(s, FloatFormat) or s.widths[0] in HEAD_BITS]
    blocked_power = [
        persistent_power(SHARED_MEMORY_SHAPE, personal=personal, strategy=ALL_BLOCKED) for personal in (False, True)
    ]
    feedback = {
        f"error_feedback{strategy.suffix}": list(with_error_feedback(stored, strategy))
        for strategy in ERROR_FEEDBACK_STRATEGIES
    }
    return {
        **groups,
        "direct gather": list(direct(stored, personal=False)),
        "direct gather, personal": list(direct(stored, personal=True)),
        "in-cache gather": list(in_cache(stored)),
        # NVRTC's fast modes add up the shared memory of these and of those above, if they are in one program.
        "tiled gather": list(staged(stored, INNER_TILED_GATHER)),
        "hub cache": list(hub_cache(stored)),
        "inner blocked": list(staged(stored, INNER_BLOCKED)),
        "blocked": [*staged(stored, ALL_BLOCKED), *blocked_power],
        **feedback,
        # The kernels above cover the compiler's work on other formats and on teleport vectors.
        # These and those of "ranks" are apart for the same reason: shared memory adds up.
        "rank sweeps": [*rank_sweeps(stored, personal=False), *rank_sweeps(stored[:1], personal=True)],
        "ranks": [*persistent_ranks(stored, personal=False), *persistent_ranks(stored[:1], personal=True)],
        "ranks in shared memory": list(ranks_in_shared_memory([FP16, *stored[-1:]])),
        "coo": [streaming.native_variant(kernel, real) for kernel in COO for real in template.AFFINE],
        "reduce_by_key": [
            streaming.native_variant(kernel, real) for kernel in REDUCE_BY_KEY for real in template.AFFINE
        ],
        "topk": [streaming.topk(real, size) for real in ("float64", "float32") for size in streaming.TOPK_SIZES],
        "batches": list(batches()),
        "products": list(
            products([*map(format_named, ("fp64", "cpms4", "fp32", "fp16", "e4m3", "cpms2-planes")), odd])
        ),
        "rounding": list(roundings()),
        "krylov": list(krylov_passes()),
        "helpers": [
            *(*template.PACKS_OF_EDGES.values(), *template.ROWS_OF_EDGES, *template.EDGE_UPDATES),
            *(*template.CERTIFICATE, *template.CERTIFIED_ROWS.values()),
            *(*template.PADDED_CSR, *template.EQUAL_RANGES, *template.TRIMMING, *template.LUMPING),
            *(template.CONVERGENCE_ESTIMATE, *template.LEVEL_SOLVE, *template.CONTRIBUTIONS),
            *(*template.CYCLE_PERMUTATION, *template.AFFINE.values()),
            *template.GATHERS.values(),
        ],
    }
