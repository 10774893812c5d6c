"""Kernel variants: template arguments, symbol, and the C++ line that instantiates each.

A program is the text of the kernels' files followed by one such line a variant, so that the compiler (NVRTC) translates
the variants of one solve and no others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cpms.backends.cuda.kernels import source
from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE, Shape
from cpms.formats.formats import FloatFormat, Format, SegmentFormat

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
    "round_values": "convert/round.cu",
    "round_groups": "convert/round.cu",
    "largest_size": "convert/round.cu",
    "save_first": "convert/permute_cycles.cu",
    "permute_cycles": "convert/permute_cycles.cu",
    "gather": "convert/gather.cu",
    "pack": "multi_gpu/pack.cu",
    "remote_store": "multi_gpu/remote_store.cu",
    "pack_edges": "preprocess/edge_list.cu",
    "narrow": "preprocess/edge_list.cu",
    "find_rows": "preprocess/edge_list.cu",
    "unpack_sources": "preprocess/edge_list.cu",
    "find_edges": "preprocess/edge_updates.cu",
    "shift_rows": "preprocess/edge_updates.cu",
    "merge_edges": "preprocess/edge_updates.cu",
    "certify_mass": "certificate/residual.cu",
    "certify_scale": "certificate/residual.cu",
    "certify_long_rows": "certificate/residual.cu",
    "certify_pieces": "certificate/residual.cu",
    "certify_rows": "certificate/residual.cu",
    "certify_norms": "certificate/residual.cu",
    "place_entries": "preprocess/padded_csr.cu",
    "flag_row_ends": "preprocess/padded_csr.cu",
    "count_row_ends": "preprocess/padded_csr.cu",
    "count_lines": "preprocess/padded_csr.cu",
    "count_sources": "preprocess/padded_csr.cu",
    "place_columns": "preprocess/padded_csr.cu",
    "fill_values": "preprocess/padded_csr.cu",
    "count_empty_rows": "preprocess/equal_ranges.cu",
    "place_row_starts": "preprocess/equal_ranges.cu",
    "fill_tiles": "preprocess/equal_ranges.cu",
    "split_tiles": "preprocess/equal_ranges.cu",
    "describe_ranges": "preprocess/equal_ranges.cu",
    "trim_upstream": "preprocess/trimming.cu",
    "trim_downstream": "preprocess/trimming.cu",
    "hash_targets": "preprocess/lumping.cu",
    "move_entries": "preprocess/lumping.cu",
    "convergence_estimate": "preprocess/convergence_estimate.cu",
    "solve_upstream": "preprocess/level_solve.cu",
    "solve_downstream": "preprocess/level_solve.cu",
    "fill_uniform": "convert/contributions.cu",
    "degree_bytes": "convert/contributions.cu",
    "to_contributions": "convert/contributions.cu",
    "from_contributions": "convert/contributions.cu",
    "persistent_refine": "pagerank/persistent_refine.cu",
    "persistent_refine_in_cache": "pagerank/persistent_refine.cu",
    "persistent_refine_hub_cache": "pagerank/persistent_refine.cu",
    "persistent_refine_tiled_gather": "pagerank/persistent_refine.cu",
    "persistent_refine_inner_blocked": "pagerank/persistent_refine.cu",
    "persistent_refine_blocked": "pagerank/persistent_refine.cu",
    "error_feedback": "pagerank/persistent_refine.cu",
    "error_feedback_hub_cache": "pagerank/persistent_refine.cu",
    "error_feedback_inner_blocked": "pagerank/persistent_refine.cu",
    "error_feedback_blocked": "pagerank/persistent_refine.cu",
    "persistent_power": "pagerank/persistent_power.cu",
    "persistent_power_in_cache": "pagerank/persistent_power.cu",
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
    "rank_power": "pagerank/persistent_power.cu",
    "rank_power_blocked": "pagerank/persistent_power.cu",
    "rank_refine": "pagerank/persistent_refine.cu",
    "rank_refine_tiled_gather": "pagerank/persistent_refine.cu",
    "rank_refine_inner_blocked": "pagerank/persistent_refine.cu",
    "rank_refine_blocked": "pagerank/persistent_refine.cu",
    "rank_feedback": "pagerank/persistent_refine.cu",
    "rank_feedback_inner_blocked": "pagerank/persistent_refine.cu",
    "rank_feedback_blocked": "pagerank/persistent_refine.cu",
    "product_slices": "product/slices.cu",
    "product_rows": "product/rows.cu",
    "product_row_blocks": "product/row_blocks.cu",
    "encode_blocks": "product/block_float.cu",
    "decode_blocks": "product/block_float.cu",
    "vector_dots": "product/vectors.cu",
    "vector_combine": "product/vectors.cu",
    "vector_update": "product/vectors.cu",
    "cg_patterns": "krylov/cg.cu",
    "cg_curvature": "krylov/cg.cu",
    "cg_applied": "krylov/cg.cu",
    "cg_update": "krylov/cg.cu",
    "cg_direction": "krylov/cg.cu",
    "cg_solution": "krylov/cg.cu",
    "cg_load": "krylov/cg.cu",
    "sweep_pass": "krylov/sweeps.cu",
    "arnoldi_dots": "krylov/arnoldi.cu",
    "arnoldi_parts": "krylov/arnoldi.cu",
    "arnoldi_combine": "krylov/arnoldi.cu",
    "arnoldi_store": "krylov/arnoldi.cu",
}
WHOLE_VALUES = 256
"""Device vectors and matrices hold a multiple of so many values: the entries of a tile."""


@dataclass(frozen=True)
class Variant:
    """A kernel and its template arguments, as C++ text.

    Examples
    --------
    >>> from cpms.backends.cuda.kernels.streaming import scale
    >>> from cpms.formats.formats import FP64
    >>> scale(FP64, 1).symbol
    'scale__w64_b0_zero_whole__1'
    >>> scale(FP64, 1).instance
    'CPMS_SCALE(scale__w64_b0_zero_whole__1, cpms::Segments<cpms::Widths<64>, 0, cpms::Rounding::zero, true>, 1)'
    """

    kernel: str
    names: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    shape: Shape = DEFAULT_SHAPE
    """Launch shape of persistent kernels."""
    shared: int = 0
    """Bytes of dynamic shared memory of a launch."""

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
    >>> from cpms.backends.cuda.kernels.streaming import scale
    >>> from cpms.formats.formats import FP64
    >>> text = program([scale(FP64, 1), scale(FP64, 1)])
    >>> text.count("CPMS_SCALE(scale__w64")
    1
    """
    distinct = list(dict.fromkeys(variants))
    instances = "\n".join(variant.instance for variant in distinct)
    # A copy, since another thread may add a codec meanwhile.
    codecs = [text for name, text in list(_CODECS.items()) if name in instances]
    files = dict.fromkeys(variant.file for variant in distinct)
    text = source.assemble([*files, *(["convert/coded_format.cuh"] if codecs else [])])
    return text + "".join(codecs) + '#line 1 "instances"\n' + instances + "\n"


