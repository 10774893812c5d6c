// Rounds of method refine in one launch: correct x, sweep in float64, then low sweeps; and again.
#include "persistent/fixed_point_allreduce.cuh"
#include "pagerank/refine_request.cuh"
#include "persistent/instantiate.cuh"
#include "pagerank/deferred_update.cuh"

namespace cpms {

// Whether z tell what low sweeps found: these write nothing else, and x gets it some sweeps at a time. Not in a format
// that has no range for what dangling nodes send; nor where the cache has all: there sweeps over more z take longer.
template <class Low, class Q>
constexpr bool z_tell = QuantiserOf<Q>::Type::of_dangling && !counts_totals<Low>;

// What is iterated. Shares and fresh ones change places. Low sweeps add up what they find in c, unless z tell.
struct Iterate {
    double *shares, *fresh, *change;
    float* c;
    u32 has_c;
    Sent sent;
};

template <class Q, bool Personal, bool Partial, class Full, class Low>
CPMS_DEVICE void refine(Full& over_full, Low& over_low, const Nodes& nodes, const Plan& plan, Iterate x, const Grid& grid,
                        double* report_to) {
    __shared__ FullFactors by;
    __shared__ Common common;
    __shared__ Past past;
    __shared__ Course course;
    __shared__ Counted counted;
    __shared__ Unsettled unsettled;
    constexpr bool of_dangling = QuantiserOf<Q>::Type::of_dangling, settles = z_tell<Low, Q>;
    const auto sum = [&] {
        if constexpr (settles) return x.shares;
        else return x.c;
    };
    if constexpr (counts_totals<Low>) counted.begin(grid);
    const auto expect_full = [&] { over_full.template expect<double>(); };
    const auto expect_low = [&] { over_low.template expect<Q>(); };
    if constexpr (one_way<Full, Low>) expect_full();
    Report report(report_to);
    if (threadIdx.x == 0) {
        common = Common::of(nodes);
        course.before = course.promised = infinity();
        course.vectors = x.sent.vectors;
        unsettled.first = 1;
    }
    const auto expect_other = [&] {
        if constexpr (!one_way<Full, Low>) expect_full();
    };
    Totals<2, 0> whole;
    bool again = false;
    do {
        if (!settles || !again) {
            whole = corrected<Partial>(nodes, x.shares, x.has_c ? x.c : nullptr);
            whole.over_grid(grid, expect_other);
        }
        if (threadIdx.x == 0) by = FullFactors::of(nodes, common, whole.value[0], whole.value[1]);
        __syncthreads();
        FullEnd<true, Personal, of_dangling, Full::counts_are_bytes> full{nodes, by, x.shares, x.fresh, x.change};
        over_full.template sweep<double>((const u8*)x.shares, full);
        Totals<6, 2> norms{{full.l1, full.squares, full.mass, full.other, full.linf, full.largest}};
        norms.over_grid(grid, expect_low);
        const double l1 = norms.value[0], size = norm_of(plan.norm, l1, norms.value[1], norms.value[4]);
        report.sweep(l1, norms.value[1], norms.value[2], norms.value[3], norms.value[4]);
        double* const older = x.shares;
        x.shares = x.fresh;
        x.fresh = older;
        if (!plan.lows || !(size >= plan.tol) || !(size < infinity())) return;
        if (report.count >= plan.most) return;

        LowState state = quantised<Q, Partial>(nodes, plan.storing, x.change, norms.value[5], settles ? nullptr : x.c,
                                                 x.sent.z, grid);
        past.note(0, state, norms.value[3]);
        if (threadIdx.x == 0) {
            course.l1 = l1;
            course.until = low_until(plan, l1, size);
            course.full = course.began = report.count;
        }
        __syncthreads();
        double now = l1;
        do {
            const u64 seed = plan.storing.seed + report.count * 0xD1B54A32D192ED03ull;
            const bool combines = course.vectors == kept_sweeps;
            if (combines && report.count - course.began == depth) {
                using Combining = Combination<typename StoredValues<Q>::Real>;
                static_assert(sizeof(Combining) <= sizeof(RoomFor<32 * least_resident_warps>), "too much to combine");
                Room& between = over_low.room;
                Combining& room = *(Combining*)&between;
                state = extrapolated<Q, Partial, !counts_totals<Low>>(nodes, plan.storing, x.sent, past, sum(), room,
                                                                       seed, grid);
                if (threadIdx.x == 0) {
                    course.began = report.count;
                    if (!past.pays) course.vectors = 2;
                }
                __syncthreads();
            }
            if (settles && !combines && report.count - course.began == depth) {
                unsettled.weigh<Q>(depth);
                settled<Q, Partial, false>(nodes, x.sent, unsettled, x.shares, nullptr);
                grid.wait([] {});
                if (threadIdx.x == 0) course.began = report.count;
                __syncthreads();
            }
            const u32 sweep = report.count - course.began, in_turn = !settles && course.vectors == 2 ? 1 : ~0u;
            const int next = shared_scale(plan.storing.scaled, plan.storing.top, state.largest);
            const LowFactors factors =
                kept_by<Low, Q>(LowFactors::of<Q>(nodes, common, state.exponent, next, state.lost));
            u8* const into = kept_by<Low, Q>(x.sent.at((sweep + 1) & in_turn));
            LowEnd<Q, Personal, Partial, Low::counts_are_bytes, !settles> end(nodes, factors, x.c, into, seed);
            over_low.template sweep<Q>(kept_by<Low, Q>(x.sent.at(sweep & in_turn)), end);
            Totals<4, 1> totals{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next)}};
            if constexpr (counts_totals<Low>) {
                counted.over_grid(grid, totals, now, state.largest, expect_low);
            } else {
                totals.over_grid(grid, expect_low);
            }
            now = totals.value[0];
            state = LowState{totals.value[3], totals.value[2], next};
            past.note(report.count - course.began + 1, state, totals.value[1]);
            if (settles && threadIdx.x == 0) unsettled.exponent[report.count - course.began + 1] = next;
            report.sweep(now, low_sweep, 0.0, totals.value[1], 0.0);
        } while (now > course.until && report.count < plan.most && report.count - course.full < plan.lows);
        if constexpr (settles) {
            unsettled.weigh<Q>(report.count - course.began);
            whole = settled<Q, Partial, true>(nodes, x.sent, unsettled, x.shares, nullptr);
            whole.over_grid(grid, expect_other);
        } else {
            x.has_c = 1;
        }
        again = course.goes_on(plan, report.count);
        __syncthreads();
        if (threadIdx.x == 0) course.end(plan, now);
    } while (again);
}

}  // namespace cpms

