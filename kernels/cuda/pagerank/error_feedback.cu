// Persistent mixed-precision iterative refinement with error feedback (pagerank/error_feedback.cuh), many outer steps
// a launch. It is used as long as residuals decrease clearly faster than the damping factor.
#include "pagerank/error_feedback.cuh"
#include "persistent/instantiate.cuh"
#include "pagerank/refine_request.cuh"

namespace cpms {

// A block barrier behind a branch of one thread. ptxas 13 may let that thread arrive at the barrier alone and
// continue alone, and lose the values that its warp holds in uniform registers; the warp barrier prevents it.
CPMS_DEVICE void sync_block() {
    __syncwarp();
    __syncthreads();
}

template <class Q, bool Personal, bool Core, class Residual, class Inner>
CPMS_DEVICE void error_feedback(Residual& residual_strategy, Inner& inner_strategy, const Nodes& nodes,
                                const RefineRequest& request, const RoundedStart& start, RefineVectors vectors,
                                const Grid& grid, double* report_to) {
    constexpr u32 deferrals = deferred_depth<Q>;
    __shared__ ResidualFactors by;
    __shared__ UniformInflow common;
    __shared__ OuterState outer;
    __shared__ DeferredUpdate deferred;
    const auto prefetch_residual = [&] { residual_strategy.template prefetch<double>(); };
    const auto prefetch_inner = [&] { inner_strategy.template prefetch<Q>(); };
    if constexpr (same_strategy<Residual, Inner>) prefetch_residual();
    SweepLog report(report_to);
    const bool writes = threadIdx.x == 0;
    const UniformInflow uniform = UniformInflow::of(nodes);
    if (writes) {
        common = uniform;
        outer.previous_l1 = outer.predicted_l1 = infinity();
    }
    const auto prefetch_other = [&] {
        if constexpr (!same_strategy<Residual, Inner>) prefetch_residual();
    };
    bool from_rounded = start.row_begins, again;
    GridReduce<2, 0> masses{{1.0, 0.0}};
    if (!from_rounded) {
        masses =
            apply_correction<Core>(nodes, vectors.contributions, vectors.has_correction ? vectors.correction : nullptr);
        masses.all_reduce(grid, prefetch_other);
    }
    do {
        double l1 = 1.0, norm = 1.0;
        InnerState inner;
        if (from_rounded) {
            if constexpr (!same_strategy<Residual, Inner>) prefetch_inner();
            sync_block();
            inner = begin_rounded<Q, Personal, Core>(nodes, common, request.settings, start, vectors.contributions,
                                                     vectors.residual, vectors.history.at(deferrals), grid);
        } else {
            const ResidualFactors factors = ResidualFactors::of(nodes, common, masses.value[0], masses.value[1]);
            if (writes) by = factors;
            sync_block();
            ResidualEpilogue<true, Personal, true, Residual::byte_degrees> residual_epilogue{
                nodes, by, vectors.contributions, vectors.next_contributions, vectors.residual};
            residual_strategy.template sweep<double>((const u8*)vectors.contributions, residual_epilogue);
            GridReduce<6, 2> norms{{residual_epilogue.l1, residual_epilogue.squares, residual_epilogue.mass,
                                    residual_epilogue.sum_or_dangling, residual_epilogue.linf,
                                    residual_epilogue.largest}};
            norms.all_reduce(grid, prefetch_inner);
            l1 = norms.value[0];
            norm = norm_of(request.norm, l1, norms.value[1], norms.value[4]);
            report.record(l1, norms.value[1], norms.value[2], norms.value[3], norms.value[4]);
            double* const swapped = vectors.contributions;
            vectors.contributions = vectors.next_contributions;
            vectors.next_contributions = swapped;
            if (!request.max_inner_sweeps || !(norm >= request.tolerance) || !(norm < infinity()) ||
                report.count >= request.max_sweeps)
                return;
            inner = send_first<Q, Core>(nodes, request.settings, norms.value[5], vectors.contributions,
                                        vectors.residual, vectors.history.stored, grid);
        }
        const double tolerance = inner_tolerance(request, l1, norm);
        if (writes) {
            deferred.exponent[0] = inner.exponent;
            outer.l1 = l1;
            outer.tolerance = tolerance;
            outer.residual_sweep = outer.history_begin = report.count;
            deferred.first = 0;
        }
        sync_block();
        double inner_l1 = l1;
        bool more, slow = false;
        do {
            const u64 seed = request.settings.seed + report.count * 0xD1B54A32D192ED03ull;
            if (report.count - outer.history_begin == deferrals) {
                deferred.prepare<Q>(deferrals);
                apply_deferred<Q, Core, false>(nodes, vectors.history, deferred, vectors.contributions,
                                               vectors.residual);
                grid.sync([] {});
                if (writes) {
                    outer.history_begin = report.count;
                    deferred.first = 1;
                }
                sync_block();
            }
            const u32 place = report.count - outer.history_begin;
            const int next_exponent = shared_exponent(request.settings.scaled, request.settings.top, inner.largest);
            const InnerFactors factors = in_uniform_registers<Inner, Q>(
                InnerFactors::of<Q>(nodes, common, inner.exponent, next_exponent, inner.lost));
            u8* const next_sent = in_uniform_registers<Inner, Q>(vectors.history.at(from_rounded ? 0 : place + 1));
            ErrorFeedbackEpilogue<Q, Personal, Core, Inner::byte_degrees> end(nodes, factors, vectors.residual,
                                                                              next_sent, seed);
            inner_strategy.template sweep<Q>(
                in_uniform_registers<Inner, Q>(vectors.history.at(from_rounded ? deferrals : place)), end);
            GridReduce<4, 1> totals{{end.l1, end.sum, end.lost(), (double)end.largest * power_of_two(-next_exponent)}};
            totals.all_reduce(grid, prefetch_inner);
            const double previous_l1 = inner_l1;
            inner_l1 = totals.value[0];
            inner = InnerState{totals.value[3], totals.value[2], next_exponent};
            if (writes) deferred.exponent[from_rounded ? 0 : place + 1] = next_exponent;
            report.record(inner_l1, from_rounded ? rounded_start_mark : inner_sweep_mark, 0.0, totals.value[1], 0.0);
            more = from_rounded ? inner_l1 > outer.tolerance
                                : inner_continues(inner_l1, previous_l1, outer.tolerance, nodes.damping);
            slow = !from_rounded && (place + 1) % anderson_depth == 0 && more &&
                   converges_slowly(inner_l1, previous_l1, nodes.damping);
            if (from_rounded) {
                if (writes) outer.history_begin = report.count;
                sync_block();
            }
            from_rounded = false;
        } while (more && !slow && report.count < request.max_sweeps);
        deferred.prepare<Q>(report.count - outer.history_begin);
        masses =
            apply_deferred<Q, Core, true>(nodes, vectors.history, deferred, vectors.contributions, vectors.residual);
        masses.all_reduce(grid, prefetch_other);
        again = !slow && outer.continues(request, report.count);
        sync_block();
        if (writes) outer.close(request, inner_l1);
    } while (again);
}

}  // namespace cpms

