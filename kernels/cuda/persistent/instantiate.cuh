// Kernel definitions for each strategy, to which macros such as CPMS_PERSISTENT_REFINE pass their PARAMETERS and RUN.
// RUN(residual_strategy, inner_strategy, ...) is a macro with the body of a kernel, which reads the kernel's parameters
// and `grid` by name; PARAMETERS are its own kernel parameters, among them those of a Grid. THREADS of a block and
// resident BLOCKS of a multiprocessor bound the registers, and the arguments after them are the kernel's template
// arguments. A kernel's residual sweeps and inner sweeps may use different strategies. Structs are passed by value;
// cpms/backends/cuda/kernels/structs.py describes them to the host. Where registers spill, __grid_constant__ lets the
// compiler read them again from constant memory.
#pragma once
#include "persistent/strategies.cuh"

// Direct gather.
#define CPMS_DIRECT_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)      \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const cpms::Edges edges, PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                    \
        const cpms::Grid grid(partials, arrived);                            \
        cpms::DirectGather strategy{edges, workspace};                       \
        RUN(strategy, strategy, __VA_ARGS__)                                 \
    }
// The same of a rank's rows, whose kernels have fewer registers to spare.
#define CPMS_RANK_DIRECT_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                   \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const __grid_constant__ cpms::Edges edges, PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                      \
        const cpms::Grid grid(partials, arrived);                                              \
        cpms::DirectGatherWith<4> strategy{edges, workspace};                                  \
        RUN(strategy, strategy, __VA_ARGS__)                                                   \
    }
// Direct gather of a graph in the second-level cache.
#define CPMS_IN_CACHE_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)    \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const cpms::Edges edges, PARAMETERS) { \
        __shared__ cpms::InCacheWorkspace workspace;                         \
        const cpms::Grid grid(partials, arrived);                            \
        cpms::InCacheGather strategy(edges, workspace);                      \
        RUN(strategy, strategy, __VA_ARGS__)                                 \
    }
// Direct gather with hub caching.
#define CPMS_HUB_CACHE_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                            \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const __grid_constant__ cpms::Edges edges, unsigned hub_bytes, unsigned values, \
                                      PARAMETERS) {                                                                   \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                                             \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::HubCacheGather strategy{edges, workspace, hub_bytes, values};                                           \
        RUN(strategy, strategy, __VA_ARGS__)                                                                          \
    }
// Inner sweeps by tiled gather, residual sweeps by direct gather.
#define CPMS_INNER_TILED_GATHER(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                     \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const __grid_constant__ cpms::Edges edges,                 \
                                      const __grid_constant__ cpms::Panels panels, PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                        \
        const cpms::Grid grid(partials, arrived);                                                \
        cpms::DirectGather residual_strategy{edges, workspace};                                  \
        cpms::TiledGather inner_strategy{panels, workspace};                                     \
        RUN(residual_strategy, inner_strategy, __VA_ARGS__)                                      \
    }
// Inner sweeps by propagation blocking, residual sweeps by direct gather.
#define CPMS_INNER_BLOCKED(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                               \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const __grid_constant__ cpms::Edges edges,                                      \
                                      const __grid_constant__ cpms::PropagationBlocking inner_blocking, PARAMETERS) { \
        __shared__ cpms::SellWorkspace workspace;                                                                     \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::DirectGather residual_strategy{edges, workspace};                                                       \
        cpms::BlockedPropagation inner_strategy{inner_blocking, workspace, grid};                                     \
        RUN(residual_strategy, inner_strategy, __VA_ARGS__)                                                           \
    }
// All sweeps by propagation blocking.
#define CPMS_ALL_BLOCKED(PARAMETERS, RUN, NAME, THREADS, BLOCKS, ...)                                                 \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(const __grid_constant__ cpms::PropagationBlocking residual_blocking,            \
                                      const __grid_constant__ cpms::PropagationBlocking inner_blocking, PARAMETERS) { \
        __shared__ cpms::SellWorkspace workspace;                                                                     \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::BlockedPropagation residual_strategy{residual_blocking, workspace, grid};                               \
        [[maybe_unused]] cpms::BlockedPropagation inner_strategy{                                                     \
            inner_blocking, workspace, grid};                                                                         \
        RUN(residual_strategy, inner_strategy, __VA_ARGS__)                                                           \
    }
