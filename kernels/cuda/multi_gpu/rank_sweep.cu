// Sweeps of one rank of several, one a launch, for ranks that cannot exchange within a kernel: mixed-precision
// refinement and power iteration as in pagerank/persistent_refine.cu and pagerank/persistent_power.cu. The host queues
// the exchanges between launches. A rank owns some rows; the values that these read, other ranks' included, lie in one
// vector, and each rank's totals travel with its values. Each kernel reads from the last exchange whether it still has
// work, so that the host can launch ahead. A sweep costs two launches and an exchange by the host.
#include "multi_gpu/rank_totals.cuh"
#include "pagerank/anderson.cuh"
#include "pagerank/sweep_epilogues.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

// The segmented sum has no register left here. Scalars in shared memory and few carry-outs in flight keep the
// compiler from moving gathered values to other registers, which would wait for them.
constexpr int carry_outs_in_flight = 4;

// Adds the correction, if there is one, and publishes mass and dangling mass.
CPMS_DEVICE void rank_correct(const Nodes& nodes, double* contributions, const float* correction, double* to,
                              const Grid& grid) {
    GridReduce<2, 0> found = apply_correction(nodes, contributions, correction);
    found.all_reduce(grid);
    publish_totals(to,
                   {found.value[0], found.value[1], infinity(), infinity(), 0.0, infinity(), 0.0, 0.0, 0.0, 0.0, 0.0});
}

// A residual sweep from one vector to the other, unless the last change was below `tolerance`.
template <bool Refines, bool Personal>
CPMS_DEVICE void rank_residual_sweep(const Edges& edges, const Nodes& nodes, const RankVector& from,
                                     const RankVector& into, double* residual, const ReceivedTotals& received,
                                     double tolerance, u32 norm, double* to, const Grid& grid) {
    __shared__ WorkspaceFor<persistent_threads> workspace;
    __shared__ ResidualFactors by;
    if (norm_of(norm, received[RankTotals::l1], received[RankTotals::squares], received[RankTotals::linf]) < tolerance)
        return publish_idle(to);
    IndexPrefetch upcoming;
    upcoming.begin(edges);
    const double mass = Refines ? received[RankTotals::mass] : 1.0;
    if (threadIdx.x == 0)
        by = ResidualFactors::of(nodes, UniformInflow::of(nodes), mass, received[RankTotals::lost_mass]);
    __syncthreads();
    ResidualEpilogue<Refines, Personal> end{nodes, by, (const double*)from.own, (double*)into.own, residual};
    segmented_sum<double, carry_outs_in_flight>(edges, upcoming, from.all, workspace, end);
    GridReduce<6, 2> found{{end.l1, end.squares, end.mass, end.sum_or_dangling, end.linf, end.largest}};
    found.all_reduce(grid);
    const double* const totals = found.value;
    publish_totals(to, {totals[2], Refines ? 0.0 : totals[3], totals[0], totals[1], Refines ? totals[3] : 0.0,
                        totals[4], totals[5], 0.0, 0.0, 0.0, 0.0});
}

// The first quantised residual of an outer step, which ends once ||r||_1 is at most `tolerance`.
template <class Q>
CPMS_DEVICE void rank_quantise(const Nodes& nodes, const QuantiserSettings& settings, const double* residual,
                               float* correction, u8* sent, const ReceivedTotals& received, double tolerance,
                               double* to, const Grid& grid) {
    const InnerState state =
        quantise_residual<Q>(nodes, settings, residual, received[RankTotals::largest], correction, sent, grid);
    const double sum = received[RankTotals::sum] / received.ranks;
    publish_totals(
        to, {0.0, state.lost, infinity(), 0.0, sum, 0.0, state.largest, (double)state.exponent, tolerance, 0.0, 1.0});
}

// Different seeds of stochastic rounding for all ranks and sweeps of an outer step; the multiplier is that of
// pagerank/persistent_refine.cu.
CPMS_DEVICE u64 next_seed(const QuantiserSettings& settings, const ReceivedTotals& received) {
    return settings.seed + (u64)(received[RankTotals::inner_sweeps] + 1.0) * received.ranks * 0xD1B54A32D192ED03ull;
}

