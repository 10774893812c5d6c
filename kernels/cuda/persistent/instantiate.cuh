// Kernels over edges in each of the ways, which run what goes over them: RUN(over_full, over_low, ...), a macro, with
// parameters of its own, PARAMETERS, among which are those of a Grid.
#pragma once
#include "persistent/strategies.cuh"

// Over sources.
#define CPMS_OVER_SOURCES(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, PARAMETERS) {                                                  \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        cpms::OverSources way{edges, room};                                                        \
        RUN(way, way, __VA_ARGS__)                                                                 \
    }
// Of a graph in the cache.
#define CPMS_OVER_CACHED(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                              \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, PARAMETERS) {                                                  \
        __shared__ cpms::CachedRoom room;                                                          \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        cpms::OverCached way(edges, room);                                                         \
        RUN(way, way, __VA_ARGS__)                                                                 \
    }
// Sources by codes.
#define CPMS_OVER_CODES(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                               \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_CODED_EDGES_PARAMETERS, PARAMETERS) {                                            \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::CodedEdges edges = CPMS_CODED_EDGES;                                           \
        cpms::OverCodes way{edges, room};                                                          \
        RUN(way, way, __VA_ARGS__)                                                                 \
    }
// The first nodes' values in shared memory.
#define CPMS_OVER_HOT(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                 \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, unsigned hot_bytes, unsigned values, PARAMETERS) {             \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        cpms::OverHot way{edges, room, hot_bytes, values};                                         \
        RUN(way, way, __VA_ARGS__)                                                                 \
    }
// Low sweeps in bins that list what they ask for.
#define CPMS_LOW_IN_BINS(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                              \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, CPMS_BINS_PARAMETERS(bin_), PARAMETERS) {                      \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        const cpms::Bins bins = CPMS_BINS(bin_);                                                   \
        cpms::OverSources over_full{edges, room};                                                  \
        cpms::InBins over_low{bins, room};                                                         \
        RUN(over_full, over_low, __VA_ARGS__)                                                      \
    }
// Low sweeps in bins that are dealt their values.
#define CPMS_LOW_DEALT(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, CPMS_DEAL_PARAMETERS(low_), PARAMETERS) {                      \
        __shared__ cpms::RoomForSums room;                                                         \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        const cpms::Deal to_low = CPMS_DEAL(low_);                                                 \
        cpms::OverSources over_full{edges, room};                                                  \
        cpms::Dealt over_low{to_low, room, grid};                                                  \
        RUN(over_full, over_low, __VA_ARGS__)                                                      \
    }
// All sweeps in such bins.
#define CPMS_ALL_DEALT(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_DEAL_PARAMETERS(full_), CPMS_DEAL_PARAMETERS(low_), PARAMETERS) {                \
        __shared__ cpms::RoomForSums room;                                                         \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Deal to_full = CPMS_DEAL(full_), to_low = CPMS_DEAL(low_);                     \
        cpms::Dealt over_full{to_full, room, grid}, over_low{to_low, room, grid};                  \
        RUN(over_full, over_low, __VA_ARGS__)                                                      \
    }
