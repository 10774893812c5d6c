// Persistent kernels over several GPUs: power iteration and mixed-precision refinement with the exchanges between
// sweeps inside the kernel (multi_gpu/peer_signals.cuh). The host launches once for many sweeps, so that an exchange
// costs no launch and no synchronisation with the host.
#include "pagerank/refine_request.cuh"
#include "multi_gpu/rank_sweeps.cuh"

namespace cpms {

// Power iteration in float64 between two vectors, until a change is below the request's tolerance.
template <bool Personal>
CPMS_DEVICE void persistent_rank_power(const Edges& edges, const Nodes& nodes, const RefineRequest& request,
                                       const RankVector* given, const Exchange& exchange, const Grid& grid,
                                       double* report_to) {
    __shared__ WorkspaceFor<persistent_threads> workspace;
    __shared__ RankVector vectors[2];
    IndexPrefetch upcoming;
    const auto prefetch = [&] { upcoming.begin(edges); };
    prefetch();
    if (threadIdx.x == 0) {
        for (int k = 0; k < 2; ++k) vectors[k] = given[k];
    }
    exchange.begin();
    SweepLog report(report_to);
    double norm;
    do {
        const RankVector &from = vectors[report.count & 1], &into = vectors[~report.count & 1];
        residual_sweep<false, Personal>(edges, nodes, from, exchange.received(from), into, nullptr,
                                        exchange.own_totals(into), upcoming, workspace, grid);
        exchange.values<u64>(into, grid, prefetch);
        const ReceivedTotals received = exchange.received(into);
        norm =
            norm_of(request.norm, received[RankTotals::l1], received[RankTotals::squares], received[RankTotals::linf]);
        report.record(received[RankTotals::l1], received[RankTotals::squares], received[RankTotals::mass],
                      received[RankTotals::sum], received[RankTotals::linf]);
    } while (norm >= request.tolerance && report.count < request.max_sweeps);
    exchange.end();
}

// Refinement; see pagerank/persistent_refine.cu. The vectors are x, its successor, two for the totals of residual
// sweeps and of products, and the quantised residuals, of which `vectors_kept` are used. No vector may take part in
// two consecutive exchanges.
template <class Q, bool Personal>
CPMS_DEVICE void persistent_rank_refine(const Edges& edges, const Nodes& nodes, const RefineRequest& request,
                                        const RankVector* given, u32 vectors_kept, const Exchange& exchange,
                                        double* residual, float* correction, u32 has_correction, const Grid& grid,
                                        double* report_to) {
    using Word = typename WideningLoad<Q>::Word;
    using Scratch = AndersonWorkspace<typename HistoryValues<Q>::Real>;
    __shared__ WorkspaceFor<persistent_threads> workspace;
    static_assert(sizeof(Scratch) <= sizeof(workspace), "too much to combine");
    __shared__ RankVector vectors[4 + history_length];
    __shared__ AndersonHistory history;
    __shared__ OuterState outer;
    const RankVector &residual_totals = vectors[2], &product_totals = vectors[3], *const sent = vectors + 4;
    IndexPrefetch upcoming;
    const auto prefetch = [&] { upcoming.begin(edges); };
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4 + history_length; ++k) vectors[k] = given[k];
        outer.previous_l1 = outer.predicted_l1 = infinity();
    }
    exchange.begin();
    SweepLog report(report_to);
    u32 current = 0;
    bool again = false;
    do {
        const RankVector &old = vectors[current], &next = vectors[current ^ 1];
        correct(nodes, (double*)old.own, has_correction ? correction : nullptr, exchange.own_totals(old), grid);
        exchange.values<u64>(old, grid, prefetch);
        residual_sweep<true, Personal>(edges, nodes, old, exchange.received(old), next, residual,
                                       exchange.own_totals(residual_totals), upcoming, workspace, grid);
        exchange.totals(residual_totals, grid, prefetch);
        current ^= 1;
        const ReceivedTotals received = exchange.received(residual_totals);
        const double l1 = received[RankTotals::l1], squares = received[RankTotals::squares],
                     linf = received[RankTotals::linf];
        const double norm = norm_of(request.norm, l1, squares, linf);
        report.record(l1, squares, received[RankTotals::mass], received[RankTotals::sum], linf);
        if (!request.max_inner_sweeps || !(norm >= request.tolerance) || !(norm < infinity()) ||
            report.count >= request.max_sweeps)
            break;

        quantise<Q>(nodes, request.settings, residual, correction, sent[0].own, received,
                    inner_tolerance(request, l1, norm), exchange.own_totals(sent[0]), grid);
        if (threadIdx.x == 0) {
            outer.l1 = l1;
            outer.tolerance = inner_tolerance(request, l1, norm);
            outer.residual_sweep = outer.history_begin = report.count;
            outer.vectors = vectors_kept;
        }
        exchange.values<Word>(sent[0], grid, prefetch);
        double inner_l1;
        do {
            if (outer.vectors == history_length && report.count - outer.history_begin == anderson_depth) {
                Scratch& work = *(Scratch*)&workspace;
                load_history(history, sent, exchange.peers.ranks);
                compute_products<Q, true>(nodes.count, OwnHistory{sent}, history, work, grid);
                publish_products(exchange.own_totals(product_totals, product_count), work.products_found);
                exchange.totals(product_totals, grid, [] {}, product_count);
                combine_ranks<Q>(nodes, request.settings, sent, history, exchange.received(sent[anderson_depth]),
                                 product_totals.received, correction, exchange.own_totals(sent[0]), work, grid);
                if (threadIdx.x == 0) {
                    outer.history_begin = report.count;
                    if (!history.worthwhile) outer.vectors = 2;
                }
                exchange.values<Word>(sent[0], grid, prefetch);
            }
            const u32 place = report.count - outer.history_begin, place_mask = outer.vectors == 2 ? 1 : ~0u;
            const RankVector &from = sent[place & place_mask], &into = sent[(place + 1) & place_mask];
            inner_sweep<Q, Personal>(edges, nodes, request.settings, from, exchange.received(from), into, correction,
                                     exchange.own_totals(into), upcoming, workspace, grid);
            exchange.values<Word>(into, grid, prefetch);
            const ReceivedTotals received = exchange.received(into);
            inner_l1 = received[RankTotals::l1];
            report.record(inner_l1, inner_sweep_mark, 0.0, received[RankTotals::sum], 0.0);
        } while (inner_l1 > outer.tolerance && report.count < request.max_sweeps &&
                 report.count - outer.residual_sweep < request.max_inner_sweeps);
        has_correction = 1;
        again = outer.continues(request, report.count);
        __syncthreads();
        if (threadIdx.x == 0) outer.close(request, inner_l1);
    } while (again);
    exchange.end();
}

}  // namespace cpms

