// Sweeps of one rank of several. A rank owns some rows; the values that these read, other ranks' included, lie in one
// vector, and each rank's totals travel with its values.
#pragma once
#include "pagerank/anderson.cuh"
#include "pagerank/sweep_epilogues.cuh"
#include "persistent/segmented_sum.cuh"
#include "multi_gpu/rank_totals.cuh"

namespace cpms {

// The segmented sum has no register left here. Scalars in shared memory and few carry-outs in flight keep the
// compiler from moving gathered values to other registers, which would wait for them.
constexpr int carry_outs_in_flight = 4;

// Adds the correction, if there is one, and publishes mass and dangling mass.
CPMS_DEVICE void correct(const Nodes& nodes, double* contributions, const float* correction, double* to,
                         const Grid& grid) {
    GridReduce<2, 0> found = apply_correction(nodes, contributions, correction);
    found.all_reduce(grid);
    publish_totals(to,
                   {found.value[0], found.value[1], infinity(), infinity(), 0.0, infinity(), 0.0, 0.0, 0.0, 0.0, 0.0});
}

// A residual sweep from one vector to the other; `upcoming` has begun.
template <bool Refines, bool Personal>
CPMS_DEVICE void residual_sweep(const Edges& edges, const Nodes& nodes, const RankVector& from,
                                const ReceivedTotals& received, const RankVector& into, double* residual, double* to,
                                IndexPrefetch& upcoming, Workspace& workspace, const Grid& grid) {
    __shared__ ResidualFactors by;
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
CPMS_DEVICE void quantise(const Nodes& nodes, const QuantiserSettings& settings, const double* residual,
                          float* correction, u8* sent, const ReceivedTotals& received, double tolerance, double* to,
                          const Grid& grid) {
    const InnerState state =
        quantise_residual<Q>(nodes, settings, residual, received[RankTotals::largest], correction, sent, grid);
    const double sum = received[RankTotals::sum] / received.ranks;
    publish_totals(
        to, {0.0, state.lost, infinity(), 0.0, sum, 0.0, state.largest, (double)state.exponent, tolerance, 0.0, 1.0});
}

// Different seeds of stochastic rounding for all ranks and sweeps of an outer step.
CPMS_DEVICE u64 next_seed(const QuantiserSettings& settings, const ReceivedTotals& received) {
    return settings.seed + (u64)(received[RankTotals::inner_sweeps] + 1.0) * received.ranks * 0xD1B54A32D192ED03ull;
}

// An inner sweep from one vector to the other; `upcoming` has begun.
template <class Q, bool Personal>
CPMS_DEVICE void inner_sweep(const Edges& edges, const Nodes& nodes, const QuantiserSettings& settings,
                             const RankVector& from, const ReceivedTotals& received, const RankVector& into,
                             float* correction, double* to, IndexPrefetch& upcoming, Workspace& workspace,
                             const Grid& grid) {
    __shared__ InnerFactors by;
    __shared__ int next;
    const u64 seed = next_seed(settings, received);
    if (threadIdx.x == 0) {
        next = shared_exponent(settings.scaled, settings.top, received[RankTotals::largest]);
        by = InnerFactors::of<Q>(nodes, UniformInflow::of(nodes), (int)received[RankTotals::scale], next,
                                 received[RankTotals::lost_mass]);
    }
    __syncthreads();
    InnerEpilogue<Q, Personal> end(nodes, by, correction, into.own, seed);
    segmented_sum<Q, carry_outs_in_flight>(edges, upcoming, from.all, workspace, end);
    GridReduce<4, 1> found{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next)}};
    found.all_reduce(grid);
    const double* const totals = found.value;
    publish_totals(
        to, {0.0, totals[2], totals[0], 0.0, totals[1], 0.0, totals[3], (double)next, received[RankTotals::tolerance],
             received[RankTotals::inner_sweeps] + 1.0, received[RankTotals::worthwhile]});
}

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

// Publishes a rank's products.
CPMS_DEVICE void publish_products(double* to, const double* found) {
    if (blockIdx.x == 0 && threadIdx.x < product_count) to[threadIdx.x] = found[threadIdx.x];
}

// Anderson combination from the products of all ranks; `last_received` are the totals of the last sweep.
template <class Q>
CPMS_DEVICE void combine_ranks(const Nodes& nodes, const QuantiserSettings& settings, const RankVector* sent,
                               AndersonHistory& history, const ReceivedTotals& last_received,
                               const double* received_products, float* correction, double* to,
                               AndersonWorkspace<typename HistoryValues<Q>::Real>& by, const Grid& grid) {
    __syncthreads();
    if (threadIdx.x < product_count) {
        double found = received_products[threadIdx.x];
        for (u32 rank = 1; rank < last_received.ranks; ++rank)
            found += received_products[rank * product_count + threadIdx.x];
        by.products_found[threadIdx.x] = found;
    }
    __syncthreads();
    const u64 seed = next_seed(settings, last_received);
    const InnerState state =
        combine_history<Q, false>(nodes, settings, OwnHistory{sent}, history, correction, by, seed, grid);
    publish_totals(to, {0.0, state.lost, infinity(), 0.0, history.sum[0], 0.0, state.largest, (double)state.exponent,
                        last_received[RankTotals::tolerance], last_received[RankTotals::inner_sweeps],
                        history.worthwhile ? 1.0 : 0.0});
}

}  // namespace cpms

#define CPMS_RANK_GRAPH                                                                                     \
    const __grid_constant__ cpms::Edges edges, const __grid_constant__ cpms::Nodes nodes, double *partials, \
        unsigned *arrived
