// Power iteration in float64, many sweeps a launch: what method refine has to beat.
#include "rounds.cuh"

namespace cpms {

// report: how many sweeps and when they began, in ns; then of each l1, squares, mass, linf, and when it ended.
template <bool Personal>
CPMS_DEVICE void fused_power(const Edges& edges, const Nodes& nodes, double tol, u32 norm, u32 most,
                             double* shares, double* fresh, const Grid& grid, double* report) {
    __shared__ Room room;
    Ahead ahead;
    ahead.begin(edges);
    const bool reports = blockIdx.x == 0 && threadIdx.x == 0;
    if (reports) report[1] = nanoseconds();
    Totals<2, 0> whole = corrected(nodes, shares, nullptr);
    whole.over_grid(grid);
    double dangling = whole.value[1], size;
    u32 done = 0;
    do {
        const FullFactors by = FullFactors::of(nodes, 1.0, dangling);
        FullEnd<false, Personal> end{nodes, by, shares, fresh, nullptr};
        walk<double>(edges, ahead, (const u8*)shares, room, end);
        Totals<5, 1> totals{{end.l1, end.squares, end.mass, end.other, end.linf}};
        totals.over_grid(grid, [&] { ahead.begin(edges); });
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

#define CPMS_FUSED_POWER(NAME, THREADS, BLOCKS, PERSONAL)                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                     \
        NAME(const unsigned* sources, const unsigned short* marks, const unsigned* begins,            \
             const unsigned* first_rows, const unsigned* first_stretches, unsigned stretches,         \
             unsigned steps, unsigned each, unsigned long long* pieces,                               \
             const unsigned* degree, const double* sink, const double* teleport, unsigned sink_step,  \
             unsigned teleport_step, unsigned count, double damping, double tol, unsigned norm,       \
             unsigned most, double* shares, double* fresh, double* partials,                          \
             unsigned* came, double* report) {                                                        \
        const cpms::Grid grid(partials, came);                                                        \
        cpms::fused_power<PERSONAL>(                                                                  \
            cpms::Edges{sources, marks, begins, first_rows, first_stretches, stretches, steps, count, \
                        each, cpms::TaskPieces{pieces}},                                              \
            cpms::Nodes{degree, sink, teleport, sink_step, teleport_step, count, damping}, tol, norm, \
            most, shares, fresh, grid, report);                                                       \
        grid.end();                                                                                   \
    }