#define CPMS_PERSISTENT_RANK_POWER(NAME, THREADS, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                  \
        NAME(CPMS_RANK_GRAPH, const __grid_constant__ cpms::RankVectors<2> vectors,                                \
             const __grid_constant__ cpms::PeerSignals peers, const __grid_constant__ cpms::RefineRequest request, \
             double* report) {                                                                                     \
        const cpms::Grid grid(partials, arrived);                                                                  \
        cpms::persistent_rank_power<__VA_ARGS__>(edges, nodes, request, vectors.of, cpms::Exchange{peers}, grid,   \
                                                 report);                                                          \
        grid.end();                                                                                                \
    }
#define CPMS_PERSISTENT_RANK_REFINE(NAME, THREADS, BLOCKS, ...)                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                    \
        NAME(CPMS_RANK_GRAPH, const __grid_constant__ cpms::RankVectors<4 + cpms::history_length> vectors,           \
             const __grid_constant__ cpms::PeerSignals peers, unsigned vectors_kept,                                 \
             const __grid_constant__ cpms::RefineRequest request, double* residual, float* correction,               \
             unsigned has_correction, double* report) {                                                              \
        const cpms::Grid grid(partials, arrived);                                                                    \
        cpms::persistent_rank_refine<__VA_ARGS__>(edges, nodes, request, vectors.of, vectors_kept,                   \
                                                  cpms::Exchange{peers}, residual, correction, has_correction, grid, \
                                                  report);                                                           \
        grid.end();                                                                                                  \
    }
