// Sweeps of one rank of several: it holds some rows, the values that these read lie in one vector, those of
// other ranks too, and what each rank has found goes to all others with its values.
#include "rounds.cuh"

namespace cpms {

// What a rank tells the others. The first five are summed over ranks, in their order; of the next two the
// largest counts; the others are the same on all: how z is scaled, the ||r||_1 that ends a round, and its low
// sweeps so far. These are told and not given, so that the launches of all sweeps are the same.
struct Told {
    enum Which { mass, left_over, l1, squares, sum, linf, largest, scale, until, sweeps, count };
};  // left over: dangling mass, or mass that rounding lost

// A walk has no register left: what is in shared memory instead, and few pieces together, keep the compiler from
// putting aside what has just been gathered, which every step would have to wait for.
constexpr int pieces_together = 4;

struct Heard {
    const double* by_rank;
    u32 ranks;

    CPMS_DEVICE double operator[](Told::Which which) const {
        double all = by_rank[which];
        for (u32 rank = 1; rank < ranks && which < Told::scale; ++rank) {
            const double one = by_rank[rank * Told::count + which];
            all = which < Told::linf ? all + one : Larger{}(all, one);
        }
        return all;
    }
};

CPMS_DEVICE void tell(double* to, const double (&numbers)[Told::count]) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < Told::count; ++q) to[q] = numbers[q];
    }
}

// A sweep that has nothing to do says so to the one behind it.
CPMS_DEVICE void tell_nothing(double* to) { tell(to, {}); }

CPMS_DEVICE double infinity() { return value_of(0x7FF0000000000000ull); }

// Adds c, if there is one, and tells mass and dangling mass.
CPMS_DEVICE void ranks_correct(const Nodes& nodes, double* shares, const float* c, double* to, const Grid& grid) {
    Totals<2, 0> found = corrected(nodes, shares, c);
    found.over_grid(grid);
    tell(to, {found.value[0], found.value[1], infinity(), infinity(), 0.0, infinity(), 0.0, 0.0, 0.0, 0.0});
}

// A full sweep over `all`, of which `shares` is this rank's stretch, unless the last one made a change below `tol`.
template <bool Refines, bool Personal>
CPMS_DEVICE void ranks_full(const Edges& edges, const Nodes& nodes, const double* all, const double* shares,
                            double* fresh, double* change, const Heard& heard, double tol, u32 norm, double* to,
                            const Grid& grid) {
    __shared__ Room room;
    if (norm_of(norm, heard[Told::l1], heard[Told::squares], heard[Told::linf]) < tol) return tell_nothing(to);
    const double whole = Refines ? heard[Told::mass] : 1.0;
    __shared__ FullFactors by;
    if (threadIdx.x == 0) by = FullFactors::of(nodes, whole, heard[Told::left_over]);
    __syncthreads();
    FullEnd<Refines, Personal> end{nodes, by, shares, fresh, change};
    Ahead ahead;
    ahead.begin(edges);
    walk<double, pieces_together>(edges, ahead, (const u8*)all, room, end);
    Totals<6, 2> found{{end.l1, end.squares, end.mass, end.other, end.linf, end.largest}};
    found.over_grid(grid);
    const double* const v = found.value;
    tell(to, {v[2], Refines ? 0.0 : v[3], v[0], v[1], Refines ? v[3] : 0.0, v[4], v[5], 0.0, 0.0, 0.0});
}

// The first z of a round, from the change that the full sweep made; the round ends once ||r||_1 is at most `until`.
template <class Q>
CPMS_DEVICE void ranks_quantise(const Nodes& nodes, const Storing& storing, const double* change, float* c, u8* z,
                                const Heard& heard, double until, double* to, const Grid& grid) {
    const LowState state = quantised<Q>(nodes, storing, change, heard[Told::largest], c, z, grid);
    tell(to, {0.0, state.lost, infinity(), 0.0, 0.0, 0.0, state.largest, (double)state.exponent, until, 0.0});
}