def is_whole(storage: Format) -> bool:
    """Return whether arrays of a multiple of 256 values hold whole blocks of the format.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4, SegmentFormat
    >>> is_whole(CPMS4), is_whole(SegmentFormat("odd", (32, 32), 3))
    (True, False)
    """
    blocks = storage.block if isinstance(storage, SegmentFormat) else None
    return blocks is None or WHOLE_VALUES % blocks == 0


def storage_type(storage: Format, *, whole: bool) -> tuple[str, str]:
    """Return a short name of the format and its C++ type.

    Parameters
    ----------
    storage : Format
    whole : bool
        Whether arrays are known to be made of whole blocks.

    Examples
    --------
    >>> from cpms.formats.formats import BF16
    >>> storage_type(BF16, whole=True)
    ('e8m7_nearest', 'cpms::PackedFloat<8, 7, cpms::Rounding::nearest>')
    """
    if not isinstance(storage, SegmentFormat | FloatFormat):
        return _coded(storage)
    rounding = f"cpms::Rounding::{storage.rounding}"
    if isinstance(storage, FloatFormat):
        split = f"{storage.exponent_bits}, {storage.mantissa_bits}"
        name = f"e{storage.exponent_bits}m{storage.mantissa_bits}_{storage.rounding}"
        return name, f"cpms::PackedFloat<{split}, {rounding}>"
    widths = ", ".join(map(str, storage.widths))
    block = storage.block or 0
    name = f"w{'_'.join(map(str, storage.widths))}_b{block}_{storage.rounding}_{'whole' if whole else 'ragged'}"
    return name, f"cpms::Segments<cpms::Widths<{widths}>, {block}, {rounding}, {str(whole).lower()}>"


_CODECS: dict[str, str] = {}
"""Codecs of formats of the protocol by the names of their structs, which are digests of their text."""


