// The work of a warp in a persistent sweep: ranges of tiles, and the pipelined loads of their column indices.
//
// Load balancing is static (host side: cpms/backends/cuda/persistent/warp_ranges.py), so that every sweep reads the
// same tables and a warp knows its next tile in advance. Indices are loaded two tiles ahead of the sums; an entry costs
// 4 bytes of indices and 2 bits of flags and row counts.
#pragma once
#include "persistent/grid_sync.cuh"
#include "base/widening_load.cuh"
#include "spmv/carry_out.cuh"

namespace cpms {

// Padded CSR in tiles, and its ranges of tiles: warp w processes ranges w, w + warps, and so on. All warps are resident
// and none waits for a later range, so every wait ends. The first `block_ranges` warps of a block begin with one range
// each: all warps, or fewer where there are fewer ranges than warps. Within a tile, indices are permuted so that a
// lane's eight are two wide loads: the four from 128 * half + 4 * lane are entries 32 * (4 * half + k) + lane, for half
// 0 or 1 and k from 0 to 3. A padding entry names a place past the last node, whose value is always 0.
struct Edges {
    const u32* sources;
    const u16* row_end_flags;  // of a lane's eight: bits 0 to 7 where a row ends, from bit 8 the row ends before
    const u32* range_begins;  // first tile of each range, and the end of the last
    const u32* first_rows;    // row of its first entry
    const u32* first_ranges;  // range in which that row begins
    u32 ranges, tiles, rows, block_ranges;
    CarryOut carry_out;  // one a range
};

CPMS_DEVICE u32 first_range(u32 block_ranges) {
    return threadIdx.x / 32 < block_ranges ? blockIdx.x * block_ranges + threadIdx.x / 32 : none;
}
CPMS_DEVICE u32 grid_warps() { return gridDim.x * (blockDim.x / 32); }

// A range: its tiles, its first row, and whether that row began in an earlier range.
struct WarpRange {
    u32 begin, end, row;
    bool open;

    WarpRange() = default;
    CPMS_DEVICE WarpRange(const Edges& edges, u32 range)
        : begin(edges.range_begins[range]),
          end(edges.range_begins[range + 1]),
          row(edges.first_rows[range]),
          open(edges.first_ranges[range] < range) {}
};

// A gathered value. The kernel itself writes x between sweeps, so this must not become a load by the read-only path
// (ld.global.nc): the compiler uses that only where it can prove that nothing writes the data, so pointers to x are not
// __restrict__. Hubs have an overload of their own (persistent/hub_cache.cuh).
template <class F>
CPMS_DEVICE typename WideningLoad<F>::Word value_at(const u8* x, u32 i) {
    return ((const typename WideningLoad<F>::Word*)x)[i];
}

// A lane's eight column indices of a tile, 32 bits each.
template <class Policy>
struct IndexLoader {
    u32 source[lane_entries];

    CPMS_DEVICE void load(const Edges& edges, u32 tile) {
        const Quad* const at = (const Quad*)edges.sources + (tile * (tile_entries / 4) + threadIdx.x % 32);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Quad four = load_word(at + 32 * half, Policy{});
#pragma unroll
            for (int k = 0; k < 4; ++k) source[4 * half + k] = four.word[k];
        }
    }
    template <class F, class Values, class Word>
    CPMS_DEVICE void gather(Values values, Word (&word)[lane_entries]) const {
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) word[k] = value_at<F>(values, source[k]);
    }
};

// The software pipeline of a warp: the tile whose indices were loaded, its flags, and the warp's first range. The
// first indices can be loaded before the vector is complete, during the grid barrier. A sweep sums the present tile,
// gathers for the next one, and then loads the indices of the third.
struct IndexPrefetch {
    u32 tile, flags;
    IndexLoader<Streaming> sources;
    WarpRange first;

    CPMS_DEVICE void begin(const Edges& edges) {
        if (first_range(edges.block_ranges) >= edges.ranges) return;
        first = WarpRange(edges, first_range(edges.block_ranges));
        tile = first.begin;
        load_flags(edges);
        sources.load(edges, tile);
    }
    CPMS_DEVICE void advance(const Edges& edges) {
        tile = smaller(tile + 1, edges.tiles - 1);
        sources.load(edges, tile);
    }
    // The same where `remaining` tiles are left in the range, the present one included: with two left, the next tile
    // ends the range, and the third one is the first of the warp's next range. Where warps have several ranges, every
    // range but the last has at least two tiles (Arrangement.range_tiles), so the third is never further away.
    CPMS_DEVICE void advance(const Edges& edges, u32 range, u32 remaining) {
        const u32 next = range + grid_warps();
        const bool is_next_range = remaining == 2 && next < edges.ranges;
        tile = is_next_range ? edges.range_begins[next] : smaller(tile + 1, edges.tiles - 1);
        sources.load(edges, tile);
    }
    CPMS_DEVICE void load_flags(const Edges& edges) {
        reload(flags, edges.row_end_flags + lane_part(tile), Streaming{});
    }
};

}  // namespace cpms