// A low sweep over `all`, unless the last one ended the round. Where rounding is random, no two ranks or sweeps of a
// round round alike.
template <class Q, bool Personal>
CPMS_DEVICE void ranks_low(const Edges& edges, const Nodes& nodes, const Storing& storing, const u8* all, u8* z,
                           float* c, const Heard& heard, double* to, const Grid& grid) {
    __shared__ Room room;
    if (!(heard[Told::l1] > heard[Told::until])) return tell_nothing(to);
    const u64 seed = storing.seed + (u64)(heard[Told::sweeps] + 1.0) * heard.ranks * 0xD1B54A32D192ED03ull;
    __shared__ LowFactors by;
    __shared__ int next;
    if (threadIdx.x == 0) {
        next = shared_scale(storing.scaled, storing.top, heard[Told::largest]);
        by = LowFactors::of<Q>(nodes, (int)heard[Told::scale], next, heard[Told::left_over]);
    }
    __syncthreads();
    LowEnd<Q, Personal> end(nodes, by, c, z, seed);
    Ahead ahead;
    ahead.begin(edges);
    walk<Q, pieces_together>(edges, ahead, all, room, end);
    Totals<4, 1> found{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next)}};
    found.over_grid(grid);
    const double* const v = found.value;
    tell(to, {0.0, v[2], v[0], 0.0, v[1], 0.0, v[3], (double)next, heard[Told::until],
              heard[Told::sweeps] + 1.0});
}

}  // namespace cpms

#define CPMS_RANK_PARAMETERS                                                                                \
    const unsigned *sources, const unsigned short *marks, const unsigned *begins,                           \
        const unsigned *first_rows, const unsigned *first_stretches, unsigned stretches,                    \
        unsigned steps, unsigned each, unsigned long long *pieces,                                          \
        const unsigned *degree, const double *sink, const double *teleport,                                 \
        unsigned sink_step, unsigned teleport_step, unsigned count, double damping,                         \
        double *partials, unsigned *came, const double *heard, unsigned ranks, double *to
#define CPMS_RANK_EDGES                                                                                     \
    cpms::Edges { sources, marks, begins, first_rows, first_stretches, stretches, steps, count, each, cpms::TaskPieces{pieces} }
#define CPMS_RANK_NODES                                                                                     \
    cpms::Nodes { degree, sink, teleport, sink_step, teleport_step, count, damping }
#define CPMS_RANK_HEARD                                                                                     \
    cpms::Heard { heard, ranks }

#define CPMS_RANKS_CORRECT(NAME, THREADS, BLOCKS)                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, double* shares, const float* c) {                                        \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_correct(CPMS_RANK_NODES, shares, c, to, grid);                                          \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_FULL(NAME, THREADS, BLOCKS, ...)                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, const double* all, const double* shares, double* fresh, double* change,  \
             double tol, unsigned norm) {                                                                   \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_full<__VA_ARGS__>(CPMS_RANK_EDGES, CPMS_RANK_NODES, all, shares, fresh, change,         \
                                      CPMS_RANK_HEARD, tol, norm, to, grid);                                \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_QUANTISE(NAME, THREADS, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, unsigned scaled, int top, unsigned long long seed, const double* change, \
             float* c, unsigned char* z, double until) {                                                    \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_quantise<__VA_ARGS__>(CPMS_RANK_NODES, cpms::Storing{scaled, top, seed}, change, c, z,  \
                                          CPMS_RANK_HEARD, until, to, grid);                                \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_LOW(NAME, THREADS, BLOCKS, ...)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_PARAMETERS, unsigned scaled, int top, unsigned long long seed,                       \
             const unsigned char* all, unsigned char* z, float* c) {                                        \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_low<__VA_ARGS__>(CPMS_RANK_EDGES, CPMS_RANK_NODES, cpms::Storing{scaled, top, seed},    \
                                     all, z, c, CPMS_RANK_HEARD, to, grid);                                 \
        grid.end();                                                                                         \
    }
