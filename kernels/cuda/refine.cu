// Rounds of method refine in one launch: correct x, sweep in float64, then low sweeps; and again.
#include "bins.cuh"
#include "plan.cuh"

namespace cpms {

template <class Q, bool Personal, bool Partial, bool Binned>
CPMS_DEVICE void refine(const Edges& edges, const Bins& bins, const Nodes& nodes, const Plan& plan, double* shares,
                        double* fresh, double* change, float* c, u32 has_c, u8* z, u8* z_other, const Grid& grid,
                        double* report_to) {
    __shared__ Room room;
    __shared__ FullFactors by;
    Ahead ahead;
    Coming coming;
    const auto expect_full = [&] { ahead.begin(edges); };
    const auto expect_low = [&] {
        if constexpr (Binned) {
            coming.begin(bins, Stage<typename Raw<Q>::Word>{bins.capacity});
        } else {
            ahead.begin(edges);
        }
    };
    if constexpr (!Binned) expect_full();
    Report report(report_to);
    double before = value_of(0x7FF0000000000000ull), promised = before;
    bool again;
    do {
        Totals<2, 0> whole = corrected<Partial>(nodes, shares, has_c ? c : nullptr);
        whole.over_grid(grid, [&] {
            if constexpr (Binned) expect_full();
        });
        if (threadIdx.x == 0) by = FullFactors::of(nodes, whole.value[0], whole.value[1]);
        __syncthreads();
        FullEnd<true, Personal> full{nodes, by, shares, fresh, change};
        walk<double>(edges, ahead, (const u8*)shares, room, full);
        Totals<6, 2> norms{{full.l1, full.squares, full.mass, full.other, full.linf, full.largest}};
        norms.over_grid(grid, expect_low);
        const double l1 = norms.value[0], size = norm_of(plan.norm, l1, norms.value[1], norms.value[4]);
        report.sweep(l1, norms.value[1], norms.value[2], norms.value[3], norms.value[4]);
        double* const older = shares;
        shares = fresh;
        fresh = older;
        if (!plan.lows || !(size >= plan.tol) || !(size < value_of(0x7FF0000000000000ull))) return;
        if (report.count >= plan.most) return;

        LowState state = quantised<Q, Partial>(nodes, plan.storing, change, norms.value[5], c, z, grid);
        const double until = low_until(plan, l1, size);
        double now;
        do {
            const int next = shared_scale(plan.storing.scaled, plan.storing.top, state.largest);
            const LowFactors factors = LowFactors::of<Q>(nodes, state.exponent, next, state.lost);
            LowEnd<Q, Personal, Partial> end(nodes, factors, c, z_other,
                                    plan.storing.seed + report.count * 0xD1B54A32D192ED03ull);
            if constexpr (Binned) {
                walk_bins<Q>(bins, coming, z, room, end);
            } else {
                walk<Q>(edges, ahead, z, room, end);
            }
            Totals<4, 1> totals{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next)}};
            totals.over_grid(grid, expect_low);
            now = totals.value[0];
            state = LowState{totals.value[3], totals.value[2], next};
            report.sweep(now, -1.0, 0.0, totals.value[1], 0.0);
            u8* const read = z;
            z = z_other;
            z_other = read;
        } while (now > until && report.count < plan.most);
        has_c = 1;
        // Goes on as long as full sweeps find about what low sweeps promised; else the host has to think.
        again = l1 < before && l1 <= plan.trust * promised && report.count < plan.most;
        before = l1;
        promised = now;
    } while (again);
}

}  // namespace cpms

#define CPMS_REFINE(NAME, THREADS, BLOCKS, ...)                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                     \
        NAME(const unsigned* sources, const unsigned short* marks, const unsigned* begins,            \
             const unsigned* first_rows, const unsigned* first_stretches, unsigned stretches,         \
             unsigned steps, unsigned each, unsigned long long* pieces,                               \
             const unsigned* degree, const double* sink, const double* teleport, unsigned sink_step,  \
             unsigned teleport_step, unsigned count, double damping, const unsigned* kept,            \
             const unsigned* of_block, const cpms::Quad* bin_stretches, const unsigned* list_begins,  \
             const unsigned* lists, const unsigned short* places, const unsigned* first_blocks,       \
             unsigned capacity, unsigned long long* bin_pieces,                                       \
             double gain, double tol, double trust, unsigned norm, unsigned most, unsigned lows,      \
             unsigned scaled, int top,                                                                \
             unsigned long long seed, double* shares, double* fresh, double* change, float* c,        \
             unsigned has_c, unsigned char* z, unsigned char* z_other, double* partials,              \
             unsigned* came, double* report) {                                                        \
        const cpms::Grid grid(partials, came);                                                        \
        cpms::refine<__VA_ARGS__>(                                                                    \
            cpms::Edges{sources, marks, begins, first_rows, first_stretches, stretches, steps, count, \
                        each, cpms::TaskPieces{pieces}},                                              \
            cpms::Bins{of_block, bin_stretches, list_begins, lists, places, marks, first_blocks,      \
                       capacity, steps, count, cpms::TaskPieces{bin_pieces}},                         \
            cpms::Nodes{degree, sink, teleport, sink_step, teleport_step, count, damping, kept},      \
            cpms::Plan{gain, tol, trust, norm, most, lows, cpms::Storing{scaled, top, seed}}, shares, \
            fresh, change, c, has_c, z, z_other, grid, report);                                       \
        grid.end();                                                                                   \
    }
