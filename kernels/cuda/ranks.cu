// Sweeps of a rank, one a launch: the host sees to exchanges between them.
#include "rank_sweeps.cuh"

namespace cpms {

// A full sweep, unless the last one made a change below `tol`.
template <bool Refines, bool Personal>
CPMS_DEVICE void ranks_full(const Edges& edges, const Nodes& nodes, const Vector& from, const Vector& into,
                            double* change, const Heard& heard, double tol, u32 norm, double* to, const Grid& grid) {
    __shared__ Room room;
    if (norm_of(norm, heard[Told::l1], heard[Told::squares], heard[Told::linf]) < tol) return tell_nothing(to);
    Ahead ahead;
    ahead.begin(edges);
    sweep_fully<Refines, Personal>(edges, nodes, from, heard, into, change, to, ahead, room, grid);
}

// A low sweep, unless the last one ended the round.
template <class Q, bool Personal>
CPMS_DEVICE void ranks_low(const Edges& edges, const Nodes& nodes, const Storing& storing, const Vector& from,
                           const Vector& into, float* c, const Heard& heard, double* to, const Grid& grid) {
    __shared__ Room room;
    if (!(heard[Told::l1] > heard[Told::until])) return tell_nothing(to);
    Ahead ahead;
    ahead.begin(edges);
    sweep_low<Q, Personal>(edges, nodes, storing, from, heard, into, c, to, ahead, room, grid);
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
