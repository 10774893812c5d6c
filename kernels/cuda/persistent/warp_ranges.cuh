// Warp ranges.
#pragma once
#include "persistent/grid_sync.cuh"
#include "base/widening_load.cuh"
#include "spmv/carry_out.cuh"

namespace cpms {

// The edges, and their stretches: warp w walks stretches w, w + warps, … All warps are there and none waits for
// a later stretch, so every wait ends. Where there are fewer stretches than warps, `each` of a block have one, and
// the block's others none. Within a step, sources lie so that a
// lane's eight loads are two wide ones: the four from 128 * half + 4 * lane are slots 32 * (4 * half + k) + lane.
struct Edges {
    const u32* sources;
    const u16* row_end_flags;
    const u32* range_begins;  // first step of each stretch, and behind the last
    const u32* first_rows;    // row of its first slot
    const u32* first_ranges;  // stretch in which that row begins
    u32 ranges, tiles, rows, block_ranges;
    CarryOut carry_out;  // one a stretch
};

CPMS_DEVICE u32 first_range(u32 block_ranges) {
    return threadIdx.x / 32 < block_ranges ? blockIdx.x * block_ranges + threadIdx.x / 32 : none;
}
CPMS_DEVICE u32 grid_warps() { return gridDim.x * (blockDim.x / 32); }

// Where a stretch begins and ends, its first row, and whether that began before it.
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

// A value from caches; Hot values lie elsewhere (persistent/hub_cache.cuh).
template <class F>
CPMS_DEVICE typename WideningLoad<F>::Word value_at(const u8* x, u32 i) {
    return ((const typename WideningLoad<F>::Word*)x)[i];
}

// A lane's sources of a step, 32 bits each.
template <class Policy>
struct IndexLoader {
    u32 source[lane_entries];

    CPMS_DEVICE void begin(const Edges& edges, u32 tile) { load(edges, tile); }
    CPMS_DEVICE u32 second_tile(const Edges& edges, u32 tile) const { return smaller(tile + 1, edges.tiles - 1); }
    // The step after the next of a stretch of which `left` are left: stretches have two steps or more, but for the last.
    CPMS_DEVICE u32 third_tile(const Edges& edges, u32 tile, u32 range, u32 remaining) const {
        const u32 next = range + grid_warps();
        if (remaining == 2 && next < edges.ranges) return edges.range_begins[next];
        return second_tile(edges, tile);
    }
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
    CPMS_DEVICE void gather(const Edges&, Values values, Word (&word)[lane_entries]) const {
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) word[k] = value_at<F>(values, source[k]);
    }
};
using StreamingIndexLoader = IndexLoader<Streaming>;

// What a warp has read of a step to come, and of its first stretch. The first may be read before the values that it asks
// for are there. Sources are Named, or as in persistent/compressed_gather.cuh.
template <class Loader>
struct Prefetch {
    u32 tile, flags;
    Loader sources;
    WarpRange first;

    template <class Edges>
    CPMS_DEVICE void begin(const Edges& edges) {
        if (first_range(edges.block_ranges) >= edges.ranges) return;
        first = WarpRange(edges, first_range(edges.block_ranges));
        tile = first.begin;
        load_flags(edges);
        sources.begin(edges, tile);
    }
    template <class Edges>
    CPMS_DEVICE void advance_to_second(const Edges& edges) {
        tile = sources.second_tile(edges, tile);
        sources.load(edges, tile);
    }
    template <class Edges>
    CPMS_DEVICE void advance_to_third(const Edges& edges, u32 range, u32 remaining) {
        tile = sources.third_tile(edges, tile, range, remaining);
        sources.load(edges, tile);
    }
    CPMS_DEVICE void load_flags(const cpms::Edges& edges) {
        reload(flags, edges.row_end_flags + lane_part(tile), Streaming{});
    }
};
using IndexPrefetch = Prefetch<StreamingIndexLoader>;

}  // namespace cpms

#define CPMS_EDGES_PARAMETERS                                                                      \
    const unsigned *sources, const unsigned short *row_end_flags, const unsigned *range_begins,    \
        const unsigned *first_rows, const unsigned *first_ranges, unsigned ranges, unsigned tiles, \
        unsigned block_ranges, unsigned long long *carry_out
#define CPMS_EDGES                                                                                          \
    cpms::Edges {                                                                                           \
        sources, row_end_flags, range_begins, first_rows, first_ranges, ranges, tiles, count, block_ranges, \
            cpms::CarryOut {                                                                                \
            carry_out                                                                                       \
        }                                                                                                   \
    }