def _coded(storage: Format) -> tuple[str, str]:
    """Return the names of a format of the protocol, and remember its codec for the programs that have it."""
    codec = storage.cuda_codec() or ""
    name = f"codec_{source.digest(codec)}"
    _CODECS[name] = f'#line 1 "cuda_codec of a format"\nnamespace cpms {{\nstruct {name} {{\n{codec}\n}};\n}}\n'
    parts = f"{storage.group_bytes}", f"{storage.levels}"
    return "_".join((name, *parts)), f"cpms::CodedFormat<cpms::{name}, {', '.join(parts)}>"


PADDED_CSR = tuple(
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
EQUAL_RANGES = tuple(
    map(Variant, ("count_empty_rows", "place_row_starts", "fill_tiles", "split_tiles", "describe_ranges"))
)
"""The kernels that build an arrangement of equal shares."""
PACKS_OF_EDGES = {
    name: Variant("pack_edges", (name,), (c_name,))
    for name, c_name in (("int32", "int"), ("int64", "long long"), ("uint32", "unsigned"), ("uint64", "cpms::u64"))
}
"""The kernels that make keys of edges, by the type of ids."""
ROWS_OF_EDGES = tuple(map(Variant, ("find_rows", "unpack_sources", "narrow")))
"""The kernels that make rows of sorted keys."""
EDGE_UPDATES = tuple(map(Variant, ("find_edges", "shift_rows", "merge_edges")))
"""The kernels that merge changes into rows."""
CERTIFIED_ROWS = {lanes: Variant("certify_rows", (str(lanes),), (str(lanes),)) for lanes in (1, 4, 8, 32)}
"""The kernels that recompute residuals, by the lanes that sum a row together."""
CERTIFICATE = tuple(Variant(f"certify_{name}") for name in ("mass", "scale", "long_rows", "pieces", "norms"))
GATHERS = {
    8: Variant("gather", ("u8",), ("unsigned char",)),
    16: Variant("gather", ("u16",), ("unsigned short",)),
    32: Variant("gather", ("u32",), ("unsigned",)),
    64: Variant("gather", ("u64",), ("unsigned long long",)),
}
"""Gathers without arithmetic, by the bits of a value: the bound of a sweep's speed."""
PACKS = {bits: Variant("pack", gather.names, gather.arguments) for bits, gather in GATHERS.items()}
"""The kernels that pack a rank's halo values for sending, by the bits of a value."""
REMOTE_STORES = {bits: Variant("remote_store", gather.names, gather.arguments) for bits, gather in GATHERS.items()}
"""The kernels that store a rank's halo values in the memory of others, by the bits of a value."""
TRIMMING = tuple(map(Variant, ("trim_upstream", "trim_downstream")))
LUMPING = tuple(map(Variant, ("hash_targets", "move_entries")))
CONVERGENCE_ESTIMATE = Variant("convergence_estimate")
LEVEL_SOLVE = tuple(map(Variant, ("solve_upstream", "solve_downstream")))
CONTRIBUTIONS = tuple(map(Variant, ("to_contributions", "from_contributions", "fill_uniform", "degree_bytes")))
"""Conversions between the iterate and its contributions x / out-degree, and between the orders of nodes."""
CYCLE_PERMUTATION = tuple(map(Variant, ("save_first", "permute_cycles")))
AFFINE = {
    "float64": Variant("affine", ("float64",), ("double",)),
    "float32": Variant("affine", ("float32",), ("float",)),
}
PRODUCTS = {
    "csr": ("spmv_csr_balanced", "spmv_csr_thread"),
    "pattern": ("spmv_csr_balanced", "spmv_csr_thread"),
    "ell": ("spmv_ell",),
}
"""The kernels that multiply in each layout."""


def _shaped(kernel: str, shape: Shape, names: tuple[str, ...], arguments: tuple[str, ...]) -> Variant:
    """Return a variant whose launch bounds are a shape's."""
    numbers = f"{shape.threads}", f"{shape.blocks_per_processor}"
    return Variant(kernel, (*names, "x".join(numbers)), (*numbers, *arguments), shape)


def _matrix(pattern: bool) -> str:
    return "pattern" if pattern else "values"


def _teleport(personal: bool) -> str:
    return "personal" if personal else "uniform"


def _direction(to_segments: bool) -> str:
    return "to_segments" if to_segments else "to_float64"


def _bool(value: bool) -> str:
    return str(value).lower()
