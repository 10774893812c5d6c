// Sweeps of one rank of several: it holds some rows, the values that these read lie in one vector, those of other
// ranks too, and what each rank has found goes to all others with its values.
#pragma once
#include "pagerank/anderson.cuh"
#include "pagerank/sweep_epilogues.cuh"
#include "persistent/segmented_sum.cuh"
#include "multi_gpu/rank_totals.cuh"

namespace cpms {

// A walk has no register left: what is in shared memory instead, and few pieces together, keep the compiler from
// putting aside what has just been gathered, which every step would have to wait for.
constexpr int pieces_together = 4;

// Adds c, if there is one, and tells mass and dangling mass.
CPMS_DEVICE void correct(const Nodes& nodes, double* shares, const float* c, double* to, const Grid& grid) {
    Totals<2, 0> found = corrected(nodes, shares, c);
    found.over_grid(grid);
    tell(to, {found.value[0], found.value[1], infinity(), infinity(), 0.0, infinity(), 0.0, 0.0, 0.0, 0.0, 0.0});
}

// A full sweep from one vector to the other; `ahead` has begun.
template <bool Refines, bool Personal>
CPMS_DEVICE void sweep_fully(const Edges& edges, const Nodes& nodes, const Vector& from, const Heard& heard,
                             const Vector& into, double* change, double* to, Ahead& ahead, Room& room,
                             const Grid& grid) {
    __shared__ FullFactors by;
    const double whole = Refines ? heard[Told::mass] : 1.0;
    if (threadIdx.x == 0) by = FullFactors::of(nodes, Common::of(nodes), whole, heard[Told::left_over]);
    __syncthreads();
    FullEnd<Refines, Personal> end{nodes, by, (const double*)from.own, (double*)into.own, change};
    walk<double, pieces_together>(edges, ahead, from.all, room, end);
    Totals<6, 2> found{{end.l1, end.squares, end.mass, end.other, end.linf, end.largest}};
    found.over_grid(grid);
    const double* const v = found.value;
    tell(to, {v[2], Refines ? 0.0 : v[3], v[0], v[1], Refines ? v[3] : 0.0, v[4], v[5], 0.0, 0.0, 0.0, 0.0});
}

// The first z of a round, from the change that the full sweep made; the round ends once ||r||_1 is at most `until`.
template <class Q>
CPMS_DEVICE void quantise(const Nodes& nodes, const Storing& storing, const double* change, float* c, u8* z,
                          const Heard& heard, double until, double* to, const Grid& grid) {
    const LowState state = quantised<Q>(nodes, storing, change, heard[Told::largest], c, z, grid);
    const double sum = heard[Told::sum] / heard.ranks;
    tell(to, {0.0, state.lost, infinity(), 0.0, sum, 0.0, state.largest, (double)state.exponent, until, 0.0, 1.0});
}

// Where rounding is random, no two ranks or sweeps of a round round alike.
CPMS_DEVICE u64 seed_behind(const Storing& storing, const Heard& heard) {
    return storing.seed + (u64)(heard[Told::sweeps] + 1.0) * heard.ranks * 0xD1B54A32D192ED03ull;
}

// A low sweep from one vector to the other; `ahead` has begun.
template <class Q, bool Personal>
CPMS_DEVICE void sweep_low(const Edges& edges, const Nodes& nodes, const Storing& storing, const Vector& from,
                           const Heard& heard, const Vector& into, float* c, double* to, Ahead& ahead, Room& room,
                           const Grid& grid) {
    __shared__ LowFactors by;
    __shared__ int next;
    const u64 seed = seed_behind(storing, heard);
    if (threadIdx.x == 0) {
        next = shared_scale(storing.scaled, storing.top, heard[Told::largest]);
        by = LowFactors::of<Q>(nodes, Common::of(nodes), (int)heard[Told::scale], next, heard[Told::left_over]);
    }
    __syncthreads();
    LowEnd<Q, Personal> end(nodes, by, c, into.own, seed);
    walk<Q, pieces_together>(edges, ahead, from.all, room, end);
    Totals<4, 1> found{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next)}};
    found.over_grid(grid);
    const double* const v = found.value;
    tell(to, {0.0, v[2], v[0], 0.0, v[1], 0.0, v[3], (double)next, heard[Told::until], heard[Told::sweeps] + 1.0,
              heard[Told::combines]});
}

// Where a rank's own z lie that are kept.
struct OwnPlaces {
    const Vector* z;

    CPMS_DEVICE u8* at(u32 place) const { return z[place].own; }
};

// What there is to know of the z that are kept, from what ranks told with each. Of sums, every rank has its share.
CPMS_DEVICE void recall(Past& past, const Vector* z, u32 ranks) {
    if (threadIdx.x >= kept_sweeps) return;
    const Heard heard{z[threadIdx.x].heard, ranks};
    past.largest[threadIdx.x] = heard[Told::largest];
    past.sum[threadIdx.x] = heard[Told::sum] / heard.ranks;
    past.exponent[threadIdx.x] = (int)heard[Told::scale];
}

// Tells others the products that a rank has found.
CPMS_DEVICE void tell_products(double* to, const double* found) {
    if (blockIdx.x == 0 && threadIdx.x < products) to[threadIdx.x] = found[threadIdx.x];
}

// Combines what low sweeps found, by the products of all ranks; `last` is what they told of the last one.
template <class Q>
CPMS_DEVICE void combine(const Nodes& nodes, const Storing& storing, const Vector* z, Past& past, const Heard& last,
                         const double* told_products, float* c, double* to,
                         Combination<typename StoredValues<Q>::Real>& by, const Grid& grid) {
    __syncthreads();
    if (threadIdx.x < products) {
        double found = told_products[threadIdx.x];
        for (u32 rank = 1; rank < last.ranks; ++rank) found += told_products[rank * products + threadIdx.x];
        by.found[threadIdx.x] = found;
    }
    __syncthreads();
    const u64 seed = seed_behind(storing, last);
    const LowState state = combined<Q, false>(nodes, storing, OwnPlaces{z}, past, c, by, seed, grid);
    tell(to, {0.0, state.lost, infinity(), 0.0, past.sum[0], 0.0, state.largest, (double)state.exponent,
              last[Told::until], last[Told::sweeps], past.pays ? 1.0 : 0.0});
}

}  // namespace cpms

#define CPMS_RANK_GRAPH                                                                                     \
    CPMS_EDGES_PARAMETERS, const unsigned *degree, const double *sink, const double *teleport,              \
        unsigned sink_step, unsigned teleport_step, unsigned count, double damping,                         \
        double *partials, unsigned *came
#define CPMS_RANK_NODES                                                                                     \
    cpms::Nodes { degree, sink, teleport, sink_step, teleport_step, count, damping }
