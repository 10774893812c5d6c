// Strategies of a sweep: how the values of a row's neighbours are gathered. Each has prefetch<F>(), which starts the
// loads that do not depend on the vector and runs during the grid barrier, and sweep<F>(x, epilogue), where F is the
// format of x. byte_degrees says whether epilogues read degrees as bytes (see Nodes). The host chooses a strategy for a
// graph (cpms/backends/cuda/persistent/strategies.py).
#pragma once
#include "persistent/tiled_gather.cuh"
#include "persistent/segmented_sum_in_cache.cuh"
#include "persistent/propagation_blocking.cuh"
#include "persistent/hub_cache.cuh"

namespace cpms {

// Direct gather from caches. carry_outs_in_flight bounds the partial sums of other ranges that a lane loads at once;
// fewer leave registers for a kernel that has much other state.
template <int carry_outs_in_flight>
struct DirectGatherWith {
    static constexpr bool byte_degrees = true;
    const Edges& edges;
    Workspace& workspace;
    IndexPrefetch upcoming;

    template <class F>
    CPMS_DEVICE void prefetch() {
        upcoming.begin(edges);
    }
    template <class F, class Epilogue>
    CPMS_DEVICE void sweep(const u8* x, Epilogue& epilogue) {
        segmented_sum<F, carry_outs_in_flight>(edges, upcoming, x, workspace, epilogue);
    }
};
using DirectGather = DirectGatherWith<8>;

// Direct gather of a graph that fits in the second-level cache.
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

// Whether the totals of inner sweeps are fixed-point integers (persistent/fixed_point_allreduce.cuh). It pays where a
// sweep is so short that a trip to the second-level cache counts.
template <class Strategy>
constexpr bool fixed_point_totals = false;
template <>
constexpr bool fixed_point_totals<InCacheGather> = true;

// Whether a strategy has vector registers to spare for values that all lanes share. The rule was measured, not derived.
template <class Strategy, class F>
constexpr bool has_spare_registers = false;
template <class F>
constexpr bool has_spare_registers<InCacheGather, F> = sizeof(typename WideningLoad<F>::Word) > 1;

// Values that all lanes share during a sweep, in uniform registers where vector registers are scarce.
template <class Strategy, class F, class T>
CPMS_DEVICE T in_uniform_registers(T value) {
    if constexpr (has_spare_registers<Strategy, F>) {
        return value;
    } else {
        return warp_uniform(value);
    }
}

// Direct gather, with the values of the first nodes in shared memory.
struct HubCacheGather {
    static constexpr bool byte_degrees = false;
    const Edges& edges;
    Workspace& workspace;
    u32 hub_bytes, values;  // hub_bytes of shared memory; values of all nodes, including the zeros past them
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

// Panels whose values are staged in shared memory.
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

// Propagation blocking: binning, a grid barrier, then row sums.
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

// Whether one prefetch serves both residual and inner sweeps.
template <class Residual, class Inner>
constexpr bool same_strategy = false;
template <class Strategy>
constexpr bool same_strategy<Strategy, Strategy> = true;

}  // namespace cpms
