// Mixed-precision iterative refinement by one persistent kernel: outer steps of a float64 residual sweep (iterative
// refinement, Wilkinson 1963; Carson and Higham, 2018) and low-precision inner sweeps (Richardson iterations on the
// correction), with Anderson acceleration or with error feedback.
//
// With G(x) = damping P x + teleport and r_0 = G(x) - x, an inner sweep is r_{k+1} = damping P r_k, and the next outer
// step begins at x + r_0 + r_1 + ...; z_k = Q(r_k / degree) is what neighbours read. A launch runs outer steps as long
// as residuals meet their predictions; then the host decides anew. An inner sweep gathers a value of 8, 16
// or 32 bits an edge in place of one of 64; indices cost the same in both kinds of sweeps.
#include "pagerank/error_feedback.cuh"
#include "pagerank/refine_request.cuh"
#include "persistent/fixed_point_allreduce.cuh"
#include "persistent/instantiate.cuh"
#include "pagerank/ranks.cuh"

namespace cpms {

// Policies of inner sweeps: what happens to the correction, and to the rounding error of what is sent.
enum class Update {
    accumulate,     // sweeps add to the correction, and the next outer step adds it to x
    defer,          // sweeps write the quantised residual only, and passes add it to x (pagerank/deferred_update.cuh)
    error_feedback  // deferred, and nodes keep rounding errors (pagerank/error_feedback.cuh)
};

// A deferred update needs a format with range for dangling nodes' contributions. Where the whole graph is in cache,
// sweeps over more vectors take longer, so the correction is accumulated.
template <class Inner, class Q>
constexpr Update update_for =
    QuantiserOf<Q>::Type::stores_dangling && !fixed_point_totals<Inner> ? Update::defer : Update::accumulate;

// Epilogue of an inner sweep under a policy, and the vector that it updates besides the quantised residual: the
// correction, or the rounding errors that nodes keep.
template <Update update, class Q, bool Personal, bool Core, bool ByteDegrees>
struct PolicyEpilogue {
    using Type = InnerEpilogue<Q, Personal, Core, ByteDegrees, update == Update::accumulate>;
    static CPMS_DEVICE float* updates(const RefineVectors& vectors) { return vectors.correction; }
};
template <class Q, bool Personal, bool Core, bool ByteDegrees>
struct PolicyEpilogue<Update::error_feedback, Q, Personal, Core, ByteDegrees> {
    using Type = ErrorFeedbackEpilogue<Q, Personal, Core, ByteDegrees>;
    static CPMS_DEVICE double* updates(const RefineVectors& vectors) { return vectors.residual; }
};

// Outer steps of a launch. Q is the format of quantised residuals, Personal and Core are those of pagerank/nodes.cuh,
// and Residual and Inner are the strategies of both kinds of sweeps. All threads of the grid call it with equal
// arguments. `start` is read with error feedback alone, report_to is the buffer of SweepLog, and `ranks` is OneDevice
// or Ranks.
template <Update update, class Q, bool Personal, bool Core, class Residual, class Inner, class RanksOrOne>
CPMS_DEVICE void persistent_refine(Residual& residual_strategy, Inner& inner_strategy, const Nodes& nodes,
                                   const RefineRequest& request, const RoundedStart& start, RefineVectors vectors,
                                   const Grid& grid, double* report_to, const RanksOrOne& ranks) {
    using Word = typename WideningLoad<Q>::Word;
    constexpr bool several = RanksOrOne::several;
    static_assert(!several || !fixed_point_totals<Inner>, "ranks add up float64 totals");
    constexpr bool feeds_back = update == Update::error_feedback, defers = update != Update::accumulate;
    // Whether z holds values of dangling nodes, so that they count for the largest value, from which the scale follows.
    constexpr bool with_dangling = feeds_back || QuantiserOf<Q>::Type::stores_dangling;
    constexpr u32 deferrals = feeds_back ? deferred_depth<Q> : anderson_depth;  // sweeps between updates of x
    using InnerEnd = PolicyEpilogue<update, Q, Personal, Core, Inner::byte_degrees>;
    __shared__ ResidualFactors by;
    __shared__ UniformInflow common;
    __shared__ AndersonHistory anderson;
    __shared__ OuterState outer;
    __shared__ FixedPointAllReduce allreduce;
    __shared__ DeferredUpdate deferred;
    // The vector to which a combination is added.
    const auto target = [&] {
        if constexpr (defers) return vectors.contributions;
        else return vectors.correction;
    };
    // Seeds of stochastic rounding; no two vectors of a launch share their draws: sweep k writes vector 2 k, and a pass
    // before that sweep vector 2 k + 1. The odd multiplier is 2^64 / 1.2207, as in step_seed of
    // cpms/formats/quantization.py (1.2207 solves x^4 = x + 1; Roberts, 2018).
    const auto seed_of = [&](u32 vector) { return request.settings.seed + vector * 0xD1B54A32D192ED03ull; };
    if constexpr (fixed_point_totals<Inner>) allreduce.begin(grid);
    // A sweep's prefetch runs in the last barrier before it. If both kinds of sweeps have one strategy, they share the
    // prefetch, and the last inner sweep has done it for the residual sweep.
    const auto prefetch_residual = [&] { residual_strategy.template prefetch<double>(); };
    const auto prefetch_inner = [&] { inner_strategy.template prefetch<Q>(); };
    if constexpr (same_strategy<Residual, Inner>) prefetch_residual();
    SweepLog report(report_to);
    const bool writes = threadIdx.x == 0;
    const UniformInflow uniform = UniformInflow::of(nodes);
    if (writes) {
        common = uniform;
        outer.previous_l1 = outer.predicted_l1 = infinity();
        outer.vectors = vectors.history.vectors;
    }
    const auto prefetch_other = [&] {
        if constexpr (!same_strategy<Residual, Inner>) prefetch_residual();
    };
    double* const rounding_error = feeds_back ? vectors.residual : nullptr;
    bool from_rounded = feeds_back && start.row_begins, again = false;
    GridReduce<2, 0> masses{{1.0, 0.0}};  // of x, and the part of it that no edge carries
    do {
        // From the second outer step on, the last deferred update has found the masses.
        if ((!defers || !again) && !from_rounded) {
            masses = apply_correction<Core>(nodes, vectors.contributions,
                                            vectors.has_correction ? vectors.correction : nullptr);
            ranks.template all_reduce<u64>(masses, vectors.contributions, grid, prefetch_other);
        }
        double l1 = 1.0, norm = 1.0;  // a rounded initial guess has no residual sweep, and 1 stands for its norms
        InnerState inner;
        QuantiserSettings first_settings = request.settings;  // of the first vector
        first_settings.seed = seed_of(2 * report.count + 1);
        if (from_rounded) {
            if constexpr (feeds_back) {
                if constexpr (!same_strategy<Residual, Inner>) prefetch_inner();
                sync_block();
                inner = begin_rounded<Q, Personal, Core>(nodes, common, first_settings, start, vectors.contributions,
                                                         rounding_error, vectors.history.at(deferrals), grid);
                if constexpr (several) ranks.template exchange_lost<Word>(inner, vectors.history.at(deferrals));
            }
        } else {
            const ResidualFactors factors = ResidualFactors::of(nodes, common, masses.value[0], masses.value[1]);
            if (writes) by = factors;
            sync_block();
            ResidualEpilogue<true, Personal, with_dangling, Residual::byte_degrees> end{
                nodes, by, vectors.contributions, vectors.next_contributions, vectors.residual};
            residual_strategy.template sweep<double>((const u8*)vectors.contributions, end);
            GridReduce<6, 2> norms{{end.l1, end.squares, end.mass, end.sum_or_dangling, end.linf, end.largest}};
            ranks.template all_reduce<void>(norms, nullptr, grid, prefetch_inner);
            l1 = norms.value[0];
            norm = norm_of(request.norm, l1, norms.value[1], norms.value[4]);
            report.record(l1, norms.value[1], norms.value[2], norms.value[3], norms.value[4]);
            // From here on contributions are those of G(x) = x + r: they contain the first vector to be sent.
            double* const swapped = vectors.contributions;
            vectors.contributions = vectors.next_contributions;
            vectors.next_contributions = swapped;
            if (!request.max_inner_sweeps || !(norm >= request.tolerance) || !(norm < infinity()) ||
                report.count >= request.max_sweeps)
                return;
            if constexpr (feeds_back) {
                inner = send_first<Q, Core>(nodes, first_settings, norms.value[5], vectors.contributions,
                                            rounding_error, vectors.history.stored, grid);
            } else {
                inner = quantise_residual<Q, Core>(nodes, first_settings, vectors.residual, norms.value[5],
                                                   defers ? nullptr : vectors.correction, vectors.history.stored, grid);
            }
            if constexpr (several) ranks.template exchange_lost<Word>(inner, vectors.history.stored);
            if constexpr (!feeds_back) anderson.record(0, inner, norms.value[3]);
        }
        const double tolerance = inner_tolerance(request, l1, norm);
        if (writes) {
            outer.l1 = l1;
            outer.tolerance = tolerance;
            outer.residual_sweep = outer.history_begin = report.count;
            deferred.exponent[0] = inner.exponent;
            deferred.first = feeds_back ? 0 : 1;  // vector 0 is in x, but not with feedback (see send_first)
        }
        sync_block();
        double inner_l1 = l1;
        bool more, slow = false;
        do {
            const u64 seed = seed_of(2 * report.count);
            const bool combines = !feeds_back && outer.vectors == history_length;
            if constexpr (!feeds_back) {
                if (combines && report.count - outer.history_begin == anderson_depth) {
                    using Scratch = AndersonWorkspace<typename HistoryValues<Q>::Real>;
                    // The smallest blocks have the least workspace.
                    static_assert(sizeof(Scratch) <= sizeof(WorkspaceFor<32 * min_persistent_warps>),
                                  "too much to combine");
                    Workspace& idle_workspace = inner_strategy.workspace;
                    Scratch& workspace = *(Scratch*)&idle_workspace;
                    const auto over_ranks = [&](double* products) {
                        if constexpr (several) ranks.exchange_products(products);
                    };
                    inner = anderson_step<Q, Core, !fixed_point_totals<Inner>>(nodes, request.settings, vectors.history,
                                                                               anderson, target(), workspace,
                                                                               seed_of(2 * report.count + 1), grid,
                                                                               over_ranks);
                    if constexpr (several)
                        ranks.template exchange_lost<Word>(inner, vectors.history.stored, anderson.sum[0]);
                    if (writes) {
                        outer.history_begin = report.count;
                        if (!anderson.worthwhile) outer.vectors = 2;
                    }
                    sync_block();
                }
            }
            if (defers && !combines && report.count - outer.history_begin == deferrals) {
                deferred.prepare<Q>(deferrals);
                apply_deferred<Q, Core, false>(nodes, vectors.history, deferred, vectors.contributions, rounding_error);
                if constexpr (several)
                    ranks.template copy_halo<Word>(vectors.history.at(deferrals), vectors.history.at(0));
                grid.sync([] {});
                if (writes) {
                    outer.history_begin = report.count;
                    deferred.first = 1;  // what is vector 0 now is in x
                }
                sync_block();
            }
            // `place` counts the sweeps since vector 0 of the history was made; `from` and `to` are the places there of
            // the vectors that the sweep reads and writes. Where nothing combines or adds stored vectors, two places
            // are used in turn. A rounded initial guess lies in the last place.
            const u32 place = report.count - outer.history_begin, place_mask = !defers && outer.vectors == 2 ? 1 : ~0u;
            const u32 from = from_rounded ? deferrals : place & place_mask,
                      to = from_rounded ? 0 : (place + 1) & place_mask;
            // The scale of the vector to be written, from the largest value of the one that is read: a sweep cannot
            // wait for its own largest value, and `top` leaves some headroom (see shared_exponent). Larger values
            // saturate, and what they lose counts as lost.
            const int next_exponent = shared_exponent(request.settings.scaled, request.settings.top, inner.largest);
            const InnerFactors factors = in_uniform_registers<Inner, Q>(
                InnerFactors::of<Q>(nodes, common, inner.exponent, next_exponent, inner.lost));
            u8* const next_sent = in_uniform_registers<Inner, Q>(vectors.history.at(to));
            typename InnerEnd::Type end(nodes, factors, InnerEnd::updates(vectors), next_sent, seed);
            inner_strategy.template sweep<Q>(in_uniform_registers<Inner, Q>(vectors.history.at(from)), end);
            // ||r||_1, the sum of r, the mass lost, and the largest |r / degree|.
            GridReduce<4, 1> totals{
                {end.l1, end.sum, end.mass_lost(), (double)end.largest * power_of_two(-next_exponent)}};
            const double previous_l1 = inner_l1;
            if constexpr (fixed_point_totals<Inner>) {
                allreduce.all_reduce(grid, totals, inner_l1, inner.largest, prefetch_inner);
            } else {
                ranks.template all_reduce<Word>(totals, next_sent, grid, prefetch_inner);
            }
            inner_l1 = totals.value[0];
            inner = InnerState{totals.value[3], totals.value[2], next_exponent};
            if constexpr (!feeds_back) anderson.record(place + 1, inner, totals.value[1]);
            if (defers && writes) deferred.exponent[to] = next_exponent;
            report.record(inner_l1, from_rounded ? rounded_start_mark : inner_sweep_mark, 0.0, totals.value[1], 0.0);
            if constexpr (feeds_back) {
                more = from_rounded ? inner_l1 > outer.tolerance
                                    : inner_continues(inner_l1, previous_l1, outer.tolerance, nodes.damping);
                // Slow convergence ends the launch; the host continues with Anderson acceleration.
                slow = !from_rounded && (place + 1) % anderson_depth == 0 && more &&
                       converges_slowly(inner_l1, previous_l1, nodes.damping);
                if (from_rounded) {
                    if (writes) outer.history_begin = report.count;
                    sync_block();
                }
                from_rounded = false;
            } else {
                more = inner_l1 > outer.tolerance && report.count - outer.residual_sweep < request.max_inner_sweeps;
            }
        } while (more && !slow && report.count < request.max_sweeps);
        again = !slow && outer.continues(request, report.count);
        if constexpr (defers) {
            deferred.prepare<Q>(report.count - outer.history_begin);
            masses =
                apply_deferred<Q, Core, true>(nodes, vectors.history, deferred, vectors.contributions, rounding_error);
            // The last step of a launch has no sweep after it that would read other ranks' values. One device saves
            // only a barrier there, and has no branch.
            if (again || !several)
                ranks.template all_reduce<u64>(masses, vectors.contributions, grid, prefetch_other);
        } else {
            vectors.has_correction = 1;
        }
        sync_block();
        if (writes) outer.close(request, inner_l1);
    } while (again);
}

// A launch. Without error feedback, the strategy and the format decide the policy.
template <bool feeds_back, class Q, bool Personal, bool Core, class Residual, class Inner, class RanksOrOne>
CPMS_DEVICE void refine(Residual& residual_strategy, Inner& inner_strategy, const Nodes& nodes,
                        const RefineRequest& request, const RoundedStart& start, const RefineVectors& vectors,
                        const Grid& grid, double* report, const RanksOrOne& ranks) {
    constexpr Update update = feeds_back ? Update::error_feedback : update_for<Inner, Q>;
    ranks.begin();
    persistent_refine<update, Q, Personal, Core>(residual_strategy, inner_strategy, nodes, request, start, vectors,
                                                 grid, report, ranks);
    ranks.end();
    grid.end();
}

}  // namespace cpms

