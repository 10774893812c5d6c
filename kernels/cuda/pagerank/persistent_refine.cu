// Mixed-precision iterative refinement by one persistent kernel: outer steps of a float64 residual sweep (iterative
// refinement, Wilkinson 1963; Carson and Higham, 2018) and low-precision inner sweeps (Richardson iterations on the
// correction), with Anderson acceleration.
//
// A launch runs outer steps as long as residuals meet their predictions; then the host decides anew. An inner sweep
// reads 8, 16 or 32 bits an edge in place of 64.
#include "persistent/fixed_point_allreduce.cuh"
#include "pagerank/refine_request.cuh"
#include "persistent/instantiate.cuh"
#include "pagerank/deferred_update.cuh"

namespace cpms {

// Whether the update of x is deferred: inner sweeps then write the quantised residual only
// (pagerank/deferred_update.cuh). It needs a format with range for dangling nodes' contributions. Where the whole
// graph is in cache, sweeps over more vectors take longer, so the correction is accumulated.
template <class Inner, class Q>
constexpr bool is_deferred = QuantiserOf<Q>::Type::stores_dangling && !fixed_point_totals<Inner>;

template <class Q, bool Personal, bool Core, class Residual, class Inner>
CPMS_DEVICE void persistent_refine(Residual& residual_strategy, Inner& inner_strategy, const Nodes& nodes,
                                   const RefineRequest& request, RefineVectors vectors, const Grid& grid,
                                   double* report_to) {
    __shared__ ResidualFactors by;
    __shared__ UniformInflow common;
    __shared__ AndersonHistory anderson;
    __shared__ OuterState outer;
    __shared__ FixedPointAllReduce allreduce;
    __shared__ DeferredUpdate deferred;
    constexpr bool stores_dangling = QuantiserOf<Q>::Type::stores_dangling, defers = is_deferred<Inner, Q>;
    const auto target = [&] {
        if constexpr (defers)
            return vectors.contributions;
        else
            return vectors.correction;
    };
    if constexpr (fixed_point_totals<Inner>) allreduce.begin(grid);
    const auto prefetch_residual = [&] { residual_strategy.template prefetch<double>(); };
    const auto prefetch_inner = [&] { inner_strategy.template prefetch<Q>(); };
    if constexpr (same_strategy<Residual, Inner>) prefetch_residual();
    SweepLog report(report_to);
    if (threadIdx.x == 0) {
        common = UniformInflow::of(nodes);
        outer.previous_l1 = outer.predicted_l1 = infinity();
        outer.vectors = vectors.history.vectors;
        deferred.first = 1;
    }
    const auto prefetch_other = [&] {
        if constexpr (!same_strategy<Residual, Inner>) prefetch_residual();
    };
    GridReduce<2, 0> masses;
    bool again = false;
    do {
        if (!defers || !again) {
            masses = apply_correction<Core>(nodes, vectors.contributions,
                                            vectors.has_correction ? vectors.correction : nullptr);
            masses.all_reduce(grid, prefetch_other);
        }
        if (threadIdx.x == 0) by = ResidualFactors::of(nodes, common, masses.value[0], masses.value[1]);
        __syncthreads();
        ResidualEpilogue<true, Personal, stores_dangling, Residual::byte_degrees> residual_epilogue{
            nodes, by, vectors.contributions, vectors.next_contributions, vectors.residual};
        residual_strategy.template sweep<double>((const u8*)vectors.contributions, residual_epilogue);
        GridReduce<6, 2> norms{{residual_epilogue.l1, residual_epilogue.squares, residual_epilogue.mass,
                                residual_epilogue.sum_or_dangling, residual_epilogue.linf, residual_epilogue.largest}};
        norms.all_reduce(grid, prefetch_inner);
        const double l1 = norms.value[0], norm = norm_of(request.norm, l1, norms.value[1], norms.value[4]);
        report.record(l1, norms.value[1], norms.value[2], norms.value[3], norms.value[4]);
        double* const swapped = vectors.contributions;
        vectors.contributions = vectors.next_contributions;
        vectors.next_contributions = swapped;
        if (!request.max_inner_sweeps || !(norm >= request.tolerance) || !(norm < infinity())) return;
        if (report.count >= request.max_sweeps) return;

        InnerState inner =
            quantise_residual<Q, Core>(nodes, request.settings, vectors.residual, norms.value[5],
                                       defers ? nullptr : vectors.correction, vectors.history.stored, grid);
        anderson.record(0, inner, norms.value[3]);
        if (threadIdx.x == 0) {
            outer.l1 = l1;
            outer.tolerance = inner_tolerance(request, l1, norm);
            outer.residual_sweep = outer.history_begin = report.count;
        }
        __syncthreads();
        double inner_l1 = l1;
        do {
            const u64 seed = request.settings.seed + report.count * 0xD1B54A32D192ED03ull;
            const bool combines = outer.vectors == history_length;
            if (combines && report.count - outer.history_begin == anderson_depth) {
                using Scratch = AndersonWorkspace<typename HistoryValues<Q>::Real>;
                static_assert(sizeof(Scratch) <= sizeof(WorkspaceFor<32 * min_persistent_warps>),
                              "too much to combine");
                Workspace& idle_workspace = inner_strategy.workspace;
                Scratch& workspace = *(Scratch*)&idle_workspace;
                inner = anderson_step<Q, Core, !fixed_point_totals<Inner>>(nodes, request.settings, vectors.history,
                                                                           anderson, target(), workspace, seed, grid);
                if (threadIdx.x == 0) {
                    outer.history_begin = report.count;
                    if (!anderson.worthwhile) outer.vectors = 2;
                }
                __syncthreads();
            }
            if (defers && !combines && report.count - outer.history_begin == anderson_depth) {
                deferred.prepare<Q>(anderson_depth);
                apply_deferred<Q, Core, false>(nodes, vectors.history, deferred, vectors.contributions, nullptr);
                grid.sync([] {});
                if (threadIdx.x == 0) outer.history_begin = report.count;
                __syncthreads();
            }
            const u32 place = report.count - outer.history_begin, place_mask = !defers && outer.vectors == 2 ? 1 : ~0u;
            const int next_exponent = shared_exponent(request.settings.scaled, request.settings.top, inner.largest);
            const InnerFactors factors = in_uniform_registers<Inner, Q>(
                InnerFactors::of<Q>(nodes, common, inner.exponent, next_exponent, inner.lost));
            u8* const next_sent = in_uniform_registers<Inner, Q>(vectors.history.at((place + 1) & place_mask));
            InnerEpilogue<Q, Personal, Core, Inner::byte_degrees, !defers> end(nodes, factors, vectors.correction,
                                                                               next_sent, seed);
            inner_strategy.template sweep<Q>(in_uniform_registers<Inner, Q>(vectors.history.at(place & place_mask)),
                                             end);
            GridReduce<4, 1> totals{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next_exponent)}};
            if constexpr (fixed_point_totals<Inner>) {
                allreduce.all_reduce(grid, totals, inner_l1, inner.largest, prefetch_inner);
            } else {
                totals.all_reduce(grid, prefetch_inner);
            }
            inner_l1 = totals.value[0];
            inner = InnerState{totals.value[3], totals.value[2], next_exponent};
            anderson.record(report.count - outer.history_begin + 1, inner, totals.value[1]);
            if (defers && threadIdx.x == 0) deferred.exponent[report.count - outer.history_begin + 1] = next_exponent;
            report.record(inner_l1, inner_sweep_mark, 0.0, totals.value[1], 0.0);
        } while (inner_l1 > outer.tolerance && report.count < request.max_sweeps &&
                 report.count - outer.residual_sweep < request.max_inner_sweeps);
        if constexpr (defers) {
            deferred.prepare<Q>(report.count - outer.history_begin);
            masses = apply_deferred<Q, Core, true>(nodes, vectors.history, deferred, vectors.contributions, nullptr);
            masses.all_reduce(grid, prefetch_other);
        } else {
            vectors.has_correction = 1;
        }
        again = outer.continues(request, report.count);
        __syncthreads();
        if (threadIdx.x == 0) outer.close(request, inner_l1);
    } while (again);
}

}  // namespace cpms

