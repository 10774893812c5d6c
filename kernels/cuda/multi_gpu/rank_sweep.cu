// Sweeps of a rank, one a launch: the host sees to exchanges between them.
#include "multi_gpu/rank_sweeps.cuh"

namespace cpms {

// A full sweep, unless the last one made a change below `tol`.
template <bool Refines, bool Personal>
CPMS_DEVICE void ranks_full(const Edges& edges, const Nodes& nodes, const Vector& from, const Vector& into,
                            double* change, const Heard& heard, double tol, u32 norm, double* to, const Grid& grid) {
    __shared__ RoomFor<resident_threads> room;
    if (norm_of(norm, heard[Told::l1], heard[Told::squares], heard[Told::linf]) < tol) return tell_nothing(to);
    Ahead ahead;
    ahead.begin(edges);
    sweep_fully<Refines, Personal>(edges, nodes, from, heard, into, change, to, ahead, room, grid);
}

// A low sweep, unless the last one ended the round.
template <class Q, bool Personal>
CPMS_DEVICE void ranks_low(const Edges& edges, const Nodes& nodes, const Storing& storing, const Vector& from,
                           const Vector& into, float* c, const Heard& heard, double* to, const Grid& grid) {
    __shared__ RoomFor<resident_threads> room;
    if (!(heard[Told::l1] > heard[Told::until])) return tell_nothing(to);
    Ahead ahead;
    ahead.begin(edges);
    sweep_low<Q, Personal>(edges, nodes, storing, from, heard, into, c, to, ahead, room, grid);
}

// What low sweeps left to be combined, unless the last one ended the round.
template <class Q>
CPMS_DEVICE void ranks_products(const Nodes& nodes, const Vector* z, const Heard& last, double* to, const Grid& grid) {
    __shared__ Past past;
    __shared__ Combination<typename StoredValues<Q>::Real> by;
    if (!(last[Told::l1] > last[Told::until])) return;
    recall(past, z, last.ranks);
    find_products<Q, true>(nodes.count, OwnPlaces{z}, past, by, grid);
    tell_products(to, by.found);
}

template <class Q>
CPMS_DEVICE void ranks_combine(const Nodes& nodes, const Storing& storing, const Vector* z, const Heard& last,
                               const double* told_products, float* c, double* to, const Grid& grid) {
    __shared__ Past past;
    __shared__ Combination<typename StoredValues<Q>::Real> by;
    if (!(last[Told::l1] > last[Told::until])) return tell_nothing(to);
    recall(past, z, last.ranks);
    weigh<Q>(past, by);
    combine<Q>(nodes, storing, z, past, last, told_products, c, to, by, grid);
}

}  // namespace cpms

#define CPMS_RANK_PARAMETERS CPMS_RANK_GRAPH, const double *heard, unsigned ranks, double *to
#define CPMS_RANK_HEARD                                                                                     \
    cpms::Heard { heard, ranks }
#define CPMS_RANK_VECTORS(ALL, OWN, OUT) cpms::Vector{(const unsigned char*)(ALL), (unsigned char*)(OWN)},  \
                                         cpms::Vector{nullptr, (unsigned char*)(OUT)}

#define CPMS_RANKS_CORRECT(NAME, THREADS, BLOCKS)                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, double* shares, const float* c) {                                        \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::correct(CPMS_RANK_NODES, shares, c, to, grid);                                                \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_FULL(NAME, THREADS, BLOCKS, ...)                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, const double* all, double* shares, double* fresh, double* change,        \
             double tol, unsigned norm) {                                                                   \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_full<__VA_ARGS__>(CPMS_EDGES, CPMS_RANK_NODES,                                     \
                                      CPMS_RANK_VECTORS(all, shares, fresh), change, CPMS_RANK_HEARD, tol,  \
                                      norm, to, grid);                                                      \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_QUANTISE(NAME, THREADS, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, unsigned scaled, int top, unsigned long long seed, const double* change, \
             float* c, unsigned char* z, double until) {                                                    \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::quantise<__VA_ARGS__>(CPMS_RANK_NODES, cpms::Storing{scaled, top, seed}, change, c, z,        \
                                    CPMS_RANK_HEARD, until, to, grid);                                      \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_LOW(NAME, THREADS, BLOCKS, ...)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, unsigned scaled, int top, unsigned long long seed,                       \
             const unsigned char* all, unsigned char* z, float* c) {                                        \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_low<__VA_ARGS__>(CPMS_EDGES, CPMS_RANK_NODES, cpms::Storing{scaled, top, seed},    \
                                     CPMS_RANK_VECTORS(all, nullptr, z), c, CPMS_RANK_HEARD, to, grid);     \
        grid.end();                                                                                         \
    }
#define CPMS_RANK_KEPT                                                                                      \
    unsigned char *z0, unsigned char *z1, unsigned char *z2, unsigned char *z3, unsigned char *z4,          \
        unsigned char *z5, unsigned char *z6, unsigned char *z7, unsigned char *z8, double *told0,          \
        double *told1, double *told2, double *told3, double *told4, double *told5, double *told6,           \
        double *told7, double *told8
#define CPMS_RANK_KEPT_GIVEN                                                                                \
    __shared__ cpms::Vector z[cpms::kept_sweeps];                                                           \
    if (threadIdx.x == 0) {                                                                                 \
        unsigned char* const own[] = {z0, z1, z2, z3, z4, z5, z6, z7, z8};                                  \
        double* const told[] = {told0, told1, told2, told3, told4, told5, told6, told7, told8};             \
        for (int k = 0; k < cpms::kept_sweeps; ++k) z[k] = cpms::Vector{nullptr, own[k], told[k]};          \
    }                                                                                                       \
    __syncthreads();
#define CPMS_RANKS_PRODUCTS(NAME, THREADS, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, CPMS_RANK_KEPT) {                                                        \
        const cpms::Grid grid(partials, came);                                                              \
        CPMS_RANK_KEPT_GIVEN                                                                                \
        cpms::ranks_products<__VA_ARGS__>(CPMS_RANK_NODES, z, CPMS_RANK_HEARD, to, grid);                   \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_COMBINE(NAME, THREADS, BLOCKS, ...)                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, CPMS_RANK_KEPT, unsigned scaled, int top, unsigned long long seed,       \
             const double* products, float* c) {                                                            \
        const cpms::Grid grid(partials, came);                                                              \
        CPMS_RANK_KEPT_GIVEN                                                                                \
        cpms::ranks_combine<__VA_ARGS__>(CPMS_RANK_NODES, cpms::Storing{scaled, top, seed}, z,              \
                                         CPMS_RANK_HEARD, products, c, to, grid);                           \
        grid.end();                                                                                         \
    }