#define CPMS_ITERATE_PARAMETERS                                                                    \
    const unsigned *degree, const double *sink, const double *teleport, unsigned sink_step,        \
        unsigned teleport_step, unsigned count, double damping, const unsigned *kept,              \
        const unsigned char *degree_byte, const unsigned char *kept_byte, double gain, double tol, \
        double trust, double reach, double noise, unsigned norm, unsigned most,                    \
        unsigned lows, unsigned scaled, int top, unsigned long long seed, double *shares,          \
        double *fresh, double *change, float *c, unsigned has_c, unsigned char *z,                 \
        unsigned long long z_bytes, unsigned z_vectors, double *partials, unsigned *came, double *report
#define CPMS_ITERATE(FULL, LOW, ...)                                                               \
    cpms::refine<__VA_ARGS__>(                                                                     \
        FULL, LOW,                                                                                 \
        cpms::Nodes{degree, sink, teleport, sink_step, teleport_step, count, damping, kept, degree_byte, kept_byte}, \
        cpms::Plan{gain, tol, trust, reach, noise, norm, most, lows, cpms::Storing{scaled, top, seed}}, \
        cpms::Iterate{shares, fresh, change, c, has_c, cpms::Sent{z, z_bytes, z_vectors}}, grid, report); \
    grid.end();

#define CPMS_REFINE(...) CPMS_OVER_SOURCES(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
#define CPMS_REFINE_CACHED(...) CPMS_OVER_CACHED(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
#define CPMS_REFINE_OVER_CODES(...) CPMS_OVER_CODES(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
#define CPMS_REFINE_HOT(...) CPMS_OVER_HOT(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
#define CPMS_REFINE_IN_BINS(...) CPMS_LOW_IN_BINS(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
#define CPMS_REFINE_LOW_DEALT(...) CPMS_LOW_DEALT(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
#define CPMS_REFINE_DEALT(...) CPMS_ALL_DEALT(CPMS_ITERATE_PARAMETERS, CPMS_ITERATE, __VA_ARGS__)
