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

_KERNELS = {
    "spmv/csr_thread_per_row.cu": "spmv_csr_thread",
    "spmv/csr_balanced.cu": "spmv_csr_balanced",
    "spmv/ell.cu": "spmv_ell",
    "spmv/norms.cu": "difference selected_sum plain_norm",
    "convert/scale.cu": "scale",
    "convert/convert.cu": "encode decode convert_tiles convert_spans",
    "convert/round.cu": "round_values round_groups largest_size",
    "convert/permute_cycles.cu": "save_first permute_cycles",
    "convert/gather.cu": "gather",
    "multi_gpu/pack.cu": "pack",
    "multi_gpu/remote_store.cu": "remote_store",
    "preprocess/edge_list.cu": "pack_edges narrow find_rows unpack_sources",
    "preprocess/edge_updates.cu": "find_edges shift_rows merge_edges",
    "certificate/residual.cu": "certify_mass certify_scale certify_long_rows certify_pieces certify_rows certify_norms",
    "preprocess/padded_csr.cu": (
        "place_entries flag_row_ends count_row_ends count_lines count_sources place_columns fill_values"
    ),
    "preprocess/equal_ranges.cu": "count_empty_rows place_row_starts fill_tiles split_tiles describe_ranges",
    "preprocess/trimming.cu": "trim_upstream trim_downstream",
    "preprocess/lumping.cu": "hash_targets move_entries",
    "preprocess/convergence_estimate.cu": "convergence_estimate",
    "preprocess/level_solve.cu": "solve_upstream solve_downstream",
    "convert/contributions.cu": "fill_uniform degree_bytes to_contributions from_contributions",
    "pagerank/persistent_refine.cu": (
        "persistent_refine persistent_refine_in_cache persistent_refine_hub_cache persistent_refine_tiled_gather "
        "persistent_refine_inner_blocked persistent_refine_blocked error_feedback error_feedback_hub_cache "
        "error_feedback_inner_blocked error_feedback_blocked rank_refine rank_refine_tiled_gather "
        "rank_refine_inner_blocked rank_refine_blocked rank_feedback rank_feedback_inner_blocked rank_feedback_blocked"
    ),
    "pagerank/persistent_power.cu": (
        "persistent_power persistent_power_in_cache persistent_power_hub_cache persistent_power_blocked rank_power "
        "rank_power_blocked"
    ),
    "convert/affine.cu": "affine",
    "spmv/coo.cu": "coo_product coo_carry_out coo_atomic coo_epilogue",
    "spmv/coo_sums.cu": "coo_dangling coo_distance",
    "spmv/reduce_by_key.cu": "reduce_by_key key_dangling key_distance",
    "topk/topk.cu": "topk",
    "batch/residual_sweep.cu": (
        "batch_residual_sweep batch_row_sums batch_first_sweep batch_correct batch_downstream batch_scores batch_reduce"
    ),
    "batch/inner_sweep.cu": "batch_inner_sweep batch_quantise batch_advance",
    "batch/anderson.cu": "batch_products batch_combine batch_apply_history batch_after_combine",
    "multi_gpu/rank_sweep.cu": (
        "rank_correct rank_residual_sweep rank_quantise rank_inner_sweep rank_products rank_combine"
    ),
    "product/slices.cu": "product_slices",
    "product/rows.cu": "product_rows",
    "product/row_blocks.cu": "product_row_blocks",
    "product/block_float.cu": "encode_blocks decode_blocks",
    "product/vectors.cu": "vector_dots vector_combine vector_update",
    "krylov/cg.cu": "cg_patterns cg_curvature cg_applied cg_update cg_direction cg_solution cg_load",
    "krylov/sweeps.cu": "sweep_pass",
    "krylov/arnoldi.cu": "arnoldi_dots arnoldi_parts arnoldi_combine arnoldi_store",
}
"""The kernels of each file. Macros make those with template arguments; the others are in the file."""
_FILES = {kernel: file for file, kernels in _KERNELS.items() for kernel in kernels.split()}
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
    macro: str = ""
    """The macro that makes the kernel, if it has another name than the kernel."""

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
        """The line of C++ that makes the function; none without template arguments, since its file defines it."""
        made = f"CPMS_{(self.macro or self.kernel).upper()}({', '.join([self.symbol, *self.arguments])})"
        return made if self.names else ""


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
    instances = "\n".join(variant.instance for variant in distinct if variant.instance)
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


def _kernels(file: str) -> tuple[Variant, ...]:
    """Return the kernels of a file without template arguments."""
    return tuple(map(Variant, _KERNELS[file].split()))


PADDED_CSR = _kernels("preprocess/padded_csr.cu")
EQUAL_RANGES = _kernels("preprocess/equal_ranges.cu")
"""The kernels that build an arrangement of equal shares."""
PACKS_OF_EDGES = {
    name: Variant("pack_edges", (name,), (c_name,))
    for name, c_name in (("int32", "int"), ("int64", "long long"), ("uint32", "unsigned"), ("uint64", "cpms::u64"))
}
"""The kernels that make keys of edges, by the type of ids."""
ROWS_OF_EDGES = tuple(map(Variant, ("find_rows", "unpack_sources", "narrow")))
"""The kernels that make rows of sorted keys."""
EDGE_UPDATES = _kernels("preprocess/edge_updates.cu")
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
TRIMMING = _kernels("preprocess/trimming.cu")
LUMPING = _kernels("preprocess/lumping.cu")
CONVERGENCE_ESTIMATE = Variant("convergence_estimate")
LEVEL_SOLVE = _kernels("preprocess/level_solve.cu")
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
