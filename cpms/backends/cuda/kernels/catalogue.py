"""All kernel templates of a format, and of the program."""

from __future__ import annotations

from collections.abc import Iterator

from cpms.backends.cuda.kernels.batched import batches
from cpms.backends.cuda.kernels.launch_shape import (
    BINNED,
)
from cpms.backends.cuda.kernels.multi_gpu import ranks
from cpms.backends.cuda.kernels.persistent import (
    CARRYING,
    DEALT,
    IN_BINS,
    LOW_DEALT,
    carrying,
    fused_power,
    in_bins,
    over_cached,
    over_codes,
    over_hot,
    resident,
)
from cpms.backends.cuda.kernels.product import products
from cpms.backends.cuda.kernels.streaming import (
    TOPK_SIZES,
    conversions,
    float64_sweep,
    levels,
    of_plain,
    plain_norm,
    scale,
    sweep,
    topk,
)
from cpms.backends.cuda.kernels.template import (
    AFFINE,
    ARRANGING,
    CODING,
    COO,
    FORECAST,
    GATHERS,
    GATHERS_BY_CODES,
    KEYS,
    MERGING,
    PASSES,
    PEELING,
    PRODUCTS,
    ROTATING,
    SHARES,
    Variant,
)
from cpms.formats.formats import (
    CPMS4,
    E4M3,
    FP16,
    FP32,
    FP64,
    NAMED,
    FloatFormat,
    Format,
    SegmentFormat,
    format_named,
)
from cpms.formats.quantization import HEAD_BITS, quantiser


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
        "products": list(products([FP64, CPMS4, FP32, FP16, E4M3, format_named("cpms2-planes"), odd])),
        "helpers": [
            *(*ARRANGING, *CODING, *PEELING, *MERGING, FORECAST, *PASSES, *SHARES, *ROTATING, *AFFINE.values()),
            *(*GATHERS.values(), *GATHERS_BY_CODES.values()),
        ],
    }
