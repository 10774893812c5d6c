// Power iteration in float64, many sweeps a launch: what method refine has to beat.
#include "pagerank/node_passes.cuh"
#include "pagerank/sweep_epilogues.cuh"
#include "persistent/strategies.cuh"

namespace cpms {

// report: how many sweeps and when they began, in ns; then of each l1, squares, mass, linf, and when it ended.
template <bool Personal, class Way>
CPMS_DEVICE void fused_power(Way& way, const Nodes& nodes, double tol, u32 norm, u32 most, double* shares,
                             double* fresh, const Grid& grid, double* report) {
    const auto expect = [&] { way.template expect<double>(); };
    expect();
    __shared__ Common common;
    if (threadIdx.x == 0) common = Common::of(nodes);
    const bool reports = blockIdx.x == 0 && threadIdx.x == 0;
    if (reports) report[1] = nanoseconds();
    Totals<2, 0> whole = corrected(nodes, shares, nullptr);
    whole.over_grid(grid);
    double dangling = whole.value[1], size;
    u32 done = 0;
    do {
        const FullFactors by = kept_by<Way, double>(FullFactors::of(nodes, common, 1.0, dangling));
        FullEnd<false, Personal, false, Way::counts_are_bytes> end{nodes, by, shares, fresh, nullptr};
        way.template sweep<double>((const u8*)shares, end);
        Totals<5, 1> totals{{end.l1, end.squares, end.mass, end.other, end.linf}};
        totals.over_grid(grid, expect);
        dangling = totals.value[3];
        size = norm_of(norm, totals.value[0], totals.value[1], totals.value[4]);
        if (reports) {
            const double row[5] = {totals.value[0], totals.value[1], totals.value[2], totals.value[4], nanoseconds()};
            for (int q = 0; q < 5; ++q) report[2 + 5 * done + q] = row[q];
        }
        double* const older = shares;
        shares = fresh;
        fresh = older;
        ++done;
    } while (size >= tol && done < most);
    if (reports) report[0] = (double)done;
}

}  // namespace cpms

#define CPMS_POWER_PARAMETERS                                                                      \
    const unsigned *degree, const double *sink, const double *teleport, unsigned sink_step,        \
        unsigned teleport_step, unsigned count, double damping, const unsigned char *degree_byte,  \
        double tol, unsigned norm, unsigned most, double *shares, double *fresh, double *partials, \
        unsigned *came, double *report
#define CPMS_POWER(WAY, ...)                                                                       \
    cpms::fused_power<__VA_ARGS__>(                                                                \
        WAY,                                                                                       \
        cpms::Nodes{degree, sink, teleport, sink_step, teleport_step, count, damping, nullptr, degree_byte}, tol, \
        norm, most, shares, fresh, grid, report);                                                  \
    grid.end();

#define CPMS_FUSED_POWER(NAME, THREADS, BLOCKS, ...)                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, CPMS_POWER_PARAMETERS) {                                       \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        cpms::OverSources way{edges, room};                                                        \
        CPMS_POWER(way, __VA_ARGS__)                                                               \
    }
// Of a graph in the cache.
#define CPMS_FUSED_POWER_CACHED(NAME, THREADS, BLOCKS, ...)                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, CPMS_POWER_PARAMETERS) {                                       \
        __shared__ cpms::CachedRoom room;                                                          \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        cpms::OverCached way(edges, room);                                                         \
        CPMS_POWER(way, __VA_ARGS__)                                                               \
    }
// Sources by codes.
#define CPMS_FUSED_POWER_OVER_CODES(NAME, THREADS, BLOCKS, ...)                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_CODED_EDGES_PARAMETERS, CPMS_POWER_PARAMETERS) {                                 \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::CodedEdges edges = CPMS_CODED_EDGES;                                           \
        cpms::OverCodes way{edges, room};                                                          \
        CPMS_POWER(way, __VA_ARGS__)                                                               \
    }
// The first nodes' values in shared memory.
#define CPMS_FUSED_POWER_HOT(NAME, THREADS, BLOCKS, ...)                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_EDGES_PARAMETERS, unsigned hot_bytes, unsigned values, CPMS_POWER_PARAMETERS) {  \
        __shared__ cpms::RoomFor<THREADS> room;                                                    \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Edges edges = CPMS_EDGES;                                                      \
        cpms::OverHot way{edges, room, hot_bytes, values};                                         \
        CPMS_POWER(way, __VA_ARGS__)                                                               \
    }
// In bins that are dealt their values.
#define CPMS_FUSED_POWER_DEALT(NAME, THREADS, BLOCKS, ...)                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        NAME(CPMS_DEAL_PARAMETERS(), CPMS_POWER_PARAMETERS) {                                      \
        __shared__ cpms::RoomForSums room;                                                         \
        const cpms::Grid grid(partials, came);                                                     \
        const cpms::Deal to = CPMS_DEAL();                                                         \
        cpms::Dealt way{to, room, grid};                                                           \
        CPMS_POWER(way, __VA_ARGS__)                                                               \
    }
