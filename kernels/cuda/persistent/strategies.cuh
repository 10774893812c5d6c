// The ways in which a sweep may go over edges. What is read before values are there begins by `expect`; a sweep follows.
#pragma once
#include "persistent/tiled_gather.cuh"
#include "persistent/segmented_sum_in_cache.cuh"
#include "persistent/propagation_blocking.cuh"
#include "persistent/hub_cache.cuh"
#include "persistent/compressed_gather.cuh"

namespace cpms {

// Over sources, by whatever names them: values are gathered from caches.
template <class Edges, class Loader>
struct GatherStrategy {
    static constexpr bool byte_degrees = true;
    const Edges& edges;
    Workspace& workspace;
    Prefetch<Loader> upcoming;

    template <class F>
    CPMS_DEVICE void prefetch() {
        upcoming.begin(edges);
    }
    template <class F, class Epilogue>
    CPMS_DEVICE void sweep(const u8* x, Epilogue& epilogue) {
        segmented_sum<F>(edges, upcoming, x, workspace, epilogue);
    }
};
using DirectGather = GatherStrategy<Edges, StreamingIndexLoader>;
using CompressedGather = GatherStrategy<CompressedEdges, CompressedIndexLoader>;

// Over sources of a graph that is in the cache.
struct InCacheGather {
    static constexpr bool byte_degrees = false;
    const Edges& edges;
    InCacheWorkspace& workspace;
    InCachePrefetch upcoming;

    CPMS_DEVICE InCacheGather(const Edges& all, InCacheWorkspace& shared) : edges(all), workspace(shared) {
        workspace.begin(edges);
    }

    template <class F>
    CPMS_DEVICE void prefetch() {
        upcoming.begin(edges, workspace);
    }
    template <class F, class Epilogue>
    CPMS_DEVICE void sweep(const u8* x, Epilogue& epilogue) {
        InCacheSegmentedSum<F>{edges, upcoming, x, workspace}.run(epilogue);
    }
};

// Whether totals of low sweeps are integers (persistent/fixed_point_allreduce.cuh): where a sweep is short, a trip to memory counts.
template <class Strategy>
constexpr bool fixed_point_totals = false;
template <>
constexpr bool fixed_point_totals<InCacheGather> = true;

// Whether a way has registers to spare. With values of 8 bits none has, though nothing is spilled: on an H100 sweeps of
// web graphs that used them were 1 to 5 % slower.
template <class Strategy, class F>
constexpr bool has_spare_registers = false;
template <class F>
constexpr bool has_spare_registers<InCacheGather, F> = sizeof(typename WideningLoad<F>::Word) > 1;

// What all lanes have the same of during a sweep.
template <class Strategy, class F, class T>
CPMS_DEVICE T in_uniform_registers(T value) {
    if constexpr (has_spare_registers<Strategy, F>) {
        return value;
    } else {
        return warp_uniform(value);
    }
}

// Over sources, but the values of the first nodes are in shared memory.
struct HubCacheGather {
    static constexpr bool byte_degrees = false;
    const Edges& edges;
    Workspace& workspace;
    u32 hub_bytes, values;  // of shared memory; values of all nodes, zeros behind them included
    IndexPrefetch upcoming;

    template <class F>
    CPMS_DEVICE void prefetch() {
        upcoming.begin(edges);
    }
    template <class F, class Epilogue>
    CPMS_DEVICE void sweep(const u8* x, Epilogue& epilogue) {
        using Word = typename WideningLoad<F>::Word;
        const u32 count = smaller(hub_bytes / sizeof(Word), values);
        fill_stage(x, count * sizeof(Word));
        segmented_sum<F>(edges, upcoming, HubValues<Word>{x, count}, workspace, epilogue);
    }
};

// In bins that list what they ask for.
struct TiledGather {
    static constexpr bool byte_degrees = true;
    const Panels& panels;
    Workspace& workspace;
    PanelPrefetch upcoming;

    template <class F>
    CPMS_DEVICE void prefetch() {
        upcoming.begin(panels, PanelStaging<typename WideningLoad<F>::Word>{panels.capacity});
    }
    template <class F, class Epilogue>
    CPMS_DEVICE void sweep(const u8* x, Epilogue& epilogue) {
        tiled_gather<F>(panels, upcoming, x, workspace, epilogue);
    }
};

// In bins that are dealt their values.
struct BlockedPropagation {
    static constexpr bool byte_degrees = true;
    const PropagationBlocking& blocking;
    SellWorkspace& workspace;
    const Grid& grid;

    template <class F>
    CPMS_DEVICE void prefetch() {}
    template <class F, class Epilogue>
    CPMS_DEVICE void sweep(const u8* x, Epilogue& epilogue) {
        using Word = typename WideningLoad<F>::Word;
        bin_values<Word>(blocking, x);
        SliceSums slice_sums;
        grid.sync([&] { slice_sums.begin(blocking.slices); });
        sum_slices<F>(blocking.slices, slice_sums, blocking.binned, workspace, epilogue);
    }
};

// Whether what low sweeps expect serves full ones, too.
template <class Residual, class Inner>
constexpr bool same_strategy = false;
template <class Strategy>
constexpr bool same_strategy<Strategy, Strategy> = true;

}  // namespace cpms