// An inner sweep from one vector to the other, unless the last one ended the outer step.
template <class Q, bool Personal>
CPMS_DEVICE void rank_inner_sweep(const Edges& edges, const Nodes& nodes, const QuantiserSettings& settings,
                                  const RankVector& from, const RankVector& into, float* correction,
                                  const ReceivedTotals& received, double* to, const Grid& grid) {
    __shared__ WorkspaceFor<persistent_threads> workspace;
    __shared__ InnerFactors by;
    __shared__ int next_exponent;
    if (received.outer_step_ended()) return publish_idle(to);
    IndexPrefetch upcoming;
    upcoming.begin(edges);
    const u64 seed = next_seed(settings, received);
    if (threadIdx.x == 0) {
        next_exponent = shared_exponent(settings.scaled, settings.top, received[RankTotals::largest]);
        by = InnerFactors::of<Q>(nodes, UniformInflow::of(nodes), (int)received[RankTotals::scale], next_exponent,
                                 received[RankTotals::lost_mass]);
    }
    __syncthreads();
    InnerEpilogue<Q, Personal> end(nodes, by, correction, into.own, seed);
    segmented_sum<Q, carry_outs_in_flight>(edges, upcoming, from.all, workspace, end);
    GridReduce<4, 1> found{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next_exponent)}};
    found.all_reduce(grid);
    const double* const totals = found.value;
    publish_totals(to, {0.0, totals[2], totals[0], 0.0, totals[1], 0.0, totals[3], (double)next_exponent,
                        received[RankTotals::tolerance], received[RankTotals::inner_sweeps] + 1.0,
                        received[RankTotals::worthwhile]});
}

// This rank's part of each history vector, and the totals that travelled with it.
struct RankHistory {
    u8* own[history_length];
    double* received[history_length];

    // The vectors in shared memory.
    CPMS_DEVICE const RankVector* vectors() const {
        __shared__ RankVector of[history_length];
        if (threadIdx.x == 0) {
            for (int k = 0; k < history_length; ++k) of[k] = RankVector{nullptr, own[k], received[k]};
        }
        __syncthreads();
        return of;
    }
};

// The addresses of a rank's own history vectors.
struct OwnHistory {
    const RankVector* sent;

    CPMS_DEVICE u8* at(u32 place) const { return sent[place].own; }
};

// Fills the history from the totals that ranks sent with each vector. Every rank holds an equal part of a sum.
CPMS_DEVICE void load_history(AndersonHistory& history, const RankVector* sent, u32 ranks) {
    if (threadIdx.x >= history_length) return;
    const ReceivedTotals received{sent[threadIdx.x].received, ranks};
    history.largest[threadIdx.x] = received[RankTotals::largest];
    history.sum[threadIdx.x] = received[RankTotals::sum] / received.ranks;
    history.exponent[threadIdx.x] = (int)received[RankTotals::scale];
}

// A rank's products of the history vectors, unless the last sweep ended the outer step; last_received are its totals.
template <class Q>
CPMS_DEVICE void rank_products(const Nodes& nodes, const RankVector* sent, const ReceivedTotals& last_received,
                               double* to, const Grid& grid) {
    __shared__ AndersonHistory history;
    __shared__ AndersonWorkspace<typename HistoryValues<Q>::Real> work;
    if (last_received.outer_step_ended()) return;
    load_history(history, sent, last_received.ranks);
    compute_products<Q, true>(nodes.count, OwnHistory{sent}, history, work, grid);
    if (blockIdx.x == 0 && threadIdx.x < product_count) to[threadIdx.x] = work.products_found[threadIdx.x];
}

