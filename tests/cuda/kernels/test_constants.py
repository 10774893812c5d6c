"""Numbers that kernels and launchers both have are the same in both."""

import subprocess

import pytest

from cpms.backends.cuda.arrays import launch_convert, launch_topk
from cpms.backends.cuda.certificate import recomputation
from cpms.backends.cuda.kernels import launch_shape, product, source, template
from cpms.backends.cuda.krylov import arnoldi, basis, cg, pattern_matrix
from cpms.backends.cuda.persistent import device_graph, refinement, sell_slices, tiled_gather
from cpms.backends.cuda.reduction import level_solve, lumping, trimming
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.host_emulation import compiler
from cpms.backends.cuda.spmv import coo, padded_csr
from cpms.backends.mpi.exchange import device_vectors
from cpms.formats.block_float import LEAST_EXPONENT
from cpms.precision.anderson import HISTORY_VECTORS, PRODUCTS

SAME = {
    "base/shared_staging.cuh": {"octet_nodes": tiled_gather.OCTET_NODES},
    "base/tile_layout.cuh": {"tile_entries": template.WHOLE_VALUES},
    "base/warp.cuh": {"block_threads": THREADS},
    "certificate/residual.cu": {"ResidualNorms::words": recomputation._NORM_WORDS},
    "convert/convert.cu": {"most_staged": launch_convert.MAX_STAGED},
    "krylov/cg.cu": {
        "cg_ring": cg.RING,
        "pattern_batch": pattern_matrix.BATCH,
        "pattern_rows<float>": pattern_matrix.THREAD_ROWS,
    },
    "krylov/stored_basis.cuh": {
        "slab_vectors": basis.SLAB_VECTORS,
        "most_chosen": arnoldi._MOST_CHOSEN,
        "any_mode": arnoldi._ANY,
    },
    "multi_gpu/rank_totals.cuh": {"RankTotals::count": device_vectors.RANK_TOTALS},
    "pagerank/anderson_products.cuh": {"history_length": HISTORY_VECTORS, "product_count": PRODUCTS},
    "pagerank/deferred_update.cuh": {"max_deferred": refinement._FEEDBACK_HISTORY},
    "pagerank/sweep_log.cuh": {
        "inner_sweep_mark": refinement._INNER_MARK,
        "rounded_start_mark": refinement._ROUNDED_START_MARK,
    },
    "persistent/grid_sync.cuh": {
        "max_partials": device_graph._MAX_PARTIALS,
        "line_words": device_graph._LINE_WORDS,
        "persistent_threads": launch_shape.DEFAULT_SHAPE.threads,
        "min_persistent_warps": min(launch_shape.SHAPES.values()).warps,
    },
    "persistent/sell_slices.cuh": {
        "SellSlices::no_chunk": sell_slices.NO_CHUNK,
        "SellSlices::last_of_window": sell_slices._LAST_OF_WINDOW,
        "SliceSums::prefetched": sell_slices._PREFETCHED,
        "max_window_sums": launch_shape.MAX_WINDOW_SUMS,
    },
    "preprocess/level_solve.cu": {"narrow_level": trimming._NARROW, "lumped": level_solve.LUMPED},
    "preprocess/lumping.cu": {"absent": lumping._ABSENT},
    "preprocess/trimming.cu": {"no_level": trimming._NO_LEVEL, "last_level": trimming._LAST_LEVEL},
    "product/block_float.cuh": {"least_exponent": LEAST_EXPONENT},
    "product/row_blocks.cu": {"block_entries": product.BLOCK_ENTRIES},
    "spmv/csr_balanced.cu": {f"run_entries({bits})": padded_csr._run_entries(bits) for bits in (8, 16, 32, 64)},
    "spmv/reduce_by_key.cu": {"task_edges": coo.KEY_TASK_EDGES, "tile_entries": coo.TILE_EDGES},
    "topk/topk.cu": {f"Tile<{real}>::loads * sizeof(Quad)": launch_topk._LOADS_BYTES for real in ("double", "float")},
}
"""By file, expressions of namespace ``cpms`` and the values that launchers have."""
NUMBERS = {
    "krylov/stored_basis.cuh": {"ArnoldiState": arnoldi._STATE, "ArnoldiEntry": arnoldi._ENTRY},
}
"""Structs of float64 that the host reads, and the names of their fields in order."""


def claims(same, numbers):
    """Return C++ that compiles if all numbers are the same."""
    yield f'#include <cstddef>\n#include "{source.folder() / "host/host_emulation.hpp"}"'
    yield source.assemble({**same, **numbers}) + "namespace cpms {"
    for values in same.values():
        yield from (f'static_assert({each} == {value}, "{each} == {value}");' for each, value in values.items())
    for structs_of_file in numbers.values():
        for name, fields in structs_of_file.items():
            yield f'static_assert(sizeof({name}) == {8 * len(fields)}, "{name}");'
            yield from (
                f'static_assert(offsetof({name}, {field}) == {8 * k}, "{name}.{field}");'
                for k, field in enumerate(fields)
            )
    yield "}\n"


def errors(same, numbers):
    command = [compiler(), "-x", "c++", "-std=c++20", "-w", "-fsyntax-only", "-"]
    given = "\n".join(claims(same, numbers))
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False).stderr


pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler")


def test_numbers_are_the_same():
    assert errors(SAME, NUMBERS) == ""


def test_other_numbers_would_be_seen():
    assert "most_staged == 4095" in errors({"convert/convert.cu": {"most_staged": 4095}}, {})
    swapped = {"krylov/stored_basis.cuh": {"ArnoldiEntry": (*arnoldi._ENTRY[:-2], "read", "sine")}}
    assert "ArnoldiEntry.read" in errors({}, swapped)