#define CPMS_REFINE_PARAMETERS                                                                      \
    const __grid_constant__ cpms::Nodes nodes, const __grid_constant__ cpms::RefineRequest request, \
        const __grid_constant__ cpms::RefineVectors vectors, double *partials, unsigned *arrived, double *report
#define CPMS_RUN_REFINE(RESIDUAL, INNER, ...)                                                     \
    cpms::persistent_refine<__VA_ARGS__>(RESIDUAL, INNER, nodes, request, vectors, grid, report); \
    grid.end();

#define CPMS_PERSISTENT_REFINE(...) CPMS_DIRECT_GATHER(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
#define CPMS_PERSISTENT_REFINE_IN_CACHE(...) CPMS_IN_CACHE_GATHER(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
#define CPMS_PERSISTENT_REFINE_COMPRESSED(...) \
    CPMS_COMPRESSED_GATHER(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
#define CPMS_PERSISTENT_REFINE_HUB_CACHE(...) \
    CPMS_HUB_CACHE_GATHER(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
#define CPMS_PERSISTENT_REFINE_TILED_GATHER(...) \
    CPMS_INNER_TILED_GATHER(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
#define CPMS_PERSISTENT_REFINE_INNER_BLOCKED(...) \
    CPMS_INNER_BLOCKED(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
#define CPMS_PERSISTENT_REFINE_BLOCKED(...) CPMS_ALL_BLOCKED(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, __VA_ARGS__)
