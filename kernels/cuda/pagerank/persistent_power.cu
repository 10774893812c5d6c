// Power iteration in float64 by one persistent kernel: many sweeps a launch. It is the baseline of mixed-precision
// refinement. A sweep costs the gathers, and a read and a write of x.
#include "pagerank/node_passes.cuh"
#include "pagerank/sweep_epilogues.cuh"
#include "persistent/strategies.cuh"

namespace cpms {

// report: number of sweeps and time of the begin, in ns; then of each sweep l1, squares, mass, linf, and time of its
// end.
template <bool Personal, class Strategy>
CPMS_DEVICE void persistent_power(Strategy& strategy, const Nodes& nodes, double tolerance, u32 norm, u32 max_sweeps,
                                  double* contributions, double* next_contributions, const Grid& grid, double* report) {
    const auto prefetch = [&] { strategy.template prefetch<double>(); };
    prefetch();
    __shared__ UniformInflow common;
    if (threadIdx.x == 0) common = UniformInflow::of(nodes);
    const bool reports = blockIdx.x == 0 && threadIdx.x == 0;
    if (reports) report[1] = nanoseconds();
    GridReduce<2, 0> whole = apply_correction(nodes, contributions, nullptr);
    whole.all_reduce(grid);
    double dangling = whole.value[1], change;
    u32 done = 0;
    do {
        const ResidualFactors by =
            in_uniform_registers<Strategy, double>(ResidualFactors::of(nodes, common, 1.0, dangling));
        ResidualEpilogue<false, Personal, false, Strategy::byte_degrees> end{nodes, by, contributions,
                                                                             next_contributions, nullptr};
        strategy.template sweep<double>((const u8*)contributions, end);
        GridReduce<5, 1> totals{{end.l1, end.squares, end.mass, end.sum_or_dangling, end.linf}};
        totals.all_reduce(grid, prefetch);
        dangling = totals.value[3];
        change = norm_of(norm, totals.value[0], totals.value[1], totals.value[4]);
        if (reports) {
            const double row[5] = {totals.value[0], totals.value[1], totals.value[2], totals.value[4], nanoseconds()};
            for (int q = 0; q < 5; ++q) report[2 + 5 * done + q] = row[q];
        }
        double* const swapped = contributions;
        contributions = next_contributions;
        next_contributions = swapped;
        ++done;
    } while (change >= tolerance && done < max_sweeps);
    if (reports) report[0] = (double)done;
}

}  // namespace cpms

#define CPMS_POWER_PARAMETERS                                                                                          \
    const unsigned *degree, const double *sink, const double *teleport, unsigned sink_stride,                          \
        unsigned teleport_stride, unsigned count, double damping, const unsigned char *degree_bytes, double tolerance, \
        unsigned norm, unsigned max_sweeps, double *contributions, double *next_contributions, double *partials,       \
        unsigned *arrived, double *report
#define CPMS_RUN_POWER(WAY, ...)                                                                                       \
    cpms::persistent_power<__VA_ARGS__>(                                                                               \
        WAY, cpms::Nodes{degree, sink, teleport, sink_stride, teleport_stride, count, damping, nullptr, degree_bytes}, \
        tolerance, norm, max_sweeps, contributions, next_contributions, grid, report);                                 \
    grid.end();

#define CPMS_PERSISTENT_POWER(NAME, THREADS, BLOCKS, ...)                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(CPMS_EDGES_PARAMETERS, CPMS_POWER_PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                                              \
        const cpms::Grid grid(partials, arrived);                                                                      \
        const cpms::Edges edges = CPMS_EDGES;                                                                          \
        cpms::DirectGather strategy{edges, workspace};                                                                 \
        CPMS_RUN_POWER(strategy, __VA_ARGS__)                                                                          \
    }
// Direct gather of a graph in the second-level cache.
#define CPMS_PERSISTENT_POWER_IN_CACHE(NAME, THREADS, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(CPMS_EDGES_PARAMETERS, CPMS_POWER_PARAMETERS) { \
        __shared__ cpms::InCacheWorkspace workspace;                                                                   \
        const cpms::Grid grid(partials, arrived);                                                                      \
        const cpms::Edges edges = CPMS_EDGES;                                                                          \
        cpms::InCacheGather strategy(edges, workspace);                                                                \
        CPMS_RUN_POWER(strategy, __VA_ARGS__)                                                                          \
    }
// Direct gather with compressed column indices.
#define CPMS_PERSISTENT_POWER_COMPRESSED(NAME, THREADS, BLOCKS, ...)    \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)       \
        NAME(CPMS_COMPRESSED_EDGES_PARAMETERS, CPMS_POWER_PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;               \
        const cpms::Grid grid(partials, arrived);                       \
        const cpms::CompressedEdges edges = CPMS_COMPRESSED_EDGES;      \
        cpms::CompressedGather strategy{edges, workspace};              \
        CPMS_RUN_POWER(strategy, __VA_ARGS__)                           \
    }
// Direct gather with hub caching.
#define CPMS_PERSISTENT_POWER_HUB_CACHE(NAME, THREADS, BLOCKS, ...)                               \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                 \
        NAME(CPMS_EDGES_PARAMETERS, unsigned hot_bytes, unsigned values, CPMS_POWER_PARAMETERS) { \
        __shared__ cpms::WorkspaceFor<THREADS> workspace;                                         \
        const cpms::Grid grid(partials, arrived);                                                 \
        const cpms::Edges edges = CPMS_EDGES;                                                     \
        cpms::HubCacheGather strategy{edges, workspace, hot_bytes, values};                       \
        CPMS_RUN_POWER(strategy, __VA_ARGS__)                                                     \
    }
// Propagation blocking.
#define CPMS_PERSISTENT_POWER_BLOCKED(NAME, THREADS, BLOCKS, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) \
        NAME(CPMS_BLOCKING_PARAMETERS(), CPMS_POWER_PARAMETERS) { \
        __shared__ cpms::SellWorkspace workspace;                 \
        const cpms::Grid grid(partials, arrived);                 \
        const cpms::PropagationBlocking to = CPMS_BLOCKING();     \
        cpms::BlockedPropagation strategy{to, workspace, grid};   \
        CPMS_RUN_POWER(strategy, __VA_ARGS__)                     \
    }
