// Builds device layouts from a graph's CSR rows: padded CSR in tiles, row-end flags, ELL columns, matrix values. Each
// kernel is one pass, by entries or by rows.
#include "base/for_each_edge.cuh"
#include "base/warp.cuh"

namespace cpms {

// Edge k of row j goes to entry begins[j] + its place in the row; `position` renumbers its source.
CPMS_KERNEL(256) place_entries(const u32* starts, const u32* begins, const u32* position, const u32* sources,
                               const double* weights, u32 rows, u32 edges, u32* out_sources, double* out_weights) {
    for_each_edge(starts, rows, edges, [&](u32 edge, u32 row) {
        const u64 entry = begins[row] + (edge - starts[row]);
        out_sources[entry] = position ? position[sources[edge]] : sources[edge];
        if (weights) out_weights[entry] = weights[edge];
    });
}

// Sets one bit an entry at the end of each row, in the low byte of each 16-bit flag word (see Edges in
// persistent/warp_ranges.cuh), in any order. row_entries[row] is the first entry of a row.
CPMS_KERNEL(256) flag_row_ends(const u32* row_entries, u32 rows, u32* row_end_flags) {
    for_each_index(rows, [&](u64 row) {
        const u32 entry = row_entries[row + 1] - 1;
        // Two 16-bit flags, of eight entries each, share a word.
        atomicOr(row_end_flags + entry / 16, 1u << (entry % 8 + entry % 16 / 8 * 16));
    });
}

// Adds to each flag word, above the bits of its eight entries, the number of rows that ended before them in their tile.
// There are at most 248. One thread a tile.
CPMS_KERNEL(256) count_row_ends(u16* row_end_flags, u32 tiles) {
    for_each_index(tiles, [&](u32 tile) {
        u32 before = 0;
        for (u32 i = 0; i < 32; ++i) {
            const u32 ends = row_end_flags[tile * 32 + i] & 0xFF;
            row_end_flags[tile * 32 + i] = (u16)(ends | before << 8);
            before += __popc(ends);
        }
    });
}

// For each tile of 256 entries, the number of cache lines of `line_values` values that gathers of 32 entries touch.
// One warp a tile.
CPMS_KERNEL(256) count_lines(const u32* sources, u32 tiles, u32 line_values, u16* touched) {
    const u32 warps = gridDim.x * (blockDim.x / 32), lane = threadIdx.x % 32;
    for (u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32; tile < tiles; tile += warps) {
        u32 found = 0;
#pragma unroll
        for (u32 first = 0; first < 256; first += 32) {
            const u32 alike = __match_any_sync(all_lanes, sources[(u64)tile * 256 + first + lane] / line_values);
            found += __popc(__ballot_sync(all_lanes, alike >> lane == 1));  // the last lane counts for its line
        }
        if (lane == 0) touched[tile] = (u16)found;
    }
}

// Counts the out-edges of each node; counts[nodes] are the sources that are no nodes, which the host refuses.
CPMS_KERNEL(256) count_sources(const u32* sources, u64 edges, u32 nodes, u32* counts) {
    for_each_index(edges, [&](u64 k) { atomicAdd(counts + (sources[k] < nodes ? sources[k] : nodes), 1u); });
}

// Entry c of row j goes to c * length + j; all other places get padding_index and weight 0.
CPMS_KERNEL(256) place_columns(const u32* starts, const u32* sources, const double* weights, u32 rows, u32 width,
                               u32 length, u32 padding_index, u32* out_sources, double* out_weights) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= length) return;
    const u32 begin = row < rows ? starts[row] : 0;
    const u32 count = row < rows ? starts[row + 1] - begin : 0;
    for (u32 c = 0; c < width; ++c) {
        const u64 at = (u64)c * length + row;
        out_sources[at] = c < count ? sources[begin + c] : padding_index;
        if (weights) out_weights[at] = c < count ? weights[begin + c] : 0.0;
    }
}

// values[k] is the factor of its source, times the weight already there. `out_weights` are inverse out-weights, and 0
// past the last row, where padding points to.
CPMS_KERNEL(256) fill_values(const u32* sources, const double* out_weights, u64 entries, u32 weighted, double* values) {
    for_each_index(entries, [&](u64 k) {
        const double value = out_weights[sources[k]];
        values[k] = weighted ? value * values[k] : value;
    });
}

}  // namespace cpms
