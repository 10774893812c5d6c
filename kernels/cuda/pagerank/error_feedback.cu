// Rounds of method refine in which nodes keep what rounding loses of them (pagerank/error_feedback.cuh): as long as more than the damping
// makes residuals fade.
#include "pagerank/error_feedback.cuh"
#include "persistent/instantiate.cuh"
#include "pagerank/refine_request.cuh"

namespace cpms {

// What is iterated. Shares and fresh ones change places at full sweeps; other rounds may have left a c.
struct Carried {
    double *shares, *fresh, *left;
    const float* c;
    Sent sent;
};

// Where one thread of a warp writes before all of a block wait, ptxas 13 may let it come to the barrier by itself and go on
// so: what all of a warp have the same of in uniform registers is then lost.
CPMS_DEVICE void sync_block() {
    __syncwarp();
    __syncthreads();
}

template <class Q, bool Personal, bool Partial, class Full, class Low>
CPMS_DEVICE void carry(Full& over_full, Low& over_low, const Nodes& nodes, const Plan& plan, const Guess& guess, Carried x,
                       const Grid& grid, double* report_to) {
    constexpr u32 carried = carried_depth<Q>;
    __shared__ FullFactors by;
    __shared__ Common common;
    __shared__ Course course;
    __shared__ Unsettled unsettled;
    const auto expect_full = [&] { over_full.template expect<double>(); };
    const auto expect_low = [&] { over_low.template expect<Q>(); };
    if constexpr (one_way<Full, Low>) expect_full();
    Report report(report_to);
    const bool writes = threadIdx.x == 0;
    const Common found = Common::of(nodes);
    if (writes) {
        common = found;
        course.before = course.promised = infinity();
    }
    const auto expect_other = [&] {
        if constexpr (!one_way<Full, Low>) expect_full();
    };
    bool rough = guess.starts, again;
    Totals<2, 0> whole{{1.0, 0.0}};
    if (!rough) {
        whole = corrected<Partial>(nodes, x.shares, x.c);
        whole.over_grid(grid, expect_other);
    }
    do {
        double l1 = 1.0, size = 1.0;
        LowState state;
        if (rough) {
            if constexpr (!one_way<Full, Low>) expect_low();
            sync_block();
            state = guessed<Q, Personal, Partial>(nodes, common, plan.storing, guess, x.shares, x.left, x.sent.at(carried), grid);
        } else {
            const FullFactors factors = FullFactors::of(nodes, common, whole.value[0], whole.value[1]);
            if (writes) by = factors;
            sync_block();
            FullEnd<true, Personal, true, Full::counts_are_bytes> full{nodes, by, x.shares, x.fresh, x.left};
            over_full.template sweep<double>((const u8*)x.shares, full);
            Totals<6, 2> norms{{full.l1, full.squares, full.mass, full.other, full.linf, full.largest}};
            norms.over_grid(grid, expect_low);
            l1 = norms.value[0];
            size = norm_of(plan.norm, l1, norms.value[1], norms.value[4]);
            report.sweep(l1, norms.value[1], norms.value[2], norms.value[3], norms.value[4]);
            double* const older = x.shares;
            x.shares = x.fresh;
            x.fresh = older;
            if (!plan.lows || !(size >= plan.tol) || !(size < infinity()) || report.count >= plan.most) return;
            state = first_sent<Q, Partial>(nodes, plan.storing, norms.value[5], x.shares, x.left, x.sent.z, grid);
        }
        const double until = low_until(plan, l1, size);
        if (writes) {
            unsettled.exponent[0] = state.exponent;
            course.l1 = l1;
            course.until = until;
            course.full = course.began = report.count;
            unsettled.first = 0;
        }
        sync_block();
        double now = l1;
        bool more, slow = false;
        do {
            const u64 seed = plan.storing.seed + report.count * 0xD1B54A32D192ED03ull;
            if (report.count - course.began == carried) {
                unsettled.weigh<Q>(carried);
                settled<Q, Partial, false>(nodes, x.sent, unsettled, x.shares, x.left);
                grid.wait([] {});
                if (writes) {
                    course.began = report.count;
                    unsettled.first = 1;
                }
                sync_block();
            }
            const u32 sweep = report.count - course.began;
            const int next = shared_scale(plan.storing.scaled, plan.storing.top, state.largest);
            const LowFactors factors =
                kept_by<Low, Q>(LowFactors::of<Q>(nodes, common, state.exponent, next, state.lost));
            u8* const into = kept_by<Low, Q>(x.sent.at(rough ? 0 : sweep + 1));
            CarryEnd<Q, Personal, Partial, Low::counts_are_bytes> end(nodes, factors, x.left, into, seed);
            over_low.template sweep<Q>(kept_by<Low, Q>(x.sent.at(rough ? carried : sweep)), end);
            Totals<4, 1> totals{{end.l1, end.sum, end.lost(), (double)end.largest * power_of_two(-next)}};
            totals.over_grid(grid, expect_low);
            const double before = now;
            now = totals.value[0];
            state = LowState{totals.value[3], totals.value[2], next};
            if (writes) unsettled.exponent[rough ? 0 : sweep + 1] = next;
            report.sweep(now, rough ? rough_sweep : low_sweep, 0.0, totals.value[1], 0.0);
            more = rough ? now > course.until : leaves_more(now, before, course.until, nodes.damping);
            slow = !rough && (sweep + 1) % depth == 0 && more && fades_slowly(now, before, nodes.damping);
            if (rough) {
                if (writes) course.began = report.count;
                sync_block();
            }
            rough = false;
        } while (more && !slow && report.count < plan.most);
        unsettled.weigh<Q>(report.count - course.began);
        whole = settled<Q, Partial, true>(nodes, x.sent, unsettled, x.shares, x.left);
        whole.over_grid(grid, expect_other);
        again = !slow && course.goes_on(plan, report.count);
        sync_block();
        if (writes) course.end(plan, now);
    } while (again);
}

}  // namespace cpms