#define CPMS_REFINE_PARAMETERS                                                                                 \
    const __grid_constant__ cpms::Nodes nodes, const __grid_constant__ cpms::RefineRequest request,            \
        const __grid_constant__ cpms::RoundedStart start, const __grid_constant__ cpms::RefineVectors vectors, \
        double *partials, unsigned *arrived, double *report
#define CPMS_RUN_REFINE(RESIDUAL, INNER, ...) \
    cpms::refine<false, __VA_ARGS__>(RESIDUAL, INNER, nodes, request, start, vectors, grid, report, cpms::OneDevice{});
#define CPMS_RUN_FEEDBACK(RESIDUAL, INNER, ...) \
    cpms::refine<true, __VA_ARGS__>(RESIDUAL, INNER, nodes, request, start, vectors, grid, report, cpms::OneDevice{});

// Refinement in a strategy of persistent/instantiate.cuh, without and with error feedback.
#define CPMS_PERSISTENT_REFINE(NAME, STRATEGY, ...) STRATEGY(CPMS_REFINE_PARAMETERS, CPMS_RUN_REFINE, NAME, __VA_ARGS__)
#define CPMS_ERROR_FEEDBACK(NAME, STRATEGY, ...) STRATEGY(CPMS_REFINE_PARAMETERS, CPMS_RUN_FEEDBACK, NAME, __VA_ARGS__)

// The same over the rows of one rank of several.
#define CPMS_RANK_REFINE_PARAMETERS CPMS_REFINE_PARAMETERS, const __grid_constant__ cpms::Ranks ranks
#define CPMS_RUN_RANK_REFINE(RESIDUAL, INNER, ...) \
    cpms::refine<false, __VA_ARGS__>(RESIDUAL, INNER, nodes, request, start, vectors, grid, report, ranks);
#define CPMS_RUN_RANK_FEEDBACK(RESIDUAL, INNER, ...) \
    cpms::refine<true, __VA_ARGS__>(RESIDUAL, INNER, nodes, request, start, vectors, grid, report, ranks);
#define CPMS_RANK_REFINE(NAME, STRATEGY, ...) \
    STRATEGY(CPMS_RANK_REFINE_PARAMETERS, CPMS_RUN_RANK_REFINE, NAME, __VA_ARGS__)
#define CPMS_RANK_FEEDBACK(NAME, STRATEGY, ...) \
    STRATEGY(CPMS_RANK_REFINE_PARAMETERS, CPMS_RUN_RANK_FEEDBACK, NAME, __VA_ARGS__)
