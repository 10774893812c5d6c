"""Structs that kernels take by value: one description of each, by which launchers pack arguments.

A description is a NumPy structured type with C's alignment, so that its bytes are those of the C++ struct; a test
compares the size and the offset of every field. Related arguments then have one name on both sides, and a kernel has at
most 12 of them. Values arrive in the constant bank of kernel parameters either way, so a struct costs no registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

POINTER, U64, U32, I32, F64 = np.uint64, np.uint64, np.uint32, np.int32, np.float64
_HISTORY_VECTORS = 9
"""``history_length`` of ``pagerank/anderson_products.cuh``."""
BLOCK_VECTORS, CG_RING, MOST_LAYERS, MOST_SLABS = 16, 8, 4, 16
"""``block_vectors`` of ``product/vectors.cu``, ``cg_ring`` of ``krylov/cg.cu``, the others of ``stored_basis.cuh``."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A C++ struct of namespace ``cpms``: its name, the file that defines it, and its type in NumPy.

    Examples
    --------
    >>> PEER_SIGNALS.name, PEER_SIGNALS.dtype.itemsize, PEER_SIGNALS.dtype.fields["ranks"][1]
    ('PeerSignals', 48, 40)
    """

    name: str
    file: str
    dtype: np.dtype[Any]


def _layout(name: str, file: str, *fields: tuple[Any, ...]) -> Layout:
    """Return a layout of fields: a type or a layout, names, and the shape of arrays."""
    parts = []
    for kind, names, *shape in fields:
        each = kind.dtype if isinstance(kind, Layout) else kind
        parts += [(field, each, *shape) for field in names.split()]
    return Layout(name, file, np.dtype(parts, align=True))


EDGES = _layout(
    "Edges",
    "persistent/warp_ranges.cuh",
    (POINTER, "sources row_end_flags range_begins first_rows first_ranges"),
    (U32, "ranges tiles rows block_ranges"),
    (POINTER, "carry_out"),
)
PANELS = _layout(
    "Panels",
    "persistent/tiled_gather.cuh",
    (POINTER, "block_panels ranges list_begins lists local_indices row_end_flags first_blocks"),
    (U32, "capacity tiles rows"),
    (POINTER, "carry_out"),
)
SELL_SLICES = _layout(
    "SellSlices",
    "persistent/sell_slices.cuh",
    (POINTER, "block_windows window_bins value_begins chunk_begins first_rows warp_starts slice_words slice_chunks"),
    (POINTER, "local_indices last_chunks first_blocks"),
    (U32, "capacity"),
    (POINTER, "carry_out"),
)
PROPAGATION_BLOCKING = _layout(
    "PropagationBlocking",
    "persistent/propagation_blocking.cuh",
    (POINTER, "local_indices octet_targets range_begins block_begins first_ranges"),
    (U32, "log2_run range values"),
    (SELL_SLICES, "slices"),
    (POINTER, "binned"),
)
NODES = _layout(
    "Nodes",
    "pagerank/nodes.cuh",
    (POINTER, "degree sink teleport"),
    (U32, "sink_stride teleport_stride count"),
    (F64, "damping"),
    (POINTER, "internal_degree degree_bytes internal_degree_bytes"),
)
QUANTISER_SETTINGS = _layout("QuantiserSettings", "base/quantiser.cuh", (U32, "scaled"), (I32, "top"), (U64, "seed"))
REFINE_REQUEST = _layout(
    "RefineRequest",
    "pagerank/refine_request.cuh",
    (F64, "inner_reduction tolerance noise_tolerance inner_reach inner_noise"),
    (U32, "norm max_sweeps max_inner_sweeps"),
    (QUANTISER_SETTINGS, "settings"),
)
ROUNDED_START = _layout(
    "RoundedStart", "pagerank/error_feedback.cuh", (POINTER, "row_begins"), (F64, "per_edge largest")
)
SENT_HISTORY = _layout(
    "SentHistory", "pagerank/anderson_products.cuh", (POINTER, "stored"), (U64, "bytes"), (U32, "vectors")
)
REFINE_VECTORS = _layout(
    "RefineVectors",
    "pagerank/refine_request.cuh",
    (POINTER, "contributions next_contributions residual correction"),
    (U32, "has_correction"),
    (SENT_HISTORY, "history"),
)
POWER_REQUEST = _layout("PowerRequest", "pagerank/persistent_power.cu", (F64, "tolerance"), (U32, "norm max_sweeps"))
SPMV_EPILOGUE = _layout(
    "Epilogue",
    "spmv/epilogue.cuh",
    (F64, "row_factor dangling_factor teleport_factor to_stored"),
    (POINTER, "dangling sink teleport"),
    (U32, "sink_stride teleport_stride"),
    (POINTER, "divisor out"),
    (U32, "length"),
    (U64, "seed"),
)
TRIM_GRAPH = _layout(
    "TrimGraph", "preprocess/trimming.cu", (POINTER, "indptr sources level"), (U32, "nodes max_entries")
)
TRIM_COST = _layout(
    "TrimCost",
    "preprocess/trimming.cu",
    (F64, "sweeps sweep level narrow_level swept solved solved_alone"),
    (U32, "narrow"),
)
LEVELS = _layout(
    "Levels",
    "preprocess/level_solve.cu",
    (POINTER, "indptr sources begins degrees teleport"),
    (U32, "teleport_stride core count"),
    (F64, "damping"),
)
CORE_SOLUTION = _layout("CoreSolution", "preprocess/level_solve.cu", (POINTER, "first other report internal_degree"))
TOPK_TILES = _layout("Tiles", "topk/topk.cu", (U32, "begin count stride step"))
BATCH_EDGES = _layout(
    "BatchEdges",
    "batch/batch.cuh",
    (POINTER, "sources row_end_flags first_rows first_tasks"),
    (U32, "tiles task_tiles rows"),
    (POINTER, "carry_out"),
)
COLUMNS = _layout("Columns", "batch/batch.cuh", (U32, "stride used"))
TELEPORT_ENTRIES = _layout("TeleportEntries", "batch/batch.cuh", (POINTER, "starts columns weights"), (U32, "first"))
BATCH_NODES = _layout(
    "BatchNodes",
    "batch/nodes.cuh",
    (POINTER, "degree internal_degree"),
    (TELEPORT_ENTRIES, "teleport"),
    (U32, "count dangling_degree"),
    (COLUMNS, "columns"),
)
RECEIVED_TOTALS = _layout("ReceivedTotals", "multi_gpu/rank_totals.cuh", (POINTER, "by_rank"), (U32, "ranks"))
RANK_VECTOR = _layout("RankVector", "multi_gpu/rank_totals.cuh", (POINTER, "all own received"))
RANK_HISTORY = _layout("RankHistory", "multi_gpu/rank_sweep.cu", (POINTER, "own received", (_HISTORY_VECTORS,)))
PEER_SIGNALS = _layout(
    "PeerSignals",
    "persistent/peer_signals.cuh",
    (POINTER, "sent_indices begins signals_to signals counts"),
    (U32, "ranks rank"),
)
SHARED_VECTOR = _layout("SharedVector", "pagerank/ranks.cuh", (POINTER, "memory values_to"))
RANKS = _layout(
    "Ranks",
    "pagerank/ranks.cuh",
    (PEER_SIGNALS, "peers"),
    (SHARED_VECTOR, "x", (2,)),
    (SHARED_VECTOR, "history"),
    (POINTER, "received totals_to spent"),
    (U32, "halo_begin halo_end"),
)


ROWS_TO_CERTIFY = _layout(
    "CertifiedRows",
    "certificate/residual.cu",
    (POINTER, "indptr sources sink teleport"),
    (F64, "damping"),
    (U32, "nodes sink_stride teleport_stride"),
)
LONG_ROWS = _layout("LongRows", "certificate/residual.cu", (POINTER, "rows first_pieces"), (U32, "count shortest"))

ROUNDING_REQUEST = _layout(
    "RoundingRequest",
    "convert/round.cu",
    (POINTER, "values out"),
    (U64, "length"),
    (F64, "factor back"),
    (POINTER, "counts"),
)
ROUNDING_RULE = _layout(
    "RoundingRule",
    "convert/rounding_rules.cuh",
    (U64, "top beyond infinite seed limit"),
    (F64, "step steps"),
    (U32, "dropped least saturates signless exponent nan_beyond"),
)

PRODUCT = _layout(
    "Product",
    "product/row_end.cuh",
    (POINTER, "starts columns values order exponents x out add dot sums blocks long_rows first_parts parts"),
    (POINTER, "bases far far_columns"),
    (F64, "alpha beta factor"),
    (U64, "slots rows slice_rows length stride"),
    (POINTER, "ended"),
    (U64, "first_even base_stride"),
)
VECTOR_BLOCK = _layout(
    "VectorBlock",
    "product/vectors.cu",
    (POINTER, "vector", (BLOCK_VECTORS,)),
    (F64, "factor", (BLOCK_VECTORS,)),
    (POINTER, "w sums"),
    (U64, "length"),
)
CG = _layout(
    "Cg",
    "krylov/cg.cu",
    (POINTER, "r p next q x before now partials counter product scale"),
    (U64, "length padded count"),
    (POINTER, "of_row starts entries"),
    (U64, "stride"),
    (POINTER, "ring", (CG_RING,)),
    (POINTER, "z"),
)
SWEEP = _layout(
    "Sweep",
    "krylov/sweeps.cu",
    (POINTER, "r c s q inverse square partials counter"),
    (F64, "keep turn"),
    (U64, "length padded subtracts steps"),
)
ARNOLDI = _layout(
    "Arnoldi",
    "krylov/stored_basis.cuh",
    (POINTER, "slab", (MOST_LAYERS, MOST_SLABS)),
    (U64, "count", (MOST_LAYERS,)),
    (U64, "layers width spared stride first mode last padded"),
    (POINTER, "w"),
    (POINTER, "out", (MOST_LAYERS,)),
    (POINTER, "sum partials"),
    (U64, "blocks"),
    (POINTER, "parts squares columns"),
    (U64, "rows"),
    (POINTER, "state entries counter"),
)


def every() -> list[Layout]:
    """Return all layouts."""
    return [layout for layout in globals().values() if isinstance(layout, Layout)]