#define CPMS_CARRY_PARAMETERS                                                                      \
    const unsigned *degree, const double *sink, const double *teleport, unsigned sink_step,        \
        unsigned teleport_step, unsigned count, double damping, const unsigned *kept,              \
        const unsigned char *degree_byte, const unsigned char *kept_byte, double gain, double tol, \
        double trust, double reach, double noise, unsigned norm, unsigned most, unsigned lows,     \
        unsigned scaled, int top, unsigned long long seed, const unsigned *starts, double by_edge, \
        double largest, double *shares, double *fresh, double *left, const float *c, unsigned has_c, \
        unsigned char *z, unsigned long long z_bytes, unsigned z_vectors, double *partials,        \
        unsigned *came, double *report
#define CPMS_CARRY_ROUNDS(FULL, LOW, ...)                                                          \
    cpms::carry<__VA_ARGS__>(                                                                      \
        FULL, LOW,                                                                                 \
        cpms::Nodes{degree, sink, teleport, sink_step, teleport_step, count, damping, kept, degree_byte, kept_byte}, \
        cpms::Plan{gain, tol, trust, reach, noise, norm, most, lows, cpms::Storing{scaled, top, seed}}, \
        cpms::Guess{starts, by_edge, largest},                                                     \
        cpms::Carried{shares, fresh, left, has_c ? c : nullptr, cpms::Sent{z, z_bytes, z_vectors}}, \
        grid, report);                                                                             \
    grid.end();

#define CPMS_CARRY(...) CPMS_OVER_SOURCES(CPMS_CARRY_PARAMETERS, CPMS_CARRY_ROUNDS, __VA_ARGS__)
#define CPMS_CARRY_OVER_CODES(...) CPMS_OVER_CODES(CPMS_CARRY_PARAMETERS, CPMS_CARRY_ROUNDS, __VA_ARGS__)
#define CPMS_CARRY_HOT(...) CPMS_OVER_HOT(CPMS_CARRY_PARAMETERS, CPMS_CARRY_ROUNDS, __VA_ARGS__)
#define CPMS_CARRY_LOW_DEALT(...) CPMS_LOW_DEALT(CPMS_CARRY_PARAMETERS, CPMS_CARRY_ROUNDS, __VA_ARGS__)
#define CPMS_CARRY_DEALT(...) CPMS_ALL_DEALT(CPMS_CARRY_PARAMETERS, CPMS_CARRY_ROUNDS, __VA_ARGS__)
