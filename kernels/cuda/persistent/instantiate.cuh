// Kernel definitions for each strategy. RUN(residual_strategy, inner_strategy, ...) is a macro with the body of a
// kernel, and PARAMETERS are its own kernel parameters, among them those of a Grid. A kernel's residual sweeps and
// inner sweeps may use different strategies.
#pragma once
#include "persistent/strategies.cuh"

// Direct gather.
#define CPMS_DIRECT_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(CPMS_EDGES_PARAMETERS, PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                                   \
        const cpms::Grid grid(partials, arrived);                                                           \
        const cpms::Edges edges = CPMS_EDGES;                                                               \
        cpms::DirectGather strategy{edges, workspace};                                                      \
        RUN(strategy, strategy, __VA_ARGS__)                                                                \
    }
// Direct gather of a graph in the second-level cache.
#define CPMS_IN_CACHE_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(CPMS_EDGES_PARAMETERS, PARAMETERS) { \
        __shared__ cpms::InCacheWorkspace workspace;                                                        \
        const cpms::Grid grid(partials, arrived);                                                           \
        const cpms::Edges edges = CPMS_EDGES;                                                               \
        cpms::InCacheGather strategy(edges, workspace);                                                     \
        RUN(strategy, strategy, __VA_ARGS__)                                                                \
    }
// Direct gather with compressed column indices.
#define CPMS_COMPRESSED_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(CPMS_COMPRESSED_EDGES_PARAMETERS, PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                                              \
        const cpms::Grid grid(partials, arrived);                                                                      \
        const cpms::CompressedEdges edges = CPMS_COMPRESSED_EDGES;                                                     \
        cpms::CompressedGather strategy{edges, workspace};                                                             \
        RUN(strategy, strategy, __VA_ARGS__)                                                                           \
    }
// Direct gather with hub caching.
#define CPMS_HUB_CACHE_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                      \
        NAME(CPMS_EDGES_PARAMETERS, unsigned hub_bytes, unsigned values, PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                              \
        const cpms::Grid grid(partials, arrived);                                      \
        const cpms::Edges edges = CPMS_EDGES;                                          \
        cpms::HubCacheGather strategy{edges, workspace, hub_bytes, values};            \
        RUN(strategy, strategy, __VA_ARGS__)                                           \
    }
// Inner sweeps by tiled gather, residual sweeps by direct gather.
#define CPMS_INNER_TILED_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)      \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                 \
        NAME(CPMS_EDGES_PARAMETERS, CPMS_PANELS_PARAMETERS(panel_), PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                         \
        const cpms::Grid grid(partials, arrived);                                 \
        const cpms::Edges edges = CPMS_EDGES;                                     \
        const cpms::Panels panels = CPMS_PANELS(panel_);                          \
        cpms::DirectGather residual_strategy{edges, workspace};                   \
        cpms::TiledGather inner_strategy{panels, workspace};                      \
        RUN(residual_strategy, inner_strategy, __VA_ARGS__)                       \
    }
// Inner sweeps by propagation blocking, residual sweeps by direct gather.
#define CPMS_INNER_BLOCKED(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                   \
        NAME(CPMS_EDGES_PARAMETERS, CPMS_BLOCKING_PARAMETERS(inner_), PARAMETERS) { \
        __shared__ cpms::SellWorkspace workspace;                                   \
        const cpms::Grid grid(partials, arrived);                                   \
        const cpms::Edges edges = CPMS_EDGES;                                       \
        const cpms::PropagationBlocking inner_blocking = CPMS_BLOCKING(inner_);     \
        cpms::DirectGather residual_strategy{edges, workspace};                     \
        cpms::BlockedPropagation inner_strategy{inner_blocking, workspace, grid};   \
        RUN(residual_strategy, inner_strategy, __VA_ARGS__)                         \
    }
// All sweeps by propagation blocking.
#define CPMS_ALL_BLOCKED(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                 \
        NAME(CPMS_BLOCKING_PARAMETERS(residual_), CPMS_BLOCKING_PARAMETERS(inner_), PARAMETERS) { \
        __shared__ cpms::SellWorkspace workspace;                                                 \
        const cpms::Grid grid(partials, arrived);                                                 \
        const cpms::PropagationBlocking residual_blocking = CPMS_BLOCKING(residual_),             \
                                        inner_blocking = CPMS_BLOCKING(inner_);                   \
        cpms::BlockedPropagation residual_strategy{residual_blocking, workspace, grid},           \
            inner_strategy{inner_blocking, workspace, grid};                                      \
        RUN(residual_strategy, inner_strategy, __VA_ARGS__)                                       \
    }