// Anderson combination from the products of all ranks, unless the last sweep ended the outer step.
template <class Q>
CPMS_DEVICE void rank_combine(const Nodes& nodes, const QuantiserSettings& settings, const RankVector* sent,
                              const ReceivedTotals& last_received, const double* received_products, float* correction,
                              double* to, const Grid& grid) {
    __shared__ AndersonHistory history;
    __shared__ AndersonWorkspace<typename HistoryValues<Q>::Real> work;
    if (last_received.outer_step_ended()) return publish_idle(to);
    load_history(history, sent, last_received.ranks);
    prepare_scales<Q>(history, work);
    if (threadIdx.x < product_count) {
        double found = received_products[threadIdx.x];
        for (u32 rank = 1; rank < last_received.ranks; ++rank)
            found += received_products[rank * product_count + threadIdx.x];
        work.products_found[threadIdx.x] = found;
    }
    __syncthreads();
    const u64 seed = next_seed(settings, last_received);
    const InnerState state =
        combine_history<Q, false>(nodes, settings, OwnHistory{sent}, history, correction, work, seed, grid);
    publish_totals(to, {0.0, state.lost, infinity(), 0.0, history.sum[0], 0.0, state.largest, (double)state.exponent,
                        last_received[RankTotals::tolerance], last_received[RankTotals::inner_sweeps],
                        history.worthwhile ? 1.0 : 0.0});
}

}  // namespace cpms

#define CPMS_RANK_PARAMETERS                                                                                \
    const __grid_constant__ cpms::Edges edges, const __grid_constant__ cpms::Nodes nodes, double *partials, \
        unsigned *arrived, const __grid_constant__ cpms::ReceivedTotals received, double *to
#define CPMS_RANK_CORRECT(NAME, THREADS, BLOCKS)                                                              \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, double* contributions, const float* correction) { \
        const cpms::Grid grid(partials, arrived);                                                             \
        cpms::rank_correct(nodes, contributions, correction, to, grid);                                       \
        grid.end();                                                                                           \
    }
#define CPMS_RANK_RESIDUAL_SWEEP(NAME, THREADS, BLOCKS, ...)                                                      \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::RankVector from,        \
                                      const __grid_constant__ cpms::RankVector into, double* residual,            \
                                      double tolerance, unsigned norm) {                                          \
        const cpms::Grid grid(partials, arrived);                                                                 \
        cpms::rank_residual_sweep<__VA_ARGS__>(edges, nodes, from, into, residual, received, tolerance, norm, to, \
                                               grid);                                                             \
        grid.end();                                                                                               \
    }
#define CPMS_RANK_QUANTISE(NAME, THREADS, BLOCKS, ...)                                                                \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::QuantiserSettings settings, \
                                      const double* residual, float* correction, unsigned char* sent,                 \
                                      double tolerance) {                                                             \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::rank_quantise<__VA_ARGS__>(nodes, settings, residual, correction, sent, received, tolerance, to, grid); \
        grid.end();                                                                                                   \
    }
#define CPMS_RANK_INNER_SWEEP(NAME, THREADS, BLOCKS, ...)                                                             \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::QuantiserSettings settings, \
                                      const __grid_constant__ cpms::RankVector from,                                  \
                                      const __grid_constant__ cpms::RankVector into, float* correction) {             \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::rank_inner_sweep<__VA_ARGS__>(edges, nodes, settings, from, into, correction, received, to, grid);      \
        grid.end();                                                                                                   \
    }
#define CPMS_RANK_PRODUCTS(NAME, THREADS, BLOCKS, ...)                                                           \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::RankHistory history) { \
        const cpms::Grid grid(partials, arrived);                                                                \
        cpms::rank_products<__VA_ARGS__>(nodes, history.vectors(), received, to, grid);                          \
        grid.end();                                                                                              \
    }
#define CPMS_RANK_COMBINE(NAME, THREADS, BLOCKS, ...)                                                                \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::RankHistory history,       \
                                      const __grid_constant__ cpms::QuantiserSettings settings,                      \
                                      const double* received_products, float* correction) {                          \
        const cpms::Grid grid(partials, arrived);                                                                    \
        cpms::rank_combine<__VA_ARGS__>(nodes, settings, history.vectors(), received, received_products, correction, \
                                        to, grid);                                                                   \
        grid.end();                                                                                                  \
    }
