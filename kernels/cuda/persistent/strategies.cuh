// The ways in which a sweep may go over edges. What is read before values are there begins by `expect`; a sweep follows.
#pragma once
#include "persistent/tiled_gather.cuh"
#include "persistent/segmented_sum_in_cache.cuh"
#include "persistent/propagation_blocking.cuh"
#include "persistent/hub_cache.cuh"
#include "persistent/compressed_gather.cuh"

namespace cpms {

// Over sources, by whatever names them: values are gathered from caches.
template <class Edges, class Sources>
struct OverNamed {
    static constexpr bool counts_are_bytes = true;
    const Edges& edges;
    Room& room;
    AheadBy<Sources> ahead;

    template <class F>
    CPMS_DEVICE void expect() {
        ahead.begin(edges);
    }
    template <class F, class AtEnd>
    CPMS_DEVICE void sweep(const u8* z, AtEnd& at_end) {
        walk<F>(edges, ahead, z, room, at_end);
    }
};
using OverSources = OverNamed<Edges, Named>;
using OverCodes = OverNamed<CodedEdges, NamedByCodes>;

// Over sources of a graph that is in the cache.
struct OverCached {
    static constexpr bool counts_are_bytes = false;
    const Edges& edges;
    CachedRoom& room;
    CachedAhead ahead;

    CPMS_DEVICE OverCached(const Edges& all, CachedRoom& shared) : edges(all), room(shared) { room.begin(edges); }

    template <class F>
    CPMS_DEVICE void expect() {
        ahead.begin(edges, room);
    }
    template <class F, class AtEnd>
    CPMS_DEVICE void sweep(const u8* z, AtEnd& at_end) {
        CachedWalk<F>{edges, ahead, z, room}.over(at_end);
    }
};

// Whether totals of low sweeps are integers (persistent/fixed_point_allreduce.cuh): where a sweep is short, a trip to memory counts.
template <class Way>
constexpr bool counts_totals = false;
template <>
constexpr bool counts_totals<OverCached> = true;

// Whether a way has registers to spare. With values of 8 bits none has, though nothing is spilled: on an H100 sweeps of
// web graphs that used them were 1 to 5 % slower.
template <class Way, class F>
constexpr bool has_registers = false;
template <class F>
constexpr bool has_registers<OverCached, F> = sizeof(typename Raw<F>::Word) > 1;

// What all lanes have the same of during a sweep.
template <class Way, class F, class T>
CPMS_DEVICE T kept_by(T same) {
    if constexpr (has_registers<Way, F>) {
        return same;
    } else {
        return uniform(same);
    }
}

// Over sources, but the values of the first nodes are in shared memory.
struct OverHot {
    static constexpr bool counts_are_bytes = false;
    const Edges& edges;
    Room& room;
    u32 most_bytes, values;  // of shared memory; values of all nodes, zeros behind them included
    Ahead ahead;

    template <class F>
    CPMS_DEVICE void expect() {
        ahead.begin(edges);
    }
    template <class F, class AtEnd>
    CPMS_DEVICE void sweep(const u8* z, AtEnd& at_end) {
        using Word = typename Raw<F>::Word;
        const u32 count = smaller(most_bytes / sizeof(Word), values);
        fill_stage(z, count * sizeof(Word));
        walk<F>(edges, ahead, HotValues<Word>{z, count}, room, at_end);
    }
};

// In bins that list what they ask for.
struct InBins {
    static constexpr bool counts_are_bytes = true;
    const Bins& bins;
    Room& room;
    Coming coming;

    template <class F>
    CPMS_DEVICE void expect() {
        coming.begin(bins, Stage<typename Raw<F>::Word>{bins.capacity});
    }
    template <class F, class AtEnd>
    CPMS_DEVICE void sweep(const u8* z, AtEnd& at_end) {
        walk_bins<F>(bins, coming, z, room, at_end);
    }
};

// In bins that are dealt their values.
struct Dealt {
    static constexpr bool counts_are_bytes = true;
    const Deal& to;
    RoomForSums& room;
    const Grid& grid;

    template <class F>
    CPMS_DEVICE void expect() {}
    template <class F, class AtEnd>
    CPMS_DEVICE void sweep(const u8* z, AtEnd& at_end) {
        using Word = typename Raw<F>::Word;
        deal<Word>(to, z);
        Packs packs;
        grid.wait([&] { packs.begin(to.strands); });
        walk_strands<F>(to.strands, packs, to.dealt, room, at_end);
    }
};

// Whether what low sweeps expect serves full ones, too.
template <class Full, class Low>
constexpr bool one_way = false;
template <class Way>
constexpr bool one_way<Way, Way> = true;

}  // namespace cpms