#define CPMS_FEEDBACK_PARAMETERS                                                                               \
    const __grid_constant__ cpms::Nodes nodes, const __grid_constant__ cpms::RefineRequest request,            \
        const __grid_constant__ cpms::RoundedStart start, const __grid_constant__ cpms::RefineVectors vectors, \
        double *partials, unsigned *arrived, double *report
#define CPMS_RUN_FEEDBACK(RESIDUAL, INNER, ...)                                                       \
    cpms::error_feedback<__VA_ARGS__>(RESIDUAL, INNER, nodes, request, start, vectors, grid, report); \
    grid.end();

#define CPMS_ERROR_FEEDBACK(...) CPMS_DIRECT_GATHER(CPMS_FEEDBACK_PARAMETERS, CPMS_RUN_FEEDBACK, __VA_ARGS__)
#define CPMS_ERROR_FEEDBACK_COMPRESSED(...) \
    CPMS_COMPRESSED_GATHER(CPMS_FEEDBACK_PARAMETERS, CPMS_RUN_FEEDBACK, __VA_ARGS__)
#define CPMS_ERROR_FEEDBACK_HUB_CACHE(...) \
    CPMS_HUB_CACHE_GATHER(CPMS_FEEDBACK_PARAMETERS, CPMS_RUN_FEEDBACK, __VA_ARGS__)
#define CPMS_ERROR_FEEDBACK_INNER_BLOCKED(...) \
    CPMS_INNER_BLOCKED(CPMS_FEEDBACK_PARAMETERS, CPMS_RUN_FEEDBACK, __VA_ARGS__)
#define CPMS_ERROR_FEEDBACK_BLOCKED(...) CPMS_ALL_BLOCKED(CPMS_FEEDBACK_PARAMETERS, CPMS_RUN_FEEDBACK, __VA_ARGS__)
