// Padded entries and warp ranges of equal shares directly from a graph's rows, in five launches. Rows of at least one
// entry begin at their first edge plus the empty rows before them, a prefix sum by blocks; a warp then writes each tile
// of 256 entries as lanes load it, with its row-end flags, so that no entry is written twice and no flag needs an
// atomic. Shares end at quantiles of a prefix sum of costs, as in merge-based CSR products (Merrill and Garland, 2016).
#include "base/for_each_edge.cuh"
#include "spmv/carry_out.cuh"

namespace cpms {

// Every thread gets the sum over the block. All threads must call it.
CPMS_DEVICE u32 block_total(u32 value) {
    __shared__ u32 of_warps[block_warps];
    value = warp_reduce(value, [](u32 a, u32 b) { return a + b; });
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    u32 total = 0;
    for (int warp = 0; warp < block_warps; ++warp) total += of_warps[warp];
    return total;
}

// Blocks have equal shares of adjacent rows.
CPMS_DEVICE u32 first_row_of_block(u32 rows, u32 block) { return (u32)((u64)rows * block / gridDim.x); }

CPMS_KERNEL(256) count_empty_rows(const u32* indptr, u32 rows, u32* counts) {
    const u32 begin = first_row_of_block(rows, blockIdx.x), end = first_row_of_block(rows, blockIdx.x + 1);
    u32 found = 0;
    for (u32 row = begin + threadIdx.x; row < end; row += blockDim.x) found += indptr[row] == indptr[row + 1];
    found = block_total(found);
    if (threadIdx.x == 0) counts[blockIdx.x] = found;
}

// starts[row] is the first entry of a row, and starts[rows] the number of entries; `counts` are of as many blocks.
CPMS_KERNEL(256) place_row_starts(const u32* indptr, u32 rows, const u32* counts, u32* starts) {
    __shared__ u32 of_warps[block_warps];
    const u32 begin = first_row_of_block(rows, blockIdx.x), end = first_row_of_block(rows, blockIdx.x + 1);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 before = 0;
    for (u32 block = threadIdx.x; block < blockIdx.x; block += blockDim.x) before += counts[block];
    before = block_total(before);
    for (u32 first = begin; first < end; first += blockDim.x) {
        const u32 row = first + threadIdx.x;
        const u32 empty = __ballot_sync(all_lanes, row < end && indptr[row] == indptr[row + 1]);
        __syncthreads();
        if (lane == 0) of_warps[warp] = __popc(empty);
        __syncthreads();
        u32 mine = before + __popc(empty & ((1u << lane) - 1));
        for (u32 w = 0; w < block_warps; ++w) {
            if (w < warp) mine += of_warps[w];
            before += of_warps[w];
        }
        if (row < end) starts[row] = indptr[row] + mine;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) starts[rows] = indptr[rows] + before;
}

// One warp a tile. Entries that are no edges name node `rows`; tile_rows are the rows of tiles' first entries. Flags
// and the order of entries are those of Edges in persistent/warp_ranges.cuh.
CPMS_KERNEL(256) fill_tiles(const u32* indptr, const u32* starts, const u32* sources, u32 rows, u32 tiles,
                            u32* out_sources, u16* row_end_flags, u32* tile_rows) {
    const u32 warps = gridDim.x * block_warps, lane = threadIdx.x % 32, count = starts[rows];
    for (u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32; tile < tiles; tile += warps) {
        const u32 first_entry = tile * tile_entries, left = count - first_entry;
        const u32 first = row_of(starts, 0, rows, first_entry);
        const u32 last = row_of(starts, first, first + smaller(rows - first, tile_entries),
                                first_entry + smaller(left, tile_entries) - 1);
        u32 ended = 0;
        for (u32 part = 0; part < 8; ++part) {
            const u32 entry = first_entry + part * 32 + lane;
            const bool is_entry = part * 32 + lane < left;
            const u32 row = is_entry ? row_of(starts, first, last + 1, entry) : last;
            const u32 edge = indptr[row] + (entry - starts[row]);
            const bool is_edge = is_entry && edge < indptr[row + 1];
            const u32 ends = __ballot_sync(all_lanes, is_entry && entry + 1 == starts[row + 1]);
            if (lane < 4) {
                const u32 before = ended + __popc(ends & ((1u << 8 * lane) - 1));
                row_end_flags[tile * 32 + part * 4 + lane] = (u16)((ends >> 8 * lane & 0xFF) | before << 8);
            }
            ended += __popc(ends);
            out_sources[first_entry + part / 4 * 128 + lane * 4 + part % 4] = is_edge ? sources[edge] : rows;
        }
        if (lane == 0) tile_rows[tile] = first;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) tile_rows[tiles] = rows;
}

// One block finds the first tile of each of `parts` parts, none empty: a tile costs `tile_cost`, and a row 1. A part
// begins at its quantile of the cost, but at least one tile after the part before it. So tiles less part numbers must
// not decrease: a running maximum, by a scan over the block.
CPMS_KERNEL(256) split_tiles(const u32* tile_rows, u32 tiles, u32 parts, u32 tile_cost, u32* begins) {
    __shared__ int found[block_threads];
    const auto cost = [&](u32 tile) { return (u64)tile_cost * tile + tile_rows[tile]; };
    const u64 total = cost(tiles);
    int largest = 0;  // the running maximum of the parts before
    for (u32 first = 0; first < parts; first += block_threads) {
        const u32 part = first + threadIdx.x;
        const u32 begin = partition_point(0, part < parts ? tiles : 0,
                                          [&](u32 tile) { return cost(tile) < total * part / parts; });
        int mine = part < parts ? (int)begin - (int)part : 0;
        for (u32 distance = 1; distance < block_threads; distance *= 2) {
            __syncthreads();
            found[threadIdx.x] = mine;
            __syncthreads();
            if (threadIdx.x >= distance && found[threadIdx.x - distance] > mine) mine = found[threadIdx.x - distance];
        }
        __syncthreads();
        found[threadIdx.x] = mine;
        __syncthreads();
        if (mine < largest) mine = largest;
        if (part < parts) begins[part] = (mine < (int)(tiles - parts) ? mine : tiles - parts) + part;
        if (largest < found[block_threads - 1]) largest = found[block_threads - 1];
    }
    if (threadIdx.x == 0) begins[parts] = tiles;
}

// Of each range: the row of its first entry, the range in which that row begins, and no carry-out.
CPMS_KERNEL(256) describe_ranges(const u32* starts, const u32* tile_rows, const u32* begins, u32 ranges,
                                 u32* first_rows, u32* first_ranges, u64* carry_out) {
    for_each_index(ranges, [&](u32 range) {
        const u32 row = tile_rows[begins[range]];
        first_rows[range] = row;
        first_ranges[range] = row_of(begins, 0, range + 1, starts[row] / tile_entries);
        carry_out[range] = CarryOut::missing;
    });
}

}  // namespace cpms
